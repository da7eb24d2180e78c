"""What the verbatim lane notes of events that pass."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.types import Meter, Usage
from tornado_gate_openai.wire.responses import ResponsesStreamMeter

RESPONSE = {"id": "resp_1", "status": "in_progress", "output": []}
CREATED = {"type": "response.created", "sequence_number": 0, "response": RESPONSE}
DELTA = {"type": "response.output_text.delta", "sequence_number": 4, "delta": "Hi"}


def noted(*events: Any) -> tuple[Meter, ResponsesStreamMeter]:
    meter = Meter()
    watch = ResponsesStreamMeter(meter)
    assert not any(watch.note(event if isinstance(event, bytes) else sse.render_json(event)) for event in events)
    return meter, watch


def test_the_last_event_tells_usage_and_reason() -> None:
    response = {**RESPONSE, "status": "completed", "usage": {"input_tokens": 1, "output_tokens": 2}}
    meter, watch = noted(CREATED, DELTA, {"type": "response.completed", "response": response})
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")
    assert (watch.finished, watch.done) == (True, True)


def test_an_incomplete_response_is_an_end_too() -> None:
    response = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    meter, watch = noted({"type": "response.incomplete", "response": response})
    assert (meter.finish_reason, watch.finished, watch.done) == ("length", True, True)


def test_a_failed_response_may_follow_its_error() -> None:
    _, watch = noted(CREATED, {"type": "error", "message": "gone"})
    assert (watch.finished, watch.done) == (False, False)
    watch.note(sse.render_json({"type": "response.failed", "response": {**RESPONSE, "status": "failed"}}))
    assert (watch.finished, watch.done) == (False, True)


@pytest.mark.parametrize("words", ['"type":"response.completed"', '"error": {"message": "x"}', '"sequence_number":99'])
def test_words_of_the_model_are_never_taken_for_members(words: str) -> None:
    meter, watch = noted({**DELTA, "delta": words})
    assert (meter, watch.done) == (Meter(), False)
    assert watch.render_ending(UpstreamError("gone"))[0]["sequence_number"] == 5


@pytest.mark.parametrize("frame", [b": ping\n\n", b'data: {"type": "response.completed"\n\n', b"data: [DONE]\n\n"])
def test_frames_without_an_object_say_nothing(frame: bytes) -> None:
    meter, watch = noted(frame)
    assert (meter, watch.finished, watch.done) == (Meter(), False, False)


def test_a_stream_that_broke_off_ends_with_the_response_that_it_began() -> None:
    _, watch = noted(CREATED, DELTA)
    error, failed = watch.render_ending(UpstreamError("gone"))
    assert (error["type"], error["message"], error["sequence_number"]) == ("error", "gone", 5)
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 6)
    assert (failed["response"]["id"], failed["response"]["status"]) == ("resp_1", "failed")


def test_without_a_response_there_is_only_the_error() -> None:
    _, watch = noted()
    assert [event["type"] for event in watch.render_ending(UpstreamError("gone"))] == ["error"]


def test_pictures_that_the_tool_made_are_counted_with_their_size() -> None:
    made = {"type": "image_generation_call", "result": "AA==", "size": "1024x1024", "quality": "low"}
    failed = {"type": "image_generation_call", "result": None, "status": "failed"}
    output = [made, failed, {"type": "message", "content": []}, made]
    meter, _ = noted(CREATED, {"type": "response.completed", "response": {**RESPONSE, "output": output}})
    assert (meter.images, meter.size, meter.quality) == (2, "1024x1024", "low")
