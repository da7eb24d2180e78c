"""Callers of chat completions: unchanged at their own API, translated at the other."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.openai import turns
from qa.imitations.openai.callers import CHAT
from qa.imitations.openai.scenario import ALL, Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import EVERY, IMAGE_URL, OLD, PDF, SEEING, SOME

_scenario = partial(Scenario, format=CHAT)
_OWN: Final = ("auto", "chat")
_OTHER: Final = ("responses",)


def _body(content: Any = "What colour is the sky?", **members: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **members}


def tool(name: str = "look", schema: Any = samples.CITY, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "x", "parameters": schema, **members}}


CUSTOM: Final = {"type": "custom", "custom": {"name": "write", "description": "free text"}}
_SYSTEM: Final = {"role": "system", "content": "Answer in JSON"}


def _refused(name: str, message: str, model: str, **members: Any) -> Scenario:
    """A request that passes unchanged, so that the vendor's own error reaches the caller."""
    return _scenario(name=f"{name} is refused", body=_body(**members), models=(model,), apis=_OWN, refused=message)


OWN: Final = (
    _scenario(name="plain", body=_body(), models=EVERY, apis=ALL, then=(turns.ask_again,)),
    _scenario(
        name="all parameters unchanged", body=_body(
            temperature=0.5, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.2, seed=3, stop=["a"], user="u",
            max_completion_tokens=50, logprobs=True, top_logprobs=2, service_tier="auto", prompt_cache_key="k"),
        models=OLD, apis=_OWN, arrives={"temperature": 0.5, "seed": 3, "stop": ["a"]},
    ),
    _scenario(
        name="tools unchanged", body=_body(tools=[tool()], parallel_tool_calls=True, tool_choice="auto"),
        models=("gpt-4o", "gpt-5", "gpt-5.4"), apis=_OWN, then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="custom tool unchanged", body=_body(tools=[CUSTOM]), models=("gpt-5", "gpt-5.4"), apis=_OWN,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="refusal sent back unchanged", body=_body("refuse"), models=("gpt-4o", "gpt-5"), apis=_OWN,
        then=(turns.ask_again,),
    ),
    _scenario(
        name="schema unchanged", body=_body(response_format={"type": "json_schema", "json_schema": {
            "name": "city", "strict": True, "schema": samples.CLOSED}}), models=SOME, apis=ALL,
    ),
    _refused("temperature", "Unsupported value: 'temperature' does not support 0.5", "gpt-5", temperature=0.5),
    _refused("max_tokens", "Unsupported parameter: 'max_tokens'", "o3", max_tokens=50),
    _refused("effort", "'reasoning_effort' does not support 'minimal'", "gpt-5.1", reasoning_effort="minimal"),
    _refused("effort at a model without", "Unrecognized request argument", "gpt-4o", reasoning_effort="low"),
    _refused("stop", "Unsupported parameter: 'stop'", "gpt-5", stop=["a"]),
    _refused("five stops", "Invalid 'stop': array too long", "gpt-4o", stop=["a", "b", "c", "d", "e"]),
    _refused(
        "tools with an effort", "Function tools with reasoning_effort are not supported", "gpt-5.4", tools=[tool()],
        reasoning_effort="low",
    ),
    _refused("tools by default", "Function tools with reasoning_effort", "gpt-5.6-sol", tools=[tool()]),
    _refused("user", "Invalid 'user': string too long", "gpt-4o", user="u" * 65),
    _refused("tool name", "does not match pattern", "gpt-4o", tools=[tool("files.read")]),
    _refused("129 tools", "Invalid 'tools': array too long", "gpt-4o", tools=[tool(f"t{n}") for n in range(129)]),
    _refused("metadata", "only allowed when 'store' is enabled", "gpt-4o", metadata={"a": "b"}),
    _refused("top_k", "Unknown parameter: 'top_k'", "gpt-4o", top_k=3),
    _refused(
        "schema", "'additionalProperties' is required to be supplied and to be false", "gpt-4o", response_format={
            "type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": samples.CITY}},
    ),
    _refused(
        "word json", "must contain the word 'json'", "gpt-4o", response_format={"type": "json_object"},
    ),
    _refused("parallel_tool_calls", "'parallel_tool_calls' is only allowed when", "gpt-4o", parallel_tool_calls=False),
)  # fmt: skip

TRANSLATED: Final = (
    _scenario(
        name="system and developer", body=_body() | {"messages": [
            {"role": "developer", "content": "Be brief"}, {"role": "user", "content": "Hello"}]}, models=SOME, apis=ALL,
    ),
    _scenario(
        name="effort", body=_body(reasoning_effort="high"), models=("o3", "gpt-5", "gpt-5.4", "gpt-6-astra"), apis=_OTHER,
        arrives={"reasoning.effort": "high"},
    ),
    _scenario(
        name="effort none that the model lacks", body=_body(reasoning_effort="none"), models=("o3", "gpt-5", "gpt-6-astra"),
        apis=_OTHER, lost=("reasoning_effort",),
    ),
    _scenario(
        name="verbosity", body=_body(verbosity="low"), models=("gpt-5", "gpt-5.4"), apis=_OTHER,
        arrives={"text.verbosity": "low"},
    ),
    _scenario(
        name="members without a place", body=_body(
            presence_penalty=0.5, frequency_penalty=0.5, seed=3, stop=["a"], n=2, logit_bias={"50256": -100}),
        models=("gpt-4o",), apis=_OTHER,
        lost=("presence_penalty", "frequency_penalty", "seed", "stop", "n", "logit_bias"),
    ),
    _scenario(
        name="log probabilities", body=_body(logprobs=True, top_logprobs=2), models=OLD, apis=_OTHER,
        arrives={"top_logprobs": 2},
    ),
    _scenario(
        name="both limits", body=_body(max_completion_tokens=100, max_tokens=50), models=("gpt-4o",), apis=_OTHER,
        lost=("max_tokens",),
    ),
    _scenario(
        name="shared members", body=_body(
            user="u", safety_identifier="s" * 100, prompt_cache_key="k", service_tier="auto", metadata={"a": "b"}),
        models=("gpt-4o", "gpt-5.4"), apis=_OTHER,
    ),
    _scenario(
        name="user over 64 characters", body=_body(user="u" * 80), models=("gpt-4o", "gpt-5.4"), apis=_OTHER,
        mapped=("user",),
    ),
    _scenario(
        name="JSON asked for in the system message", body=_body(response_format={"type": "json_object"}) | {
            "messages": [_SYSTEM, {"role": "user", "content": "Name a city"}]}, models=SOME, apis=ALL,
    ),
    _scenario(
        name="schema that is not strict", body=_body(response_format={"type": "json_schema", "json_schema": {
            "name": "city", "schema": samples.OPEN}}), models=("gpt-4o", "gpt-5.4"), apis=ALL,
        responses={"text.format.strict": False},
    ),
    _scenario(
        name="tools", body=_body(tools=[tool()]), models=EVERY, apis=_OTHER, responses={"tools.0.strict": False},
        then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="open strict null tools", body=_body(tools=[tool(schema=samples.OPEN, strict=None)]), models=("gpt-4o",),
        apis=_OTHER, responses={"tools.0.strict": False},
    ),
    _scenario(
        name="strict tools", body=_body(tools=[tool(schema=samples.CLOSED, strict=True)]), models=SOME, apis=_OTHER,
        responses={"tools.0.strict": True}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="two tools at once", body=_body("both", tools=[tool("a"), tool("b")]), models=SOME, apis=_OTHER,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="custom tool", body=_body(tools=[CUSTOM]), models=("gpt-5", "gpt-5.4", "gpt-5.6-sol"), apis=_OTHER,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="custom tool at a model without", body=_body(tools=[CUSTOM]), models=("gpt-4o", "o3"), apis=_OTHER,
    ),
    _scenario(
        name="forced tool", body=_body(tools=[tool("a"), tool("b")], tool_choice={
            "type": "function", "function": {"name": "b"}}), models=SOME, apis=_OTHER, then=(turns.answer_tools,),
    ),
    _scenario(
        name="allowed tools", body=_body(tools=[tool("a"), tool("b")], tool_choice={
            "type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                {"type": "function", "function": {"name": "b"}}]}}), models=SOME, apis=_OTHER,
    ),
    _scenario(
        name="image", body=_body([{"type": "text", "text": "Look"}, {
            "type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "low"}}]), models=SEEING, apis=ALL,
    ),
    _scenario(
        name="PDF", body=_body([{"type": "text", "text": "Read"}, {"type": "file", "file": {
            "filename": "s.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}]), models=SEEING, apis=ALL,
    ),
    _scenario(
        name="file by id", body=_body([{"type": "text", "text": "Read"}, {"type": "file", "file": {
            "file_id": "file-abc"}}]), models=("gpt-4o", "gpt-5.4"), apis=_OTHER,
    ),
    _scenario(name="cut off", body=_body("cut"), models=SOME, apis=ALL),
    _scenario(name="refused by the model", body=_body("refuse"), models=SOME, apis=_OTHER, then=(turns.ask_again,)),
    _scenario(name="filtered", body=_body("filter"), models=SOME, apis=ALL),
    _scenario(name="cited", body=_body("cite"), models=SOME, apis=ALL),
    _scenario(
        name="ids of 60 characters", body=_body(tools=[tool()]) | {"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c" * 70, "type": "function", "function": {"name": "look", "arguments": '{"city":"Oslo"}'}}]},
            {"role": "tool", "tool_call_id": "c" * 70, "content": "21"}]}, models=("gpt-4o", "gpt-5.4"), apis=_OTHER,
        mapped=(r".*id",),
    ),
)  # fmt: skip

SCENARIOS: Final[tuple[Scenario, ...]] = (*OWN, *TRANSLATED)
