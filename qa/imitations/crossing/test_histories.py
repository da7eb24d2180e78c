"""Histories that no vendor accepts are refused before anything is sent, in the caller's own words, for every other upstream."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from qa.imitations.calling.run import KEY
from qa.imitations.calling.scenario import Caller
from qa.imitations.calling.server import Imitation
from qa.imitations.crossing.run import serve

MODELS: Final = {"openai": "gpt-4o", "anthropic": "claude-opus-4-8", "gemini": "gemini-3-pro-preview"}
OWN: Final[Mapping[Caller, str]] = {
    "chat": "openai", "responses": "openai", "messages": "anthropic", "generate": "gemini"
}  # fmt: skip
LISTS: Final[Mapping[Caller, str]] = {
    "chat": "messages", "responses": "input", "messages": "messages", "generate": "contents"
}  # fmt: skip
SCHEMA: Final = {"type": "object", "properties": {}}
TOOLS: Final[Mapping[Caller, dict[str, Any]]] = {
    "chat": {"tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]},
    "responses": {"tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}]},
    "messages": {"tools": [{"name": "look", "input_schema": SCHEMA}], "max_tokens": 100},
    "generate": {"tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}]},
}


def make_question(caller: Caller) -> Any:
    if caller == "generate":
        return {"role": "user", "parts": [{"text": "plan-text"}]}
    return {"role": "user", "content": "plan-text"}


def call(caller: Caller, *ids: str) -> list[Any]:
    if caller == "chat":
        made = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
        return [{"role": "assistant", "content": None, "tool_calls": made}]
    if caller == "responses":
        return [{"type": "function_call", "call_id": one, "name": "look", "arguments": "{}"} for one in ids]
    if caller == "messages":
        blocks = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in ids]
        return [{"role": "assistant", "content": blocks}]
    return [{"role": "model", "parts": [{"functionCall": {"id": one, "name": "look", "args": {}}} for one in ids]}]


def result(caller: Caller, one: str, text: str = "so") -> Any:
    if caller == "chat":
        return {"role": "tool", "tool_call_id": one, "content": text}
    if caller == "responses":
        return {"type": "function_call_output", "call_id": one, "output": text}
    if caller == "messages":
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": text}]}
    return {"role": "user", "parts": [{"functionResponse": {"id": one, "name": "look", "response": {"x": text}}}]}


def make_broken(caller: Caller) -> dict[str, tuple[list[Any], str]]:
    """By name: the history, and the code of its error."""
    user = make_question(caller)
    return {
        "no result at the end": ([user, *call(caller, "a")], "tool_result_missing"),
        "no result before a question": ([user, *call(caller, "a"), user], "tool_result_missing"),
        "half of the results": ([user, *call(caller, "a", "b"), result(caller, "a"), user], "tool_result_missing"),
        "a result without a call": ([user, result(caller, "z"), user], "tool_call_missing"),
        "a result before its call": ([user, result(caller, "a"), *call(caller, "a")], "tool_call_missing"),
        "two results": (
            [user, *call(caller, "a"), result(caller, "a"), result(caller, "a", "other")],
            "tool_result_repeated",
        ),
    }


def make_mended(caller: Caller) -> dict[str, list[Any]]:
    """By name: histories with only one meaning that only some vendors accept."""
    user = make_question(caller)
    mended = {"results in another order": [user, *call(caller, "a", "b"), result(caller, "b"), result(caller, "a")]}
    if caller == "responses":
        mended["a late result"] = [user, *call(caller, "a", "b"), result(caller, "a"), user, result(caller, "b"), user]
        mended["a repeated result"] = [user, *call(caller, "a"), result(caller, "a"), result(caller, "a"), user]
        named = {"type": "function_call_output", "name": "look", "output": "so"}
        mended["a result by name"] = [user, *call(caller, "a"), named]
    return mended


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[httpx.Client, Mapping[str, Imitation]]]:
    with serve() as (gateway, imitations):
        headers = {"authorization": f"Bearer {KEY}", "x-stainless-lang": "python", "anthropic-version": "2023-06-01"}
        with httpx.Client(base_url=gateway.url, headers=headers, timeout=60, trust_env=False) as client:
            yield client, imitations


def send(client: httpx.Client, caller: Caller, model: str, history: list[Any]) -> httpx.Response:
    body = {**TOOLS[caller], LISTS[caller]: copy.deepcopy(history)}
    if caller == "generate":
        return client.post(f"/v1beta/models/{model}:generateContent", json=body)
    path = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[caller]
    return client.post(path, json={"model": model, **body})


@pytest.mark.parametrize("caller", OWN)
def test_a_broken_history_is_refused_in_the_callers_words_before_anything_is_sent(
    stage: tuple[httpx.Client, Mapping[str, Imitation]], caller: Caller
) -> None:
    client, imitations = stage
    wrong = []
    for vendor, model in MODELS.items():
        before = len(imitations[vendor].exchanges)
        for name, (history, code) in make_broken(caller).items() if vendor != OWN[caller] else ():
            response = send(client, caller, model, history)
            error = response.json().get("error") or {"param": ""}
            if (response.status_code, error.get("code")) != (400, code) or not error["param"].startswith(LISTS[caller]):
                wrong.append((vendor, name, response.status_code, error))
        if len(imitations[vendor].exchanges) != before:
            wrong.append((vendor, "something was sent", 0, {}))
    assert wrong == []


@pytest.mark.parametrize("caller", OWN)
def test_a_history_with_one_meaning_is_put_right(
    stage: tuple[httpx.Client, Mapping[str, Imitation]], caller: Caller
) -> None:
    client, _ = stage
    wrong = []
    for vendor, model in MODELS.items():
        for name, history in make_mended(caller).items():
            if vendor != OWN[caller] and (response := send(client, caller, model, history)).status_code != 200:
                wrong.append((vendor, name, response.text[:300]))
    assert wrong == []


EMPTY: Final[Mapping[Caller, list[list[Any]]]] = {
    "chat": [
        [{"role": "user", "content": ""}],
        [{"role": "system", "content": ""}],
        [{"role": "assistant", "content": "", "reasoning_content": "Hm"}],
    ],
    "responses": [
        [{"role": "user", "content": ""}],
        [{"type": "reasoning", "id": f"rs_{'0' * 36}", "summary": [{"type": "summary_text", "text": "Hm"}]}],
    ],
    "messages": [
        [{"role": "user", "content": ""}],
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]}],
    ],
    "generate": [
        [{"role": "user", "parts": [{"text": ""}]}],
        [{"role": "model", "parts": [{"text": "", "thought": True}]}],
    ],
}
"""Histories without content for a model of another vendor; some vendors accept some of them."""
ONLY_SYSTEM: Final[Mapping[Caller, list[Any]]] = {
    "chat": [{"role": "system", "content": "Be kind."}, {"role": "developer", "content": "Be short."}],
    "responses": [{"role": "system", "content": "Be kind."}, {"role": "developer", "content": "Be short."}],
    "messages": [{"role": "system", "content": "Be kind."}],
}


@pytest.mark.parametrize("caller", OWN)
def test_a_conversation_of_which_nothing_is_left_is_answered_or_refused_in_the_callers_words(
    stage: tuple[httpx.Client, Mapping[str, Imitation]], caller: Caller
) -> None:
    client, imitations = stage
    wrong = []
    for vendor, model in MODELS.items():
        for history in EMPTY[caller] if vendor != OWN[caller] else ():
            before = len(imitations[vendor].exchanges)
            response = send(client, caller, model, history)
            sent = len(imitations[vendor].exchanges) > before
            error = response.json().get("error") or {}
            named = (error.get("code"), error.get("param")) == ("empty_conversation", LISTS[caller])
            if response.status_code != 200 and (sent or not named):
                wrong.append((vendor, history, response.text[:300]))
    assert wrong == []


@pytest.mark.parametrize("caller", ONLY_SYSTEM)
def test_a_conversation_of_system_messages_is_answered(
    stage: tuple[httpx.Client, Mapping[str, Imitation]], caller: Caller
) -> None:
    client, _ = stage
    others = [model for vendor, model in MODELS.items() if vendor != OWN[caller]]
    answers = {model: send(client, caller, model, ONLY_SYSTEM[caller]) for model in others}
    assert {model: (one.status_code, one.text[:200]) for model, one in answers.items() if one.status_code != 200} == {}
