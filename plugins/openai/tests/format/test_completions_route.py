"""The text completions route: what its body may hold, and its replies on the common lane."""

from __future__ import annotations

from typing import Any, get_type_hints

import orjson
import pytest
from format_openai_calls import call_for, text_of, wire_with
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types import Completion
from openai.types.completion_create_params import CompletionCreateParamsNonStreaming
from responses_calls import make_events

import tornado_gate_openai.format as plugin
from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.testing import iterate
from tornado_gate.types import ChatRequest, Reply, StreamError
from tornado_gate_openai.fields.completions import CompletionBodySchema, check_completion
from tornado_gate_openai.format.completions import CompletionState

PATH = "/v1/completions"
QUESTION: dict[str, Any] = {"model": "m", "prompt": "Once"}
WRONG: dict[str, list[Any]] = {
    "string": [True, 1, [], {}],
    "boolean": [0, "true", []],
    "integer": [True, 1.5, "5", [], {}],
    "number": [True, "0.5", [], {}],
    "object": [True, 1, "a", []],
    "string or array": [True, 1, {}],
}
FIELDS = {
    "model": "string",
    "prompt": "string or array",
    "best_of": "integer",
    "echo": "boolean",
    "frequency_penalty": "number",
    "logit_bias": "object",
    "logprobs": "integer",
    "max_tokens": "integer",
    "n": "integer",
    "presence_penalty": "number",
    "seed": "integer",
    "stop": "string or array",
    "stream": "boolean",
    "stream_options": "object",
    "suffix": "string",
    "temperature": "number",
    "top_p": "number",
    "user": "string",
}


def fault_of(body: Any) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_completion(body)
    return caught.value


def read_request(**fields: Any) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_with(QUESTION | fields, PATH))
    assert isinstance(request, ChatRequest)
    assert isinstance(request.reply_state, CompletionState)
    return request


def replied(events: Any, **fields: Any) -> Reply:
    return plugin.translate_response(call_for("asked-name"), read_request(**fields), iterate(events))


def test_every_field_of_the_vendor_is_checked() -> None:
    assert set(get_type_hints(CompletionCreateParamsNonStreaming)) == set(CompletionBodySchema().fields) == set(FIELDS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, kind in FIELDS.items() for value in WRONG[kind]])
def test_a_value_of_the_wrong_type_is_named(name: str, value: Any) -> None:
    fault = fault_of(QUESTION | {name: value})
    assert (fault.param, fault.status, fault.code) == (name, 400, "invalid_value")


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in QUESTION])
def test_null_says_nothing(name: str) -> None:
    assert read_request(**{name: None}) == read_request()


@pytest.mark.parametrize("name", ["model", "prompt"])
def test_a_required_field_must_be_there(name: str) -> None:
    assert fault_of({**QUESTION, name: None}).param == name
    assert fault_of({other: value for other, value in QUESTION.items() if other != name}).param == name


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": ""}),
        ("prompt", {"prompt": []}),
        ("prompt.0", {"prompt": [None]}),
        ("prompt.0", {"prompt": [True]}),
        ("prompt.1", {"prompt": ["a", 1]}),
        ("prompt.1", {"prompt": [1, True]}),
        ("prompt.0", {"prompt": [[]]}),
        ("prompt.0.1", {"prompt": [[1, "a"]]}),
        ("prompt", {"prompt": ["a"] * 2049}),
        ("n", {"n": 0}),
        ("n", {"n": 129}),
        ("max_tokens", {"max_tokens": 0}),
        ("temperature", {"temperature": 3}),
        ("logprobs", {"logprobs": -1}),
        ("logit_bias.50256", {"logit_bias": {"50256": "1"}}),
        ("stop", {"stop": ["a"] * 5}),
        ("stream_options", {"stream_options": {"include_usage": True}}),
        ("best_of", {"n": 3, "best_of": 2}),
    ],
)
def test_a_value_out_of_bounds_is_named(param: str, fields: dict[str, Any]) -> None:
    assert fault_of(QUESTION | fields).param == param


def test_a_long_array_of_tokens_passes() -> None:
    body = QUESTION | {"prompt": [1] * 5000, "x_new": 1}
    assert plugin.forward_request(call_for(), wire_with(body, PATH)).body == body


def test_a_whole_answer_is_a_text_completion() -> None:
    reply = replied(make_events("upon ", "a time"), echo=True, suffix="end")
    assert reply.content_type == "application/json"
    body = orjson.loads(text_of(reply))
    answer = Completion.model_validate(body)
    assert answer.id.startswith("cmpl-")
    assert (answer.model, answer.choices[0].text) == ("asked-name", "Onceupon a time")
    assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_echo_is_done_here_and_no_loss() -> None:
    assert read_request(echo=True, logprobs=1).extra == {"logprobs": 1}


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1], [2]]])
def test_only_one_text_can_be_a_chat(prompt: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        read_request(prompt=prompt)
    assert caught.value.param == "prompt"


def test_a_stream_ends_with_done() -> None:
    reply = replied(make_events("upon ", "a time"), stream=True, stream_options={"include_usage": True})
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream; charset=utf-8", b": ping\n")
    *found, done = [line.removeprefix(b"data: ") for line in text_of(reply).strip().split(b"\n\n")]
    chunks = [orjson.loads(line) for line in found]
    assert done == b"[DONE]"
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == "upon a time"
    assert Completion.model_validate(chunks[-1]).usage is not None


def test_a_stream_that_fails_ends_with_its_error_and_nothing_more() -> None:
    raw = text_of(replied([*make_events("upon")[:3], StreamError(error=UpstreamError("gone"))], stream=True))
    assert orjson.loads(raw.strip().rpartition(b"data: ")[2])["error"]["message"] == "gone"
    assert b"[DONE]" not in raw


_words = st.text(st.characters(codec="utf-8"), max_size=5)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=8,
)


@given(body=st.dictionaries(st.sampled_from([*FIELDS]) | _words, _json, max_size=5), prompt=_json)
def test_no_body_raises_anything_but_a_gate_error(body: dict[str, Any], prompt: Any) -> None:
    wire = wire_with({}, PATH)
    force_setattr(wire, "json", {"model": "m", "prompt": prompt} | body)
    try:
        plugin.translate_request(call_for(), wire)
    except GateError as error:
        assert error.status == 400
        assert error.param
