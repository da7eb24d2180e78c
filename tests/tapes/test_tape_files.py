"""Files of tapes: their lifetime, their bounds, and files that are none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.config.tapes import TapesConfig
from tornado_gate.tapes.recorder import EXCHANGE_BYTES, Recorder
from tornado_gate.tapes.store import TapeStore, make_tape_id
from tornado_gate.tapes.tape import Exchange, Tape, TapeError, TapeRequest, parse_tape
from tornado_gate.tapes.tapes import Tapes
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.testing.scripted_upstream import Fault, Pause
from tornado_gate.testing.tape_replay import play_exchange
from tornado_gate.testing.tape_values import read_body, replace_made_values


def make_tape(most_bytes: int = 10_000) -> bytes:
    recorder = Recorder(make_tape_id(), {"model": "m", "format": "f"}, time.monotonic(), most_bytes)
    recorder.note_data("answer_chunk", b"\xff\x00", exchange=1)
    return recorder.end(is_withheld=False, status=200, outcome="complete", error_code="")


def test_tapes_expire_and_the_oldest_leave_beyond_the_bytes(tmp_path: Path) -> None:
    store, data = TapeStore(tmp_path, keep_seconds=60.0), make_tape()
    rules = TapesConfig(total_bytes=3 * len(data))
    ids = sorted(make_tape_id() for _ in range(4))
    assert [store.write(identity, data, rules) for identity in ids] == [0, 0, 0, 1]
    assert [tape.id for tape in store.list_tapes()] == ids[:0:-1]
    old = tmp_path / "tapes" / f"{ids[1]}.jsonl"
    os.utime(old, (time.time() - 61, time.time() - 61))
    assert store.read(ids[1]) is None
    assert [tape.id for tape in store.list_tapes()] == ids[:1:-1]
    store.sweep()
    assert not old.exists()
    assert not store.delete(ids[1])
    assert store.delete(ids[2])
    assert [tape.id for tape in store.list_tapes()] == [ids[3]]


@pytest.mark.gen_test
async def test_a_request_that_ends_after_the_process_has_closed_its_tapes_has_none(tmp_path: Path) -> None:
    metrics, rules = Metrics().tapes, TapesConfig()
    tapes = Tapes(tmp_path, metrics)
    kept, late = (tapes.begin(rules, {"model": "m"}, time.monotonic()) for _ in range(2))
    assert kept is not None
    assert late is not None
    tapes.end(kept, rules, is_withheld=False, status=200)
    await tapes.close()
    tapes.end(late, rules, is_withheld=False, status=503)
    assert [tape.id for tape in tapes.store.list_tapes()] == [kept.id]


def test_ids_that_are_paths_find_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("secret")
    store = TapeStore(tmp_path, keep_seconds=60.0)
    for identity in ("../secret", "secret", "", "tape_", "tape_" + "g" * 24, "tape_" + "0" * 24 + "/../../secret"):
        assert store.read(identity) is None
        assert not store.delete(identity)


def test_a_file_that_is_damaged_is_listed(tmp_path: Path) -> None:
    store, identity = TapeStore(tmp_path, keep_seconds=60.0), make_tape_id()
    store.write(identity, b"\x00nonsense", TapesConfig())
    (tape,) = store.list_tapes()
    assert (tape.id, tape.model, tape.bytes) == (identity, "", 9)


def test_data_of_any_kind_come_back() -> None:
    tape = parse_tape(make_tape().splitlines())
    assert (tape.body, tape.end["truncated"], tape.head["model"]) == (b"\xff\x00", False, "m")


@given(st.lists(st.binary(max_size=4000), max_size=40), st.integers(300, 5000))
def test_a_tape_is_bounded_and_says_what_is_missing(chunks: list[bytes], most_bytes: int) -> None:
    recorder = Recorder(make_tape_id(), {"format": "f"}, time.monotonic(), most_bytes)
    for chunk in chunks:
        recorder.note_data("answer_chunk", chunk)
    file = recorder.end(is_withheld=False, status=200)
    tape = parse_tape(file.splitlines())
    whole = b"".join(chunks)
    assert len(file) < 6 * most_bytes + 3000
    assert whole.startswith(tape.body) or tape.end["truncated"]
    assert len(tape.body) + tape.end["omitted_bytes"] >= len(whole)
    assert tape.end["truncated"] == (tape.body != whole)


def test_a_task_that_asks_its_upstream_for_hours_has_a_bounded_tape() -> None:
    recorder = Recorder(make_tape_id(), {"model": "m", "format": "f"}, time.monotonic(), 10_000)
    for _ in range(2000):
        number = recorder.begin_exchange()
        recorder.note_data("upstream_request", b"", None, exchange=number, method="GET", url="/", headers={})
        recorder.note("upstream_head", exchange=number, status=200, headers={"content-type": "application/json"})
        recorder.note_data("upstream_chunk", b'{"status": "running"}', None, exchange=number)
        recorder.note("upstream_end", exchange=number, fault="")
    data = recorder.end(is_withheld=False, status=200, outcome="complete", error_code="")
    assert len(data) < 10_000 + 2 * EXCHANGE_BYTES
    tape = parse_tape(data.splitlines())
    assert tape.end["truncated"]
    assert 10 < len(tape.exchanges) < 500


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.dictionaries(
                st.sampled_from(["kind", "version", "at", "exchange", "text", "base64", "headers", "status", "url"]),
                st.one_of(
                    st.none(), st.integers(0, 2), st.sampled_from(["tape", "request", "end", "answer_chunk", "=", "é"])
                ),
            ).map(orjson.dumps),
        ),
        max_size=6,
    )
)
def test_what_is_no_tape_is_refused_with_a_reason(lines: list[bytes]) -> None:
    try:
        assert isinstance(parse_tape(lines), Tape)
    except TapeError as error:
        assert str(error)


def test_another_version_is_refused() -> None:
    with pytest.raises(TapeError, match="version 2"):
        parse_tape([b'{"kind": "tape", "version": 2}'])


def test_an_upstream_waits_as_it_did_then_if_wished() -> None:
    request = TapeRequest(method="POST", path="/", headers={}, body=b"")
    chunks = [(1.5, b"a"), (1.75, b"b")]
    headers = {"content-type": "text/plain", "x-a": "1", "connection": "close"}
    exchange = Exchange(
        request=request, at=1.0, status=200, headers=headers, chunks=chunks, fault="ConnectionBroken: lost"
    )
    timed = play_exchange(exchange, with_times=True)
    assert list(timed.steps) == [Pause(0.5), b"a", Pause(0.25), b"b", Fault.RESET]
    assert (timed.status, timed.content_type, timed.headers) == (200, "text/plain", {"x-a": "1"})
    assert list(play_exchange(exchange, with_times=False).steps) == [b"a", b"b", Fault.RESET]


def test_made_values_are_equal_and_the_others_are_not() -> None:
    def read(identity: str, text: str, created: int) -> object:
        body = (
            f'data: {{"id": "{identity}", "of": ["{identity}"], "created": {created}, "text": "{text}"}}\n\n: ping\n\n'
        )
        return replace_made_values(read_body(body.encode(), "text/event-stream"))

    assert read("msg_0123456789ab", "a", 5) == read("msg_ba9876543210", "a", 6)
    assert read("msg_0123456789ab", "a", 5) != read("msg_0123456789ab", "b", 5)
    assert read("msg_0123456789ab", "a", 5) != read("run_0123456789ab", "a", 5)
    assert read_body(b"\xff", "application/json") == b"\xff"
