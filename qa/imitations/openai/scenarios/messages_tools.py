"""Callers of Anthropic's format: tools, their results, and turns that are sent back."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.openai import turns
from qa.imitations.openai.callers import MESSAGES
from qa.imitations.openai.scenario import ALL, Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import CITY, EVERY, NEW, SOME, THINKERS

_scenario = partial(Scenario, format=MESSAGES)
_LONG: Final = "look_at_the_weather_of_" + "a_very_" * 8 + "long_place"
_MEDIA: Final = {"type": "base64", "media_type": "image/png", "data": turns.PIXEL}
_ENABLED: Final = {"type": "enabled", "budget_tokens": 2048}


def tool(name: str = "look", schema: Any = None, **members: Any) -> dict[str, Any]:
    return {"name": name, "description": f"About {name}", "input_schema": schema or CITY, **members}


def _body(*tools: Any, words: str = "How is the weather?", **members: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": words}]
    return {"max_tokens": 4000, "messages": messages, "tools": list(tools or (tool(),)), **members}


def _history(*blocks: Any, results: Any = None) -> dict[str, Any]:
    """A conversation whose assistant turn has `blocks`, answered by `results`."""
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [{"type": "tool_result", "tool_use_id": use, "content": "21 °C"} for use in uses]
    messages = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": list(blocks)},
        {"role": "user", "content": answered if results is None else results},
    ]
    return _body() | {"messages": messages}


def _use(call_id: str = "toolu_01A", name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {"city": "Oslo"}}


def _result(content: Any, call_id: str = "toolu_01A", **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **members}


CALLS: Final = (
    _scenario(name="tool", body=_body(), models=EVERY, apis=("auto", "responses"), then=(turns.answer_tools, turns.ask_again)),
    _scenario(
        name="tools go to responses", body=_body(), models=NEW, path="/v1/responses", then=(turns.answer_tools,),
    ),
    _scenario(
        name="tools at chat", body=_body(), models=("gpt-4o", "o3", "gpt-5", "gpt-5.1", "gpt-5.2", "gpt-5.4"),
        apis=("chat",), path="/v1/chat/completions", then=(turns.answer_tools,),
    ),
    _scenario(
        name="tools at chat of models that then may not reason", body=_body(), models=("gpt-5.5", "gpt-5.6-sol"),
        apis=("chat",), arrives={"reasoning_effort": "none"}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="tools with an effort at chat", body=_body(output_config={"effort": "high"}),
        models=("gpt-5.2", "gpt-5.4", "gpt-5.5", "gpt-5.6-sol"), apis=("chat",), lost=("output_config.effort",),
    ),
    _scenario(
        name="tools with an effort", body=_body(output_config={"effort": "high"}), models=("gpt-5.2", *NEW),
        path="/v1/responses", arrives={"reasoning.effort": "high"}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="tools with thinking", body=_body(thinking=_ENABLED), models=THINKERS, path="/v1/responses", thinking=True,
        then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="thinking that the client leaves out", body=_body(thinking=_ENABLED), models=THINKERS,
        path="/v1/responses", thinking=True, then=(turns.ask_without_thinking, turns.ask_again),
    ),
    _scenario(
        name="two tools at once", body=_body(tool("look"), tool("listen"), words="both"), models=EVERY,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="text before a call", body=_body(words="aloud"), models=SOME, apis=("auto", "responses"),
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="one tool at a time", body=_body(tool("look"), tool("listen"), words="both", tool_choice={
            "type": "auto", "disable_parallel_tool_use": True}), models=("gpt-4o", "gpt-5", "gpt-5.4"),
        apis=("auto", "responses"), arrives={"parallel_tool_calls": False},
    ),
    _scenario(
        name="one tool at a time at models that cannot be told", body=_body(tool("look"), tool_choice={
            "type": "auto", "disable_parallel_tool_use": True}), models=("o3", "o4-mini"), apis=("chat",),
        lost=("tool_choice.disable_parallel_tool_use",), arrives={"parallel_tool_calls": None},
    ),
    _scenario(
        name="any tool", body=_body(tool_choice={"type": "any"}), models=SOME, apis=("auto", "responses"),
        arrives={"tool_choice": "required"}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="no tool", body=_body(tool_choice={"type": "none"}), models=SOME, apis=("auto", "responses"),
        arrives={"tool_choice": "none"},
    ),
    _scenario(
        name="named tool", body=_body(tool("look"), tool("listen"), tool_choice={"type": "tool", "name": "listen"}),
        models=SOME, apis=("auto", "responses"), responses={"tool_choice": {"type": "function", "name": "listen"}},
        chat={"tool_choice": {"type": "function", "function": {"name": "listen"}}}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="choice without tools", body=_body(tool_choice={"type": "auto"}) | {"tools": []}, models=("gpt-4o", "gpt-5.4"),
        apis=ALL, arrives={"tool_choice": None, "tools": None},
    ),
    *(
        _scenario(
            name=f"tool name {what} renamed", body=_body(tool(name)), models=("gpt-4o", "o3", "gpt-5.4", "gpt-5.6-sol"),
            apis=("auto", "responses"), mapped=(r"tools\.0\.name", r"messages\.1\.content\..*\.name"),
            then=(turns.answer_tools,),
        )
        for what, name in (("of 97 characters", _LONG), ("with a dot", "files.read"), ("with a colon", "mcp:files"))
    ),
    _scenario(
        name="130 tools", body=_body(*(tool(f"look{number}") for number in range(130))),
        models=("gpt-4o", "gpt-5.4", "gpt-5.6-sol"), apis=("auto", "responses"), lost=("tools.128", "tools.129"),
    ),
    _scenario(
        name="130 tools and the last is named", body=_body(
            *(tool(f"look{number}") for number in range(130)), tool_choice={"type": "tool", "name": "look129"}),
        models=("gpt-4o", "gpt-5.4"), apis=("auto", "responses"), lost=("tools.127", "tools.128"),
    ),
    _scenario(
        name="vendor's own tool", body=_body(tool(), {"type": "web_search_20250305", "name": "web_search"}),
        models=("gpt-4o", "gpt-5.4"), path="/v1/responses", responses={"tools.1.type": "web_search"}, mapped=("tools.1.type",),
    ),
    _scenario(
        name="examples of a tool", body=_body(tool(input_examples=[{"city": "Oslo"}])), models=("gpt-4o", "gpt-5.4"),
        lost=("tools.0.input_examples",),
    ),
    _scenario(
        name="custom type", body=_body(tool(type="custom")), models=("gpt-4o", "gpt-5.4"), apis=("auto", "responses"),
    ),
)  # fmt: skip


def _schema(name: str, schema: Any, lost: tuple[str, ...] = (), strict: bool | None = None, **members: Any) -> Scenario:
    extra: dict[str, Any] = {} if strict is None else {"strict": strict}
    return _scenario(
        name=f"tool schema {name}", body=_body(tool(schema=schema, **extra)), models=("gpt-4o", "o3", "gpt-5.4"),
        apis=("auto", "responses"), lost=lost, **members,
    )  # fmt: skip


SCHEMAS: Final = (
    _schema("open", samples.OPEN, responses={"tools.0.strict": False}),
    _schema("without properties", {"type": "object"}),
    _schema("with a list of anything", {"type": "object", "properties": {"list": {"type": "array"}}}),
    _schema(
        "with a tuple",
        {"type": "object", "properties": {"size": {"anyOf": [
            {"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1}, {"type": "null"}]}}},
    ),
    _schema(
        "with a type that may be a list", {"type": "object", "properties": {"to": {"type": ["string", "array"]}}},
    ),
    _schema("with definitions", samples.DEFINED),
    _schema(
        "with a choice at the top", {**samples.CITY, "oneOf": [{"required": ["city"]}]},
        lost=("tools.0.parameters.oneOf",), mapped=(r"tools\.0\.input_schema\.oneOf.*",),
    ),
    _schema("strict and closed", samples.CLOSED, strict=True, arrives={}, responses={"tools.0.strict": True}),
    _schema(
        "strict with optional properties", {**samples.OPTIONAL, "additionalProperties": False}, strict=True,
        responses={"tools.0.strict": True}, absent=("unit", "near"),
    ),
    _schema(
        "strict with a length", {**samples.OPEN, "additionalProperties": False}, lost=("tools.0.strict",),
        strict=True, responses={"tools.0.strict": False},
    ),
    _schema("not strict", samples.CLOSED, strict=False, responses={"tools.0.strict": False}),
)  # fmt: skip

RESULTS: Final = (
    _scenario(name="history of calls", body=_history(_use()), models=EVERY, apis=("auto", "responses")),
    _scenario(
        name="history with text", body=_history({"type": "text", "text": "I look."}, _use()), models=SOME,
        apis=("auto", "responses"),
    ),
    _scenario(
        name="history of two calls", body=_history(_use("toolu_01A"), _use("toolu_01B", city="Bergen")), models=SOME,
        apis=("auto", "responses"),
    ),
    _scenario(
        name="results in another order", body=_history(
            _use("toolu_01A"), _use("toolu_01B"), results=[_result("b", "toolu_01B"), _result("a", "toolu_01A")]),
        models=SOME, apis=("auto", "responses"),
    ),
    _scenario(
        name="results and a question", body=_history(
            _use(), results=[_result("21 °C"), {"type": "text", "text": "And tomorrow?"}]), models=SOME,
        apis=("auto", "responses"),
    ),
    _scenario(
        name="failed tool", body=_history(_use(), results=[_result("no network", is_error=True)]), models=SOME,
        apis=("auto", "responses"), lost=("messages.2.content.0.is_error",),
    ),
    _scenario(
        name="empty result", body=_history(_use(), results=[{"type": "tool_result", "tool_use_id": "toolu_01A"}]),
        models=SOME, apis=("auto", "responses"),
    ),
    _scenario(
        name="empty list as result", body=_history(_use(), results=[_result([])]), models=SOME, apis=("auto", "responses"),
    ),
    _scenario(
        name="image as result", body=_history(
            _use(), results=[_result([{"type": "text", "text": "seen"}, {"type": "image", "source": _MEDIA}])]),
        models=("gpt-4o", "o3", "gpt-5.4"), apis=("auto", "responses"), path="/v1/responses",
    ),
    _scenario(
        name="image as result at chat", body=_history(
            _use("toolu_01A"), _use("toolu_01B"), results=[
                _result([{"type": "text", "text": "seen"}, {"type": "image", "source": _MEDIA}]),
                _result("b", "toolu_01B")]),
        models=("gpt-4o", "o3", "gpt-5"), apis=("chat",), lost=("messages.2.content.0.content.1",),
    ),
    _scenario(
        name="only an image as result at chat", body=_history(
            _use(), results=[_result([{"type": "image", "source": _MEDIA}])]),
        models=("gpt-4o", "gpt-5"), apis=("chat",), lost=("messages.2.content.0.content.0",),
    ),
    _scenario(
        name="PDF as result", body=_history(_use(), results=[_result([{"type": "document", "source": {
            "type": "base64", "media_type": "application/pdf", "data": samples.PDF}}])]),
        models=("gpt-4o", "gpt-5.4"), apis=("responses",),
    ),
    _scenario(
        name="ids of 80 characters", body=_history(_use("toolu_" + "x" * 74)), models=("gpt-4o", "gpt-5", "gpt-5.4"),
        apis=("auto", "chat", "responses"), mapped=(r".*\.id", r".*\.tool_use_id"),
    ),
    _scenario(
        name="ids of 50 characters", body=_history(_use("toolu_" + "x" * 44)), models=("gpt-4o", "gpt-5", "gpt-5.4"),
        apis=("chat", "responses"), mapped=(r".*\.id", r".*\.tool_use_id"),
    ),
    _scenario(
        name="call of an old tool with a dot renamed", body=_history(_use(name="old.tool")), models=("gpt-4o", "gpt-5.4"),
        apis=("auto", "responses"), mapped=(r".*\.name",),
    ),
    _scenario(
        name="empty assistant text", body=_history({"type": "text", "text": "Hm."}, _use(city="")), models=SOME,
        apis=("auto", "responses"),
    ),
    _scenario(
        name="result with an image after a call", body=_body(), models=("gpt-4o", "gpt-5.4", "gpt-5.6-sol"),
        apis=("responses",), then=(turns.answer_with_image, turns.ask_again),
    ),
)  # fmt: skip

SCENARIOS: Final[tuple[Scenario, ...]] = (*CALLS, *SCHEMAS, *RESULTS)
