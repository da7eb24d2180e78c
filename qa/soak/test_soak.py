"""`make soak` and `make chaos`: they run, and they notice what they are for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.soak import faults, formats
from bench.soak.bounded import PACED, SESSION, check_limits
from bench.soak.records import Broken, Disruption, Journal, Mismatch, Mixed, Request
from bench.soak.run import Sample, check_tapes, find_growth
from bench.soak.sdks import SDKS, Clients
from bench.soak.site import OPEN_LIMIT, RATE_LIMIT, Usage
from bench.soak.vendors import RightAnswer, Vendors
from bench.soak.words import make_prompt, make_words

ROOT = Path(__file__).parents[2]
NONCE = "0123456789abcdef"
OTHER = "fedcba9876543210"


@pytest.mark.timeout(600)  # it starts seven processes, which takes minutes on a busy machine
def test_a_short_run_with_kills_and_reloads_finds_nothing() -> None:
    arguments = [
        "--chaos",
        "--seconds",
        "5",
        "--interval",
        "5",
        "--rate",
        "15",
        "--gap",
        "0.8",
        "--share",
        "0.2",
        "--valkey",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "bench.soak", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "\n0 faults" in ended.stdout
    assert "kill -9 of a worker 1" in ended.stdout
    assert "valid reload 1" in ended.stdout
    assert "kill -9 of Valkey 1" in ended.stdout


@pytest.mark.representative
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("".join(make_words(NONCE, 3))[:-1], Mismatch),
        ("".join(make_words(NONCE, 2)), Mismatch),
        ("".join(make_words(NONCE, 3)).replace(".1 ", ".1 " + NONCE + ".1 "), Mismatch),
        ("".join(make_words(OTHER, 3)), Mixed),
        ("".join(make_words(NONCE, 3)) + OTHER, Mixed),
        ("", Mismatch),
    ],
)
def test_a_text_that_is_cut_changed_or_mixed_is_noticed(text: str, kind: type[Mismatch]) -> None:
    formats.check_text(NONCE, 3, "".join(make_words(NONCE, 3)))
    with pytest.raises(kind):
        formats.check_text(NONCE, 3, text)


def test_a_beginning_is_right_only_where_a_stream_may_end_early() -> None:
    words = make_words(NONCE, 9)
    formats.check_text(NONCE, 9, "".join(words[:4]), is_cut=True)
    formats.check_text(NONCE, 9, "".join([*words[:3], words[2], *words[3:]]), faults=("duplicate events",))
    with pytest.raises(Mismatch):
        formats.check_text(NONCE, 9, "".join(words[1:4]), is_cut=True)


def make_answer(way: str, *, stream: bool, count: int = 8) -> RightAnswer:
    path, body = formats.make_request(way, "m", NONCE, count, stream=stream)
    return Vendors().answer("POST", path.partition("?")[0], json.dumps(body).encode())


@pytest.mark.parametrize("way", ["chat", "messages", "generate"])
def test_the_reader_reads_what_the_vendors_send(way: str) -> None:
    (whole,) = make_answer(way, stream=False).pieces
    assert formats.read_whole(way, whole) == "".join(make_words(NONCE, 8))


async def read(way: str, data: bytes) -> formats.StreamText:
    async def chunks() -> AsyncIterator[bytes]:
        yield data

    reader = formats.StreamText(way)
    async for _, text in formats.iterate_events(chunks()):
        reader.feed(text)
    return reader


@pytest.mark.gen_test
@pytest.mark.parametrize("way", ["chat", "messages", "generate"])
async def test_streams_that_break_off_or_are_no_text_are_noticed(way: str) -> None:
    right = make_answer(way, stream=True)
    whole = b"".join(right.pieces)
    reader = await read(way, whole)
    assert reader.is_ended
    assert reader.text == "".join(make_words(NONCE, 8))
    assert not (await read(way, b"".join(right.pieces[:-1]))).is_ended
    with pytest.raises(Mismatch, match="inside an event"):
        await read(way, whole[: len(whole) // 2])
    with pytest.raises(Mismatch, match="UTF-8"):
        await read(way, whole.replace(b"cdef.1", b"cd\xffef.1"))


@pytest.mark.gen_test
@pytest.mark.parametrize("name", list(SDKS))
async def test_a_stream_that_breaks_off_is_a_lost_connection_to_each_sdk(name: str) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    clients = Clients.connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(Broken):
        await SDKS[name](clients, Journal().begin("SDK", "bare-o", NONCE), "hello", True, [])
    await clients.close()
    server.close()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"error": "text"}', b'{"error": {"message": ""}}', b"{"])
def test_an_error_without_its_shape_is_noticed(body: bytes) -> None:
    with pytest.raises(Mismatch):
        formats.check_error("chat", 502, "application/json", body)
    with pytest.raises(Mismatch):
        formats.check_error("chat", 502, "text/html", b'{"error": {"message": "x"}}')
    with pytest.raises(Mismatch, match="outer type"):
        formats.check_error("messages", 502, "application/json", b'{"error": {"message": "x"}}')


@pytest.mark.parametrize("kind", sorted(faults.STREAMS))
def test_each_fault_differs_from_the_right_answer(kind: str) -> None:
    right = make_answer("chat", stream=True, count=20)
    answer = faults.STREAMS[kind](right)
    steps = answer["steps"]
    first = [next(iter(steps))] if kind == "endless stream" else list(steps)
    assert {**answer, "steps": first} != faults.make_right(right)


def test_a_creation_of_a_video_meets_no_fault() -> None:
    right = Vendors().answer("POST", "/shaky1/v1/videos", make_prompt(NONCE, 1).encode())
    assert faults.get_kinds("/shaky1/v1/videos", right) == {}
    assert faults.get_kinds("/shaky1/v1/videos/video_1", right)


def lose(journal: Journal, started: float, ended: float, status: int = 0) -> Request:
    request = journal.begin("chat", "steady-o", NONCE)
    request.started, request.ended, request.status = started, ended, status
    request.outcome = "WRONG" if status else "LOST"
    return request


def test_only_what_a_disruption_hit_is_excused() -> None:
    journal = Journal()
    journal.disruptions += [Disruption("kill", 10, 11, cuts=True), Disruption("restart", 20, 25, refuses=True)]
    hit = [lose(journal, 9, 10.5), lose(journal, 10.9, 12), lose(journal, 21, 21), lose(journal, 21, 22, 503)]
    missed = [lose(journal, 1, 9), lose(journal, 12, 13), lose(journal, 19, 21), lose(journal, 21, 22, 500)]
    journal.settle()
    assert {one.outcome for one in hit} == {"cut"}
    assert "cut" not in {one.outcome for one in missed}, "a request in flight at SIGTERM must be answered"
    journal.disruptions.append(Disruption("database", 30, 33, has_no_database=True))
    chat, page = lose(journal, 31, 32, 503), lose(journal, 31, 32, 503)
    page.kind = "page /admin/v1/keys"
    journal.settle()
    missed.append(chat)
    assert page.outcome == "cut"
    assert journal.list_faults() == missed


def test_growth_is_reported() -> None:
    flat = [Sample(at, Usage(100.0, 50, 10), 5) for at in (0, 60, 600)]
    assert find_growth([Sample(0, Usage(60.0, 20, 3), 1), *flat]) == [], "it may grow while caches fill"
    assert find_growth([*flat, Sample(3600, Usage(106.0, 50, 10), 5)]) == [
        "rss_mb grew from 100 after 600 s to 106 after 3600 s"
    ]
    (fault,) = find_growth([*flat, Sample(3600, Usage(100.0, 90, 10), 5)])
    assert "files" in fault
    pools_full, too_many = Sample(3600, Usage(100.0, 50, 48), 5), Sample(3600, Usage(100.0, 50, 49), 5)
    assert find_growth([*flat, pools_full], 48) == []
    (fault,) = find_growth([*flat, too_many], 48)
    assert "threads" in fault
    (fault,) = find_growth([*flat, Sample(3600, Usage(100.0, 50, 10, stored=1001), 5)])
    assert "stored" in fault


def test_missing_tapes_and_too_many_tapes_are_reported(tmp_path: Path) -> None:
    assert check_tapes(tmp_path, 2) == ["0 tapes remain instead of 1 to 2"]
    (tmp_path / "tapes").mkdir()
    for number in range(3):
        (tmp_path / "tapes" / f"{number}.jsonl").touch()
    assert check_tapes(tmp_path, 2) == ["3 tapes remain instead of 1 to 2"]
    assert check_tapes(tmp_path, 3) == []


def send_paced(journal: Journal, status: int, *moments: float) -> None:
    for moment in moments:
        request = journal.begin(PACED, "steady-o", NONCE)
        request.started, request.ended, request.status = moment, moment + 0.1, status


def test_limits_that_are_not_exact_are_noticed() -> None:
    journal = Journal()
    send_paced(journal, 200, *(float(number) for number in range(RATE_LIMIT)))
    send_paced(journal, 429, 50.0, 60.0)
    send_paced(journal, 200, 60.5)
    assert check_limits(journal) == []
    send_paced(journal, 200, 59.0)
    assert any(fault.startswith(f"{RATE_LIMIT + 1} requests") for fault in check_limits(journal))
    journal.disruptions.append(Disruption("Valkey hangs", 30, 34, moves_limits="kept"))
    assert check_limits(journal) == [], "the machine admits as many while Valkey is away"
    send_paced(journal, 200, *[40.0] * (RATE_LIMIT * 2))
    assert any("the bound is 40" in fault for fault in check_limits(journal))
    journal = Journal()
    send_paced(journal, 200, *[0.0] * RATE_LIMIT)
    send_paced(journal, 429, 62.0)
    (fault,) = check_limits(journal)
    assert "was refused after 0 requests" in fault


def test_sessions_beyond_or_refused_below_their_bound_are_noticed() -> None:
    journal = Journal()
    for _ in range(OPEN_LIMIT):
        request = journal.begin(SESSION, "voice", NONCE)
        request.started, request.ended, request.status, request.held = 10.0, 11.0, 101, (10.2, 10.9)
    refused = journal.begin(SESSION, "voice", NONCE)
    refused.started, refused.ended, refused.status = 10.1, 10.3, 429
    assert check_limits(journal) == []
    refused.started = refused.ended = 16.0
    assert "was refused while at most 0 sessions" in check_limits(journal)[0]
    refused.status, refused.held = 101, (10.5, 10.6)
    assert f"{OPEN_LIMIT + 1} sessions of a key" in check_limits(journal)[0]
