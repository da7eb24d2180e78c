"""Callers of responses: unchanged at an upstream that has them, translated at one that has only chat completions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.openai import turns
from qa.imitations.openai.callers import RESPONSES
from qa.imitations.openai.scenario import Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import EVERY, IMAGE_URL, NEW, OLD, PDF, SEEING, SOME, THINKERS

_scenario = partial(Scenario, format=RESPONSES)
_OWN: Final = ("auto", "responses")
_OTHER: Final = ("chatonly",)
_ENCRYPTED: Final = {"include": ["reasoning.encrypted_content"], "store": False}


def _body(value: Any = "What colour is the sky?", **members: Any) -> dict[str, Any]:
    return {"input": value, **members}


def _content(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


def tool(name: str = "look", schema: Any = samples.CITY, strict: Any = False, **members: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "x", "parameters": schema, "strict": strict, **members}


CUSTOM: Final = {"type": "custom", "name": "write", "description": "free text"}
_TEXT: Final = {"type": "input_text", "text": "Look"}


def _refused(name: str, message: str, model: str, **members: Any) -> Scenario:
    """A request that passes unchanged, so that the vendor's own error reaches the caller."""
    return _scenario(name=f"{name} is refused", body=_body(**members), models=(model,), apis=_OWN, refused=message)


OWN: Final = (
    _scenario(name="plain", body=_body(store=False), models=EVERY, apis=_OWN, verbatim=True),
    _scenario(
        name="conversation", body=_body(**_ENCRYPTED), models=THINKERS, apis=_OWN, then=(turns.ask_again,), verbatim=True,
    ),
    _scenario(
        name="reasoning sent back unchanged", body=_body(
            tools=[tool()], reasoning={"effort": "low", "summary": "auto"}, **_ENCRYPTED), models=THINKERS, apis=_OWN,
        thinking=True, then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="stored conversation", body=_body(tools=[tool()]), models=("gpt-4o", "gpt-5", "gpt-5.4"), apis=_OWN,
        then=(turns.continue_stored, turns.continue_stored), verbatim=True,
    ),
    _scenario(
        name="custom tool unchanged", body=_body(tools=[CUSTOM], **_ENCRYPTED), models=("gpt-5", "gpt-5.4"), apis=_OWN,
        then=(turns.answer_tools,),
    ),
    _refused("temperature", "Unsupported parameter: 'temperature'", "gpt-5", temperature=1),
    _refused("effort", "'reasoning.effort' does not support 'none'", "gpt-6-astra", reasoning={"effort": "none"}),
    _refused("effort at a model without", "Unsupported parameter: 'reasoning.effort'", "gpt-4o", reasoning={"effort": "low"}),
    _refused("stop", "Unknown parameter: 'stop'", "gpt-4o", stop=["a"]),
    _refused("n", "Unknown parameter: 'n'", "gpt-4o", n=2),
    _refused("small limit", "Expected a value >= 16", "gpt-4o", max_output_tokens=5),
    _refused("encrypted content", "Encrypted content is not supported", "gpt-4o", include=["reasoning.encrypted_content"]),
    _refused("strict null", "'required' is required", "gpt-4o", tools=[tool(
        schema={**samples.OPEN, "additionalProperties": False}, strict=None)]),
    _refused("named tool", "not found in 'tools'", "gpt-4o", tools=[tool()], tool_choice={"type": "function", "name": "x"}),
    _refused("file without a name", "Missing required parameter: 'input[0].content[0].filename'", "gpt-4o", value=_content(
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"})),
    _refused("output without a call", "No tool call found for function call output", "gpt-4o", value=[
        {"role": "user", "content": "x"}, {"type": "function_call_output", "call_id": "call_1", "output": "x"}]),
    _refused("call without an output", "No tool output found for function call", "gpt-4o", value=[
        {"role": "user", "content": "x"}, {"type": "function_call", "call_id": "call_1", "name": "x", "arguments": "{}"}]),
    _refused("assistant content", "Invalid value: 'input_text'", "gpt-4o", value=[
        {"role": "user", "content": "x"}, {"role": "assistant", "content": [_TEXT]}]),
)  # fmt: skip

TRANSLATED: Final = (
    _scenario(
        name="plain at chat", body=_body(store=False), models=EVERY, apis=_OTHER, path="/v1/chat/completions",
        then=(turns.ask_again,),
    ),
    _scenario(
        name="stored conversation at chat", body=_body(tools=[tool()]), models=("gpt-4o", "gpt-5", "gpt-5.4"),
        apis=_OTHER, then=(turns.continue_stored, turns.continue_stored), mapped=("previous_response_id",),
    ),
    _scenario(
        name="instructions at chat", body=_body(instructions="Be brief", store=False), models=SOME, apis=_OTHER,
    ),
    _scenario(
        name="effort at chat", body=_body(reasoning={"effort": "high"}, store=False), models=("o3", "gpt-5", "gpt-5.4"),
        apis=_OTHER, arrives={"reasoning_effort": "high"},
    ),
    _scenario(
        name="effort max at chat", body=_body(reasoning={"effort": "max"}, store=False), models=("gpt-5.6-sol",),
        apis=_OTHER, arrives={"reasoning_effort": "xhigh"}, lost=("reasoning",),
    ),
    _scenario(
        name="summary at chat", body=_body(reasoning={"effort": "low", "summary": "auto"}, store=False),
        models=("o3", "gpt-5", "gpt-5.4"), apis=_OTHER, lost=("reasoning.summary",),
    ),
    _scenario(
        name="parameters at chat", body=_body(
            temperature=0.5, top_p=0.9, max_output_tokens=100, user="u", prompt_cache_key="k", service_tier="auto",
            store=False), models=OLD, apis=_OTHER, arrives={"temperature": 0.5, "max_completion_tokens": 100},
        mapped=("service_tier",),
    ),
    _scenario(
        name="metadata at chat without storing", body=_body(metadata={"a": "b"}, store=False), models=("gpt-4o", "gpt-5"),
        apis=_OTHER, lost=("metadata",),
    ),
    _scenario(
        name="log probabilities at chat", body=_body(
            include=["message.output_text.logprobs"], top_logprobs=2, store=False), models=OLD, apis=_OTHER,
        arrives={"logprobs": True, "top_logprobs": 2}, mapped=(r"include\.0",),
    ),
    _scenario(
        name="verbosity at chat", body=_body(text={"verbosity": "low"}, store=False), models=("gpt-5", "gpt-5.4"),
        apis=_OTHER, arrives={"verbosity": "low"},
    ),
    _scenario(
        name="schema at chat", body=_body(text={"format": {
            "type": "json_schema", "name": "city", "strict": True, "schema": samples.CLOSED}}, store=False), models=SOME,
        apis=_OTHER, arrives={"response_format.json_schema.strict": True},
    ),
    _scenario(
        name="JSON at chat", body=_body("Name a city in JSON", text={"format": {"type": "json_object"}}, store=False),
        models=SOME, apis=_OTHER,
    ),
    _scenario(
        name="tools at chat", body=_body(tools=[tool()], store=False),
        models=("gpt-4o", "o3", "gpt-5", "gpt-5.1", "gpt-5.2", "gpt-5.4", "gpt-5.5", "gpt-5.6-sol"), apis=_OTHER,
        then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="tools with an effort at chat", body=_body(tools=[tool()], reasoning={"effort": "high"}, store=False),
        models=("gpt-5.2", "gpt-5.4", "gpt-5.6-sol"), apis=_OTHER, lost=("reasoning",),
    ),
    _scenario(
        name="custom tool at chat", body=_body(tools=[CUSTOM], store=False), models=("gpt-5", "gpt-5.1"), apis=_OTHER,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="custom tool at a model without", body=_body(tools=[CUSTOM], store=False), models=("gpt-4o", "o3"),
        apis=_OTHER,
    ),
    _scenario(
        name="two tools at once at chat", body=_body("both", tools=[tool("a"), tool("b")], store=False),
        models=("gpt-4o", "gpt-5"), apis=_OTHER, then=(turns.answer_tools,),
    ),
    _scenario(
        name="tool name renamed", body=_body(tools=[tool("files.read")], store=False), models=("gpt-4o", "gpt-5"), apis=_OTHER,
        mapped=(r".*\.name",), then=(turns.answer_tools,),
    ),
    _scenario(
        name="parallel calls without tools", body=_body(parallel_tool_calls=True, tool_choice="auto", tools=[], store=False),
        models=("gpt-4o", "o3", "gpt-5"), apis=_OTHER, mapped=("parallel_tool_calls",),
    ),
    _scenario(
        name="image at chat", body=_body(_content(_TEXT, {
            "type": "input_image", "image_url": IMAGE_URL, "detail": "high"}), store=False), models=SEEING, apis=_OTHER,
    ),
    _scenario(
        name="PDF at chat", body=_body(_content(_TEXT, {
            "type": "input_file", "filename": "s.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}), store=False),
        models=SEEING, apis=_OTHER,
    ),
    _scenario(
        name="text file at chat", body=_body(_content(_TEXT, {
            "type": "input_file", "filename": "s.txt", "file_data": f"data:text/plain;base64,{samples.TEXT_FILE}"}),
            store=False), models=("gpt-4o", "gpt-5.4"), apis=_OTHER, mapped=(r"input\.0\.content\.1\..*",),
    ),
    _scenario(
        name="file by address at chat", body=_body(_content(_TEXT, {
            "type": "input_file", "file_url": "https://example.com/s.pdf"}), store=False), models=("gpt-4o",), apis=_OTHER,
        lost=("input.0.content.1",),
    ),
    _scenario(
        name="image as a result at chat", body=_body(tools=[tool()], store=False), models=("gpt-4o", "gpt-5"), apis=_OTHER,
        then=(turns.answer_with_image,), later=("input.2.output.1",),
    ),
    _scenario(
        name="ids of 60 characters at chat", body=_body([
            {"role": "user", "content": "x"},
            {"type": "function_call", "call_id": "c" * 60, "name": "look", "arguments": '{"city":"Oslo"}'},
            {"type": "function_call_output", "call_id": "c" * 60, "output": "21"}], tools=[tool()], store=False),
        models=("gpt-4o", "gpt-5"), apis=_OTHER, mapped=(r".*call_id",),
    ),
    _scenario(
        name="background at chat", body=_body(truncation="auto", store=False), models=("gpt-4o",), apis=_OTHER,
        lost=("truncation",),
    ),
    _scenario(name="cut off at chat", body=_body("cut", store=False), models=SOME, apis=_OTHER),
    _scenario(
        name="refused by the model at chat", body=_body("refuse", store=False), models=SOME, apis=_OTHER,
        then=(turns.ask_again,),
    ),
    _scenario(name="filtered at chat", body=_body("filter", store=False), models=SOME, apis=_OTHER),
    _scenario(name="cited at chat", body=_body("cite", store=False), models=SOME, apis=_OTHER),
)  # fmt: skip

SCENARIOS: Final[tuple[Scenario, ...]] = (*OWN, *TRANSLATED)

__all__ = ["NEW", "SCENARIOS"]
