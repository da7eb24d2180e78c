"""The moderation wire format: requests of texts and pictures, verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import ModerationCreateResponse

from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.testing import call_to
from tornado_gate.types import (
    Audio,
    Call,
    Data,
    Image,
    Link,
    ModerationRequest,
    ModerationResult,
    Text,
    Usage,
    Verdict,
)
from tornado_gate_openai.wire import moderations as wire

PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://images.example/a.png"}}
WORDS: dict[str, Any] = {"type": "text", "text": "Look"}


def call_for(**fields: Any) -> Call:
    return call_to(operation="moderation", model="m", upstream_model="up", **fields)


def read_request(value: Any, **fields: Any) -> ModerationRequest:
    return wire.parse_request({"model": "m", "input": value, **fields}, model="m")


def test_texts_are_inputs_and_objects_are_one_input() -> None:
    assert read_request("a").inputs == ((Text(text="a"),),)
    assert read_request(["a", "b"]).inputs == ((Text(text="a"),), (Text(text="b"),))
    link = Image(source=Link(url="https://images.example/a.png"))
    assert read_request([WORDS, PICTURE]).inputs == ((Text(text="Look"), link),)


def test_a_picture_may_be_inside_the_request() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert read_request([part]).inputs == ((Image(source=Data(media_type="image/png", base64="AAAA")),),)


def test_an_address_of_another_scheme_is_named() -> None:
    with pytest.raises(InvalidField) as caught:
        read_request([WORDS, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])
    assert caught.value.param == "input.1.image_url.url"


@pytest.mark.parametrize(
    "value",
    [
        "a",
        ["a", "b"],
        [WORDS, PICTURE],
        [PICTURE],
        [WORDS, WORDS],
        [WORDS | {"x": 1}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}, "x": 2}],
        [{"type": "image_url", "image_url": {"url": "iVBORw0KGgo="}}],
    ],
)
def test_a_request_goes_up_as_it_was_said(value: Any) -> None:
    call = call_for()
    body = wire.render_request(call, read_request(value, x_new=1, x_none=None))
    assert body == {"model": "up", "input": value, "x_new": 1}
    assert call.losses == []


def test_one_text_in_an_array_is_one_text() -> None:
    assert wire.render_request(call_for(), read_request(["a"]))["input"] == "a"


def test_unknown_fields_of_another_format_are_lost() -> None:
    request = ModerationRequest(model="m", wire_format="else", inputs=((Text(text="a"),),), extra={"x": 1})
    call = call_for()
    assert wire.render_request(call, request) == {"model": "up", "input": "a"}
    assert call.losses == ["x"]


@pytest.mark.parametrize(
    "inputs",
    [
        ((Text(text="a"),), (Image(source=Link(url="https://images.example/a.png")),)),
        ((Audio(reference="1"),),),
    ],
)
def test_what_the_format_cannot_say_is_named(inputs: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        wire.render_request(call_for(), ModerationRequest(model="m", inputs=inputs, names=wire.FIELD_NAMES))
    assert caught.value.param == "input"


def test_a_verdict_is_read() -> None:
    result = wire.parse_response(
        {
            "id": "modr-1",
            "model": "up",
            "results": [
                {
                    "flagged": True,
                    "categories": {"violence": True, "illicit": None},
                    "category_scores": {"violence": 0.9, "hate": 1, "illicit": None},
                    "category_applied_input_types": {"violence": ["text", "image"], "illicit": None},
                    "x": 1,
                }
            ],
            "usage": {"prompt_tokens": 2},
        }
    )
    assert result == ModerationResult(
        id="modr-1",
        model="up",
        usage=Usage(input_tokens=2),
        verdicts=(
            Verdict(
                flagged=True,
                categories={"violence": True},
                scores={"violence": 0.9, "hate": 1.0},
                applied={"violence": ["text", "image"]},
                extra={"x": 1},
            ),
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"results": {}},
        {"results": [1]},
        {"results": [{}]},
        {"results": [{"flagged": "no", "categories": {}, "category_scores": {}}]},
        {"results": [{"flagged": True, "categories": [], "category_scores": {}}]},
        {"results": [{"flagged": True, "categories": {}}]},
    ],
)
def test_an_answer_without_verdicts_is_the_upstreams_fault(body: Any) -> None:
    with pytest.raises(UpstreamError):
        wire.parse_response(body)


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(GateError) as caught:
        wire.parse_response({"error": {"message": "slow down", "code": 429}})
    assert caught.value.status == 429


def test_an_answer_has_the_vendors_shape_whatever_was_judged() -> None:
    verdict = Verdict(flagged=True, categories={"violence": True}, scores={"violence": 0.9, "spam": 0.1})
    result = ModerationResult(verdicts=(verdict,), id="other-id", model="up")
    body = wire.render_response(result, id="modr-made", model="m", kinds=[["image"]])
    answer = ModerationCreateResponse.model_validate(body, strict=True)
    assert (answer.id, answer.model, answer.results[0].flagged) == ("modr-made", "m", True)
    judged = body["results"][0]
    assert set(judged["categories"]) == set(judged["category_scores"]) == {*wire.CATEGORIES, "spam"}
    assert (judged["categories"]["violence"], judged["category_scores"]["violence"]) == (True, 0.9)
    assert judged["category_applied_input_types"]["violence"] == ["image"]
    assert judged["category_applied_input_types"]["spam"] == ["image"]
    assert (judged["categories"]["hate"], judged["category_scores"]["hate"]) == (False, 0.0)
    assert judged["category_applied_input_types"]["hate"] == []


def test_an_id_of_this_format_is_kept() -> None:
    result = ModerationResult(verdicts=(), id="modr-9")
    assert wire.render_response(result, id="modr-made", model="m") == {"id": "modr-9", "model": "m", "results": []}


_verdicts = st.builds(
    Verdict,
    flagged=st.booleans(),
    categories=st.fixed_dictionaries(dict.fromkeys(wire.CATEGORIES, st.booleans())),
    scores=st.fixed_dictionaries(dict.fromkeys(wire.CATEGORIES, st.floats(0, 1))),
    applied=st.fixed_dictionaries(dict.fromkeys(wire.CATEGORIES, st.lists(st.sampled_from(["text", "image"])))),
    extra=st.dictionaries(st.sampled_from(["x", "y"]), st.integers()),
)


@given(verdicts=st.lists(_verdicts, max_size=3))
def test_what_is_written_is_read_again(verdicts: list[Verdict]) -> None:
    result = ModerationResult(verdicts=tuple(verdicts), model="m", id="modr-1")
    assert wire.parse_response(wire.render_response(result, id="", model="m")) == result
