"""What the verbatim lane reads in passing: chunks, elements of arrays, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.gemini.tests.wire.generate import strategies
from tornado_gate import errors
from tornado_gate.errors import UpstreamError
from tornado_gate.streams.sse import MAX_FRAME_BYTES
from tornado_gate.testing import iterate
from tornado_gate.types import Meter, Usage
from tornado_gate_gemini.wire.generate import (
    ArraySplitter,
    GenerateStreamMeter,
    find_error,
    get_status_name,
    iterate_elements,
    note_body,
)

USAGE = {"promptTokenCount": 1, "candidatesTokenCount": 2}


def candidate(*parts: Any, **rest: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, **rest}]}


def noted(*chunks: Any) -> tuple[Meter, GenerateStreamMeter]:
    meter = Meter()
    watch = GenerateStreamMeter(meter)
    for chunk in chunks:
        watch.note(chunk if isinstance(chunk, bytes) else orjson.dumps(chunk))
    return meter, watch


def test_usage_and_finish_reason_are_noted() -> None:
    meter, watch = noted(
        candidate({"text": "a"}) | {"usageMetadata": {"promptTokenCount": 1}},
        candidate(finishReason="MAX_TOKENS") | {"usageMetadata": USAGE},
    )
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "length")
    assert watch.finished
    assert watch.error is None


def test_a_stop_after_an_earlier_call_is_noted_as_tool_calls() -> None:
    meter, _ = noted(candidate({"functionCall": {"name": "f"}}), candidate(finishReason="STOP"))
    assert meter.finish_reason == "tool_calls"


def test_a_blocked_prompt_is_an_end() -> None:
    meter, watch = noted({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (meter.finish_reason, watch.finished) == ("content_filter", True)


@pytest.mark.parametrize("text", ['"finishReason":"STOP"', '"usageMetadata": {}', '{"error": 1}', '"promptFeedback":1'])
def test_words_of_the_model_are_never_taken_for_members(text: str) -> None:
    meter, watch = noted(candidate({"text": text}))
    assert (meter, watch.finished, watch.error) == (Meter(), False, None)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"usageMetadata": {', b'[{"usageMetadata": 1}]'])
def test_what_is_no_object_says_nothing(raw: bytes) -> None:
    meter, watch = noted(raw)
    assert (meter, watch.finished) == (Meter(), False)


def test_an_error_is_kept() -> None:
    _, watch = noted({"error": {"code": 503, "message": "Overloaded"}})
    assert isinstance(watch.error, errors.UpstreamOverloaded)


def test_a_whole_answer_is_noted() -> None:
    meter = Meter()
    note_body(meter, candidate({"functionCall": {"name": "f"}}, finishReason="STOP") | {"usageMetadata": USAGE})
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "tool_calls")


@pytest.mark.parametrize("body", [[], None, {}, {"candidates": 5}, {"candidates": [5]}, "text"])
def test_json_that_is_no_answer_is_the_upstreams_error(body: Any) -> None:
    with pytest.raises(UpstreamError, match="not a response"):
        note_body(Meter(), body)


# Arrays


def split(pieces: list[bytes]) -> tuple[list[Any], bool]:
    splitter = ArraySplitter()
    found = [orjson.loads(element) for piece in pieces for element in splitter.feed(piece)]
    return found, splitter.closed


@given(items=st.lists(strategies.objects, max_size=3), cut=st.integers(1, 9), indent=st.booleans())
def test_elements_of_an_array_are_found_however_it_is_cut(items: list[Any], cut: int, indent: bool) -> None:
    raw = orjson.dumps(items, option=orjson.OPT_INDENT_2 if indent else None) + b"\n"
    pieces = [raw[start : start + cut] for start in range(0, len(raw), cut)]
    assert split(pieces) == (items, True)


def test_brackets_and_quotes_inside_strings_are_no_structure() -> None:
    items = [{"a": '}]"\\', "b": ["\\\\", "{"]}]
    raw = orjson.dumps(items)
    assert split([raw[place : place + 1] for place in range(len(raw))]) == (items, True)


def test_an_array_that_was_cut_off_is_not_closed() -> None:
    assert split([b'[{"a": 1},\n{"b"']) == ([{"a": 1}], False)


@pytest.mark.parametrize("raw", [b"[5]", b"hello", b'["a"]'])
def test_what_is_no_array_of_objects_is_a_fault_of_the_upstream(raw: bytes) -> None:
    with pytest.raises(UpstreamError, match="not a JSON array of objects"):
        ArraySplitter().feed(raw)


def test_an_element_without_end_is_a_fault_of_the_upstream() -> None:
    splitter = ArraySplitter()
    with pytest.raises(UpstreamError, match="above the limit of 16777216 bytes"):
        splitter.feed(b'[{"a": "' + b"x" * MAX_FRAME_BYTES)


def elements(*pieces: bytes) -> list[Any]:
    async def collect() -> list[Any]:
        return [element async for element in iterate_elements(iterate(pieces))]

    return asyncio.run(collect())


def test_a_single_object_is_taken_for_an_array_of_one() -> None:
    assert elements(b'{"error":', b' {"code": 500}}') == [{"error": {"code": 500}}]


def test_an_element_that_is_no_json_is_a_fault_of_the_upstream() -> None:
    with pytest.raises(UpstreamError, match="not valid JSON"):
        elements(b"[{nonsense}]")


# Errors


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT"}, errors.UpstreamRefused, 400),
        ({"code": 404, "message": "No model"}, errors.UpstreamRefused, 404),
        ({"code": "429", "message": "Slow"}, errors.UpstreamRateLimited, 429),
        ({"message": "Slow", "status": "RESOURCE_EXHAUSTED"}, errors.UpstreamRateLimited, 429),
        ({"code": 503, "message": "Later"}, errors.UpstreamOverloaded, 503),
        ({"code": 504, "message": "Long"}, errors.UpstreamTimeout, 504),
        ({"code": 500, "message": "Oh"}, errors.UpstreamError, 502),
        ({}, errors.UpstreamError, 502),
        ("words", errors.UpstreamError, 502),
    ],
)
def test_an_upstreams_error_is_one_of_ours(error: Any, kind: type[Exception], status: int) -> None:
    found = find_error({"error": error or {"code": None}})
    assert type(found) is kind
    assert found is not None
    assert found.status == status


@pytest.mark.parametrize(
    "error",
    [
        {"code": 401, "message": "secret-key is wrong"},
        {"code": 403, "message": "secret-key"},
        {"code": 400, "message": "API key not valid: secret-key. Please pass a valid API key."},
        {"code": 400, "message": "secret-key", "details": [{"reason": "API_KEY_INVALID"}]},
    ],
)
def test_a_fault_of_our_own_key_is_not_the_callers(error: Any) -> None:
    found = find_error([{"error": error}])
    assert isinstance(found, UpstreamError)
    assert found.status == 502
    assert "secret-key" not in found.message


@pytest.mark.parametrize("body", [None, 5, [], [1], {}, {"error": None}, {"candidates": []}])
def test_what_is_no_error_is_none(body: Any) -> None:
    assert find_error(body) is None


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (418, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
        (599, "INTERNAL"),
    ],
)
def test_a_status_has_googles_name(status: int, name: str) -> None:
    assert get_status_name(status) == name
