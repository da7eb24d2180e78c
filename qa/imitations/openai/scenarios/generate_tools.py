"""Callers of Gemini's format: tools, their results, and turns that are sent back."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.imitations.openai import turns
from qa.imitations.openai.callers import GENERATE
from qa.imitations.openai.scenario import Scenario
from qa.imitations.openai.scenarios import samples
from qa.imitations.openai.scenarios.samples import CITY, EVERY, NEW, SOME, THINKERS

_scenario = partial(Scenario, format=GENERATE)
_TWO: Final = ("auto", "responses")
_LONG: Final = "look_at_the_weather_of_" + "a_very_" * 8 + "long_place"


def function(name: str = "look", **members: Any) -> dict[str, Any]:
    if not members.keys() & {"parameters", "parametersJsonSchema"}:
        members["parametersJsonSchema"] = CITY
    return {"name": name, "description": f"About {name}", **members}


def _body(*functions: Any, words: str = "How is the weather?", **members: Any) -> dict[str, Any]:
    contents = [{"role": "user", "parts": [{"text": words}]}]
    return {"contents": contents, "tools": [{"functionDeclarations": list(functions or (function(),))}], **members}


def _mode(mode: str, *names: str) -> dict[str, Any]:
    config = {"mode": mode} | ({"allowedFunctionNames": list(names)} if names else {})
    return {"toolConfig": {"functionCallingConfig": config}}


def _history(*parts: Any, results: Any) -> dict[str, Any]:
    contents = [
        {"role": "user", "parts": [{"text": "How is the weather?"}]},
        {"role": "model", "parts": list(parts)},
        {"role": "user", "parts": list(results)},
    ]
    return _body() | {"contents": contents}


def _call(name: str = "look", **members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"city": "Oslo"}, **members}}


def _result(name: str = "look", text: str = "21 °C", **members: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": text}, **members}}


_SHOWN: Final[dict[str, Any]] = {
    "generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"}}
}

SCENARIOS: Final[tuple[Scenario, ...]] = (
    _scenario(name="tool", body=_body(), models=EVERY, apis=_TWO, then=(turns.answer_tools, turns.ask_again)),
    _scenario(name="tools go to responses", body=_body(), models=NEW, path="/v1/responses"),
    _scenario(
        name="tools at chat", body=_body(), models=("gpt-4o", "o3", "gpt-5", "gpt-5.1", "gpt-5.2", "gpt-5.4"),
        apis=("chat",), then=(turns.answer_tools,),
    ),
    _scenario(
        name="tools with thoughts", body=_body(**_SHOWN), models=THINKERS, path="/v1/responses", thinking=True,
        then=(turns.answer_tools, turns.ask_again),
    ),
    _scenario(
        name="thoughts that the client leaves out", body=_body(**_SHOWN), models=THINKERS, path="/v1/responses",
        thinking=True, then=(turns.ask_without_thinking, turns.ask_again),
    ),
    _scenario(
        name="two tools at once", body=_body(function("look"), function("listen"), words="both"), models=EVERY,
        then=(turns.answer_tools,),
    ),
    _scenario(name="text before a call", body=_body(words="aloud"), models=SOME, apis=_TWO, then=(turns.answer_tools,)),
    _scenario(
        name="any tool", body=_body(**_mode("ANY")), models=SOME, apis=_TWO, arrives={"tool_choice": "required"},
        then=(turns.answer_tools,),
    ),
    _scenario(name="no tool", body=_body(**_mode("NONE")), models=SOME, apis=_TWO, arrives={"tool_choice": "none"}),
    _scenario(
        name="named tool", body=_body(function("look"), function("listen"), **_mode("ANY", "listen")), models=SOME,
        apis=_TWO, then=(turns.answer_tools,),
    ),
    _scenario(
        name="some tools", body=_body(function("a"), function("b"), function("c"), **_mode("ANY", "b", "c")),
        models=("gpt-4o", "gpt-5", "gpt-5.4"), apis=_TWO, then=(turns.answer_tools,),
    ),
    *(
        _scenario(
            name=f"tool name {what} renamed", body=_body(function(name)), models=("gpt-4o", "gpt-5.4"), apis=_TWO,
            mapped=(r".*\.name",), then=(turns.answer_tools,),
        )
        for what, name in (("of 97 characters", _LONG), ("with a dot", "files.read"), ("with a colon", "mcp:files"))
    ),
    _scenario(
        name="130 tools", body=_body(*(function(f"look{number}") for number in range(130))),
        models=("gpt-4o", "gpt-5.4"), apis=_TWO,
        lost=("tools.128", "tools.129"),
    ),
    _scenario(
        name="parameters in upper case", body=_body(function(parameters={
            "type": "OBJECT", "properties": {"city": {"type": "STRING"}, "days": {
                "type": "ARRAY", "items": {"type": "INTEGER"}}}, "required": ["city"]})),
        models=("gpt-4o", "o3", "gpt-5.4"), apis=_TWO, responses={"tools.0.strict": False}, then=(turns.answer_tools,),
    ),
    _scenario(
        name="function without parameters", body=_body({"name": "look", "description": "x"}), models=SOME, apis=_TWO,
        then=(turns.answer_tools,),
    ),
    _scenario(
        name="parameters without properties", body=_body(function(parametersJsonSchema={"type": "object"})), models=SOME,
        apis=_TWO,
    ),
    _scenario(
        name="list of anything", body=_body(function(parameters={
            "type": "OBJECT", "properties": {"list": {"type": "ARRAY"}}})), models=("gpt-4o", "gpt-5.4"), apis=_TWO,
    ),
    _scenario(
        name="open schema", body=_body(function(parametersJsonSchema=samples.OPEN)), models=("gpt-4o", "gpt-5.4"),
        apis=_TWO,
    ),
    _scenario(
        name="response of a function", body=_body(function(response={"type": "OBJECT"})), models=("gpt-4o", "gpt-5.4"),
        apis=_TWO, lost=("tools.0.response",),
    ),
    _scenario(
        name="search of the vendor", body=_body() | {"tools": [{"googleSearch": {}}]}, models=("gpt-4o", "gpt-5.4"),
        path="/v1/responses", responses={"tools.0.type": "web_search"},
    ),
    _scenario(
        name="history without ids", body=_history(_call(), results=[_result()]), models=EVERY, apis=_TWO,
    ),
    _scenario(
        name="history with ids", body=_history(_call(id="fc1"), results=[_result(id="fc1")]), models=SOME, apis=_TWO,
    ),
    _scenario(
        name="two calls of one function", body=_history(
            _call(), _call(), results=[_result(text="first"), _result(text="second")]), models=SOME, apis=_TWO,
    ),
    _scenario(
        name="two calls in another order", body=_history(
            _call(), _call("listen"), results=[_result("listen", "b"), _result("look", "a")]), models=SOME, apis=_TWO,
    ),
    _scenario(
        name="result and question", body=_history(_call(), results=[_result(), {"text": "And tomorrow?"}]), models=SOME,
        apis=_TWO,
    ),
    _scenario(
        name="image in a result", body=_history(_call(), results=[_result(parts=[
            {"inlineData": {"mimeType": "image/png", "data": turns.PIXEL}}])]), models=("gpt-4o", "gpt-5.4"),
        apis=("responses",),
    ),
    _scenario(
        name="thought signature of another vendor", body=_history(
            {**_call(), "thoughtSignature": "c2lnbmF0dXJl"}, results=[_result()]), models=("gpt-4o", "gpt-5.4"), apis=_TWO,
    ),
    _scenario(
        name="thought of another vendor", body=_history(
            {"text": "deep thought", "thought": True}, _call(), results=[_result()]), models=("gpt-4o", "gpt-5.4"),
        apis=_TWO, lost=("contents.1.parts.0",),
    ),
)  # fmt: skip
