"""The client half of OpenAI's videos. The bodies have the shapes of openai-python 3.52, types/video.py."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamRateLimited
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Data, VideoOperation, VideoRequest
from tornado_gate_openai.wire import videos as wire

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
VIDEO: dict[str, Any] = {
    "id": "video_68d7512d07848190b3e45da0ecbebcde",
    "object": "video",
    "created_at": 1758941485,
    "status": "queued",
    "model": "sora-2",
    "progress": 0,
    "seconds": "8",
    "size": "1280x720",
    "error": None,
}


@dataclass(frozen=True)
class Memory:
    """An upload."""

    field: str
    data: bytes
    filename: str
    media_type: str

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


def call_for(**fields: Any) -> Call:
    return call_to(operation="videos", model="m", upstream_model="sora-2", **fields)


def make_request(**fields: Any) -> VideoRequest:
    return VideoRequest(**{"model": "m", "prompt": "A cat", **fields})


def parsed(headers: dict[str, str] | None = None, **fields: Any) -> VideoOperation:
    return wire.parse_video({**VIDEO, **fields}, headers or {})


def test_length_and_size_are_strings_and_nothing_else_is_said() -> None:
    call = call_for()
    body = wire.render_request(call, make_request(seconds=8.0, width=1280, height=720, n=1, webhook="https://h.test"))
    assert body == {"model": "sora-2", "prompt": "A cat", "seconds": "8", "size": "1280x720"}
    assert call.losses == []
    assert wire.render_request(call, make_request(seconds=4.5))["seconds"] == "4.5"
    assert wire.render_request(call, make_request()) == {"model": "sora-2", "prompt": "A cat"}


def test_what_the_vendor_has_no_field_for_is_lost_by_the_callers_name() -> None:
    call = call_for()
    wishes = make_request(
        fps=24, seed=0, n=2, watermark=False, user="u", names={"fps": "frame_rate"},
        metadata={"negative_prompt": "dogs", "style": None},
    )  # fmt: skip
    assert set(wire.render_request(call, wishes)) == {"model", "prompt"}
    assert call.losses == ["frame_rate", "seed", "watermark", "user", "n", "metadata.negative_prompt"]


def test_a_loss_is_an_error_for_who_wants_it_strict() -> None:
    with pytest.raises(InvalidField) as caught:
        wire.render_request(call_for(strict=True), make_request(fps=24))
    assert caught.value.param == "fps"


@pytest.mark.parametrize(("wire_format", "there", "lost"), [(wire.WIRE_FORMAT, True, []), ("other", False, ["steps"])])
def test_unknown_fields_go_up_only_from_a_caller_of_the_same_format(
    wire_format: str, there: bool, lost: list[str]
) -> None:
    call = call_for()
    body = wire.render_request(
        call, make_request(wire_format=wire_format, extra={"steps": 40, "model": "other", "x": None})
    )
    assert ("steps" in body) is there
    assert body["model"] == "sora-2"
    assert [name for name in call.losses if name != "model"] == lost


def test_a_remix_says_only_what_changes() -> None:
    call = call_for()
    assert wire.render_remix(call, make_request(seconds=8, width=1280, height=720)) == {"prompt": "A cat"}
    assert call.losses == []
    wire.render_remix(call, make_request(metadata={"style": "oil"}))
    assert call.losses == ["metadata.style"]


@pytest.mark.parametrize("source", [
    Data(media_type="", base64=base64.b64encode(PNG).decode()),
    Memory("image[]", PNG, "cat", "application/octet-stream"),
])  # fmt: skip
def test_a_picture_is_a_file_with_its_real_type_and_an_extension(source: Any) -> None:
    file = asyncio.run(wire.make_image_upload(call_for(), source, "image"))
    assert (file.field, file.media_type, file.filename) == ("input_reference", "image/png", "picture.png")
    assert asyncio.run(file.read()) == PNG


def test_what_is_no_picture_is_a_fault_of_the_callers_field() -> None:
    with pytest.raises(InvalidField) as caught:
        asyncio.run(wire.make_image_upload(call_for(), Memory("image", b"%PDF-1.7", "a.png", "image/png"), "image"))
    assert caught.value.param == "image"


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("queued", "queued"),
        ("in_progress", "running"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("pending", "running"),
        ("SUCCEEDED", "completed"),
        ("cancelled", "failed"),
        ("expired", "failed"),
        ("thinking", "unknown"),
        ("unknown", "unknown"),
    ],
)
def test_every_word_for_how_far_it_is_has_a_meaning_or_is_unknown(word: str, status: str) -> None:
    operation = parsed(status=word)
    assert (operation.status, operation.raw) == (status, word)
    assert operation.operation == {"id": VIDEO["id"]}


def test_progress_is_percent_and_length_is_known_when_it_is_done() -> None:
    running = parsed(status="in_progress", progress=33)
    assert (running.progress, running.duration) == (33, None)
    done = parsed(status="completed", progress=100.0)
    assert (done.progress, done.duration, done.videos) == (100, 8.0, 1)


@pytest.mark.parametrize("progress", [True, "33", -1, 101, None, [], float("nan")])
def test_what_is_no_percentage_is_not_said(progress: Any) -> None:
    assert parsed(status="in_progress", progress=progress).progress is None


@pytest.mark.parametrize("seconds", [True, "", "long", "nan", "inf", -4, 0, None, {}])
def test_what_is_no_length_is_not_said(seconds: Any) -> None:
    assert parsed(status="completed", seconds=seconds).duration is None


@pytest.mark.parametrize(
    ("status", "error", "said", "code"),
    [
        ("failed", {"code": "moderation_blocked", "message": "No cats."}, "No cats.", "moderation_blocked"),
        ("failed", {"code": 7, "message": None}, "", ""),
        ("failed", "No cats.", "No cats.", ""),
        ("failed", None, "", ""),
        ("expired", None, "The upstream reports the video status 'expired'.", ""),
    ],
)
def test_a_failure_has_the_upstreams_words_and_code(status: str, error: Any, said: str, code: str) -> None:
    operation = parsed(status=status, error=error)
    assert (operation.status, operation.error, operation.code) == ("failed", said, code)


def test_a_failures_words_are_bounded() -> None:
    operation = parsed(status="failed", error={"code": "c" * 5000, "message": "m" * 5000})
    assert (len(operation.error), len(operation.code)) == (2000, 100)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2500", 2.5), ("9999999", 60.0), ("0", None), ("-1", None), ("soon", None), ("", None), ("²", None)],
)
def test_the_upstream_says_when_it_wants_to_be_asked_again(header: str, seconds: float | None) -> None:
    assert parsed({"openai-poll-after-ms": header}).poll_after == seconds


def test_an_error_in_place_of_a_video_is_raised() -> None:
    with pytest.raises(UpstreamRateLimited, match="slow down"):
        wire.parse_video({"error": {"code": "429", "message": "slow down"}}, {})
    for body in (
        {},
        {"id": "video_1"},
        {"status": "queued"},
        {"id": "", "status": "queued"},
        {"id": 1, "status": "queued"},
    ):
        with pytest.raises(UpstreamError):
            wire.parse_video(body, {})


@pytest.mark.parametrize("operation", [{}, {"id": ""}, {"id": ".."}, {"id": 5}, {"name": "models/veo"}])
def test_an_operation_of_another_provider_leads_nowhere(operation: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        wire.render_job_path(operation)
    assert caught.value.code == "upstream_lost_task"


@given(st.text(min_size=1))
def test_the_name_of_a_job_stays_one_segment_of_its_address(job: str) -> None:
    try:
        path = wire.render_job_path({"id": job})
    except UpstreamError:
        assert job in (".", "..")
    else:
        assert not set(path) & set("/?#\\ ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*VIDEO, "error"), JSON)), st.text(max_size=20))
def test_no_answer_is_a_crash(body: dict[str, Any], header: str) -> None:
    try:
        assert isinstance(wire.parse_video(body, {"openai-poll-after-ms": header}), VideoOperation)
    except GateError as error:
        assert error.status >= 400
