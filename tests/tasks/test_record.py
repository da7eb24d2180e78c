"""A record: what it may become, and that its bytes give it back whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from tornado_gate.tasks import record as record_module
from tornado_gate.tasks.record import (
    RecordDamaged,
    RecordNewer,
    TaskRecord,
    advance,
    decode_record,
    decode_request,
    encode_record,
    encode_request,
)
from tornado_gate.types import Data, VideoFile, VideoRequest, replace

ID = "video_" + "0123456789abcdef" * 2


def a_record(**values: Any) -> TaskRecord:
    known: dict[str, Any] = {
        "id": ID,
        "account": "acme",
        "model": "film",
        "provider": "studio",
        "upstream_model": "film-1",
        "created_at": 1_790_000_000.123456,
        "deadline": 1_790_003_600.0,
        "request": {"model": "film", "prompt": "a cat"},
    }
    return TaskRecord(**{**known, **values})


FULL = a_record(
    caller_id="key-1",
    operation={"name": "operations/7", "parts": [1, None, {"deep": True}], "big": 2**70},
    step="fetching",
    status="pending",
    progress=40,
    updated_at=1_790_000_001.5,
    started_at=1_790_000_000.5,
    completed_at=1.0,
    expires_at=2.0,
    image={"media_type": "image/png", "filename": "žába\ud800.png", "size": 3},
    kind="image",
    files=(VideoFile(id="f.mp4", media_type="video/mp4", size=7, duration=4.0),),
    videos=2,
    fetched=1,
    duration=4.0,
    error_code="x",
    error_message="y",
    polls=3,
    failures=1,
    next_poll_at=9.0,
    spent=7.5,
    remixed_from="video_" + "f" * 32,
    digest="d",
    key="k",
    webhook={"url": "https://example.com", "attempts": 1, "next_at": 2.5, "state": "owed"},
    asked={"seconds": "4"},
    requested_by={"key_name": "dev", "user": "", "team": "", "tags": ["a"]},
    provider_key="0123456789ab",
    reserved=("bound", 5),
)


@pytest.mark.parametrize("record", [a_record(), FULL])
def test_the_bytes_of_a_record_give_it_back(record: TaskRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_no_field_of_the_full_record_is_left_at_its_default() -> None:
    plain = a_record()
    same = {name for name in TaskRecord.__struct_fields__ if getattr(FULL, name) == getattr(plain, name)}
    required = {"id", "account", "model", "provider", "upstream_model", "created_at", "deadline", "request"}
    assert same == required | {"version"}


def test_the_bytes_are_json() -> None:
    assert json.loads(encode_record(FULL))["record"]["progress"] == 40


def test_a_mapping_that_is_no_dict_is_kept_too() -> None:
    operation: Mapping[str, Any] = MappingProxyType({"name": MappingProxyType({"a": 1})})
    assert decode_record(encode_record(a_record(operation=operation))).operation == {"name": {"a": 1}}


def test_what_is_no_json_is_refused_before_anything_is_written() -> None:
    with pytest.raises(TypeError):
        encode_record(a_record(operation={"name": object()}))


def test_a_record_that_is_torn_anywhere_is_noticed() -> None:
    data = encode_record(FULL)
    for length in range(len(data)):
        with pytest.raises(RecordDamaged):
            decode_record(data[:length])


def test_a_record_with_any_bit_flipped_is_noticed() -> None:
    data = encode_record(a_record())
    for place in range(len(data)):
        with pytest.raises(RecordDamaged):
            decode_record(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def resealed(body: bytes) -> bytes:
    """Bytes that some other program has written with a right checksum."""
    sealed = hashlib.sha256(body).hexdigest().encode()
    return b'{"sha256":"' + sealed + b'","record":' + body + b"}\n"


def changed(**values: Any) -> bytes:
    return resealed(json.dumps({**json.loads(encode_record(a_record()))["record"], **values}).encode())


def test_a_field_that_this_version_has_not_is_named() -> None:
    with pytest.raises(RecordDamaged, match="colour"):
        decode_record(changed(colour="red"))


def test_a_record_of_a_newer_gateway_is_told_from_a_damaged_one() -> None:
    with pytest.raises(RecordNewer, match="newer gateway"):
        decode_record(changed(version=record_module.VERSION + 1, colour="red"))


@pytest.mark.parametrize("body", [b"[]", b"null", b"{", b'"x"', b"{}", b'{"files":[{"a":1}]}'])
def test_what_is_no_record_is_damaged_whatever_its_checksum(body: bytes) -> None:
    with pytest.raises(RecordDamaged):
        decode_record(resealed(body))


# Steps


def test_progress_never_falls_and_ends_at_100() -> None:
    record = advance(a_record(progress=40), progress=30)
    assert record.progress == 40
    assert advance(record, progress=170).progress == 100


@pytest.mark.parametrize(("now", "then"), [("pending", "queued"), ("completed", "failed"), ("failed", "completed")])
def test_a_status_never_goes_back_and_a_last_one_never_changes(now: Any, then: str) -> None:
    with pytest.raises(ValueError, match=then):
        advance(a_record(status=now), status=then)


@pytest.mark.parametrize("status", ["queued", "pending", "completed", "failed"])
def test_a_status_may_stay_or_skip(status: str) -> None:
    assert advance(a_record(), status=status).status == status
    assert advance(a_record(status=status), status=status, polls=2).polls == 2


STEPS = ["new", "starting", "running", "fetching", "telling", "done"]


@pytest.mark.parametrize("now", STEPS)
@pytest.mark.parametrize("then", STEPS)
@pytest.mark.parametrize("again", [False, True])
def test_a_step_goes_back_only_to_begin_again(now: Any, then: str, again: bool) -> None:
    forward = STEPS.index(then) >= STEPS.index(now)
    if forward or (again and then == "new" and now in ("starting", "running", "fetching")):
        assert advance(a_record(step=now), again=again, step=then).step == then
    else:
        with pytest.raises(ValueError, match=then):
            advance(a_record(step=now), again=again, step=then)


def test_beginning_again_may_forget_the_operation() -> None:
    record = advance(a_record(step="running", operation={"a": 1}), again=True, step="new", operation=None)
    assert (record.step, record.operation) == ("new", None)


def test_created_ns_is_exact_to_the_microsecond() -> None:
    assert a_record().created_ns == 1_790_000_000_123_456_000
    assert a_record(created_at=-5.0).created_ns == 0


# Requests


REQUEST = VideoRequest(
    model="film", wire_format="openai", user="u", extra={"x": (1, 2)}, names={"seconds": "duration"}, prompt="a cat",
    image=Data(media_type="image/png", base64="AAAA"), task_id="other", seconds=4.0, width=640, height=480, fps=24,
    seed=7, n=2, watermark=False, metadata={"negative_prompt": "dogs"}, remix_of={"name": "o"}, webhook="https://e.com",
)  # fmt: skip


def test_a_request_comes_back_with_its_task_and_its_image() -> None:
    record = decode_record(encode_record(a_record(request=encode_request(REQUEST))))
    image = Data(media_type="image/jpeg", base64="BBBB")
    back = decode_request(record, image)
    assert (back.image, back.task_id) == (image, ID)
    for name in VideoRequest.__struct_fields__:
        if name not in ("image", "task_id", "extra", "reply_state"):
            assert getattr(back, name) == getattr(REQUEST, name), name
    assert back.extra == {"x": [1, 2]}


def test_the_json_of_a_request_holds_no_image_and_nothing_unsaid() -> None:
    assert encode_request(VideoRequest(model="film", prompt="p", image=REQUEST.image)) == {
        "model": "film",
        "prompt": "p",
    }
    assert not {"image", "task_id"} & encode_request(REQUEST).keys()
    assert encode_request(replace(REQUEST, reply_state=object())) == encode_request(REQUEST)


def test_a_field_that_requests_no_longer_have_is_left_out() -> None:
    record = a_record(request={"model": "film", "prompt": "p", "mood": "blue", "task_id": "forged", "image": "x"})
    assert decode_request(record, None) == VideoRequest(model="film", prompt="p", task_id=ID)
