"""What the verbatim lane notes of frames that pass."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.types import Meter, Usage
from tornado_gate_openai.wire.chat import ChatStreamMeter, note_body

USAGE = {"prompt_tokens": 1, "completion_tokens": 2}


def noted(*frames: bytes) -> tuple[Meter, ChatStreamMeter, list[bool]]:
    meter = Meter()
    watch = ChatStreamMeter(meter)
    return meter, watch, [watch.note(frame) for frame in frames]


def test_usage_and_finish_reason_are_noted() -> None:
    meter, watch, usage_only = noted(
        sse.render_json({"choices": [{"delta": {"content": "a"}, "finish_reason": None}], "usage": None}),
        sse.render_json({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        sse.render_json({"choices": [], "usage": USAGE}),
        b"data: [DONE]\n\n",
    )
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "tool_calls")
    assert usage_only == [False, False, True, False]
    assert (watch.finished, watch.done) == (True, True)


def test_usage_on_the_finish_chunk_is_not_usage_only() -> None:
    frame = b'data: {"choices": [{"delta": {}, "finish_reason" : "stop"}], "usage" : {"prompt_tokens": 1}}\r\n\r\n'
    meter, watch, usage_only = noted(frame)
    assert (meter.finish_reason, usage_only, watch.finished) == ("stop", [False], True)
    assert meter.usage == Usage(input_tokens=1)


@pytest.mark.parametrize(
    "text",
    ['"usage": {"prompt_tokens": 9}', '"finish_reason":"stop"', "data: [DONE]", '{"error": 1}', "\n\ndata: [DONE]"],
)
def test_words_of_the_model_are_never_taken_for_members(text: str) -> None:
    frame = sse.render_json({"choices": [{"delta": {"content": text}, "finish_reason": None}], "usage": None})
    meter, watch, usage_only = noted(frame)
    assert (meter, watch.finished, watch.done, usage_only) == (Meter(), False, False, [False])


@pytest.mark.parametrize("frame", [b": ping\n\n", b'data: {"usage": {\n\n', b'data: [{"usage": 1}]\n\n', b"\n\n"])
def test_frames_without_an_object_say_nothing(frame: bytes) -> None:
    meter, watch, usage_only = noted(frame)
    assert (meter, watch.finished, watch.done, usage_only) == (Meter(), False, False, [False])


def test_after_an_error_nothing_may_follow() -> None:
    _, watch, _ = noted(sse.render_json({"error": {"message": "broken"}}))
    assert (watch.done, watch.finished) == (True, False)


def test_the_json_of_a_frame_is_found() -> None:
    assert sse.parse_json(b'event: x\r\ndata: {"a":\r\ndata: 1}\r\n\r\n') == {"a": 1}
    assert sse.parse_json(b": ping\n\n") is None
    assert sse.parse_json(b"data: {\n\n") is None


def test_a_whole_answer_is_noted() -> None:
    meter = Meter()
    body: dict[str, Any] = {"choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}], "usage": USAGE}
    note_body(meter, body)
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "length")


def test_a_whole_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(UpstreamError, match="broken"):
        note_body(Meter(), {"error": {"message": "broken"}})


@pytest.mark.parametrize("body", [[], None, {}, {"choices": 5}, {"choices": [5]}, "text"])
def test_json_that_is_no_answer_is_the_upstreams_error(body: Any) -> None:
    with pytest.raises(UpstreamError, match="not a response"):
        note_body(Meter(), body)
