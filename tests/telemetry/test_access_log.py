"""Lines of requests: written many at once, and each as if it had been a record of its own."""

import io
import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from logging.handlers import QueueHandler
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.entries import make_logged_entry
from tornado_gate.telemetry import logs
from tornado_gate.telemetry.access_log import LOGGER, AccessBuffer, list_fields
from tornado_gate.telemetry.entries import Entry
from tornado_gate.telemetry.logs import Logging, Scrubber
from tornado_gate.types import Usage
from tornado_gate.types.value import replace

SECRET = "upstream-s3cret/with+signs"


class Stream(io.StringIO):
    """Where a test finds what was written, and can wait for it; `broken` or held back if it asks for that."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Condition()
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        self.failed = threading.Event()
        self.broken = False

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.open.wait(60)
        if self.broken:
            self.failed.set()
            raise OSError("no space is left")
        with self.written:
            self.written.notify_all()
            return super().write(text)

    def await_text(self, text: str) -> bool:
        with self.written:
            return self.written.wait_for(lambda: text in self.getvalue(), 10)


class Sink:
    def __init__(self) -> None:
        self.stream = Stream()
        self.logging: Logging | None = None

    def open(self, **rest: Any) -> "Sink":
        settings: dict[str, Any] = {"level": "info", "format": "json", "secrets": [SECRET]} | rest
        self.logging = logs.configure(**settings, stream=self.stream)
        return self

    def lines(self) -> list[dict[str, Any]]:
        assert self.logging is not None
        self.logging.close()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def sink() -> Iterator[Sink]:
    root = logging.getLogger()
    level = root.level
    made = Sink()
    yield made
    made.stream.open.set()
    if made.logging is not None:
        made.logging.remove()
    root.setLevel(level)


def line(request_id: str = "r1", **rest: Any) -> Entry:
    return make_logged_entry(request_id=request_id, **rest)


def as_record(entry: Entry) -> logging.LogRecord:
    """What `log_access` makes of an entry where nothing is configured."""
    path = entry.path.partition("?")[0]
    record = logging.LogRecord(LOGGER, logging.INFO, __file__, 0, "%s %s %d", (entry.method, path, entry.status), None)
    record.created = entry.ended / 1e6
    record.__dict__["fields"] = list_fields(entry)
    return record


words = st.one_of(
    st.sampled_from(["", "POST", "/v1/models", "?key=abc", SECRET, f"x{SECRET}y", "sk-0123456789abc", "api_key: zzz"]),
    st.sampled_from(["Bearer abc", "\ud800", 'a "b"', "a\nb\x1b[2J", "Ünï", "x" * 2_040, "y" * 20_000]),
    st.text(max_size=20),
)
counts = st.one_of(st.none(), st.integers(0, 2**63 - 1))
usages = st.one_of(st.none(), st.builds(Usage, input_tokens=counts, output_tokens=counts))
request_ids = st.one_of(words, st.from_regex(r"[A-Za-z0-9_.:\-]{1,40}", fullmatch=True))
lines = st.builds(
    make_logged_entry,
    method=words,
    path=st.builds(str.__add__, words, words),
    status=st.integers(100, 599),
    total_ms=st.floats(0, 1e6),
    request_id=request_ids,
    caller=words,
    model=words,
    provider=words,
    upstream_model=words,
    client=st.sampled_from(["", "127.0.0.1", "::1"]),
    bytes_out=st.integers(0, 2**40),
    usage=usages,
    attempts=st.integers(0, 3),
    images=st.integers(0, 2),
    error_code=words,
    outcome=st.sampled_from(["complete", "refused", "broken", "aborted"]),
)
usual_lines = st.builds(
    replace,
    st.sampled_from(
        [
            make_logged_entry(
                caller="key_1", model="gpt", provider="openai", client="::1", usage=Usage(input_tokens=1)
            ),
            make_logged_entry(caller="key_1", model="50%", usage=Usage(input_tokens=1, output_tokens=0), images=2),
            make_logged_entry(path="/v1/models", status=404, error_code="not_found", outcome="refused"),
        ]
    ),
    request_id=st.from_regex(r"[A-Za-z0-9_.:\-]{1,128}", fullmatch=True),
    total_ms=st.floats(0, 1e6),
    bytes_out=st.integers(0, 2**40),
)
"""Lines of few kinds, which differ in what each line has of its own."""


@pytest.mark.parametrize("formatter", [logs._JsonFormatter, logs._TextFormatter], ids=["json", "text"])
@given(
    st.one_of(st.lists(lines, min_size=1, max_size=4), st.lists(usual_lines, min_size=1, max_size=8)),
    st.integers(0, 4_000_000_000_000),
)
def test_a_batch_is_written_as_its_lines_would_be_one_by_one(
    formatter: type[logs._Formatter], entries: list[Entry], millisecond: int
) -> None:
    made = formatter(Scrubber([SECRET]))
    batch = [replace(entry, ended=(millisecond + 7 * n) * 1000 + 500) for n, entry in enumerate(entries)]
    assert made.format_lines(batch) == "".join(made.format(as_record(entry)) + "\n" for entry in batch)


def test_a_count_that_no_upstream_can_mean_is_written_too(sink: Sink) -> None:
    sink.open()
    logs.log_access(line(usage=Usage(input_tokens=2**70, output_tokens=1)))
    assert sink.lines()[0]["input_tokens"] == 2**70


@given(st.lists(words, max_size=4))
def test_what_is_called_harmless_would_not_be_changed(texts: list[str]) -> None:
    scrubber = Scrubber([SECRET])
    text = "\n".join(texts)
    if scrubber.is_clean(text):
        assert [scrubber.scrub_text(text, len(text)) for text in texts] == texts


@pytest.mark.parametrize("field", ["path", "model", "request_id", "method", "caller", "provider"])
@pytest.mark.parametrize("secret", [SECRET, "sk-proj-abcdefghijklmnop"], ids=["known", "looks like a key"])
def test_a_secret_that_a_caller_puts_in_a_line_is_masked_there_and_the_rest_of_the_batch_stays(
    sink: Sink, field: str, secret: str
) -> None:
    sink.open()
    values: dict[str, Any] = {"request_id": "r1", field: f"<{secret}>"}
    for entry in (line("before"), line(**values), line("after")):
        logs.log_access(entry)
    first, second, third = sink.lines()
    assert secret not in sink.stream.getvalue()
    assert "***" in second[field]
    assert (first["request_id"], third["request_id"]) == ("before", "after")
    assert first | third == third | first | {"time": third["time"], "request_id": "after"}


def test_secrets_that_a_reload_brings_are_masked_in_lines_too(sink: Sink) -> None:
    sink.open()
    assert sink.logging is not None
    sink.logging.scrubber.replace(["another-secret"])
    logs.log_access(line(model="another-secret"))
    assert sink.lines()[0]["model"] == "***"


def test_the_time_of_a_line_is_that_of_its_request(sink: Sink) -> None:
    sink.open()
    for moment in (1_500_000, 1_999_999, 2_001_000, 1_500_000):
        logs.log_access(line(ended=moment))
    assert [written["time"] for written in sink.lines()] == [
        "1970-01-01T00:00:01.500Z",
        "1970-01-01T00:00:01.999Z",
        "1970-01-01T00:00:02.001Z",
        "1970-01-01T00:00:01.500Z",
    ]


def test_lines_keep_their_order_and_stand_where_they_belong_among_records(sink: Sink) -> None:
    sink.open()
    for number in range(1_000):
        logs.log_access(line(str(number)))
    logging.getLogger("x").info("in between")
    for number in range(1_000, 2_000):
        logs.log_access(line(str(number)))
    found = [written.get("request_id") or written["message"] for written in sink.lines()]
    assert found == [*map(str, range(1_000)), "in between", *map(str, range(1_000, 2_000))]


def test_lines_come_without_anything_else_that_would_push_them(sink: Sink) -> None:
    sink.open()
    logs.log_access(line("first"))
    assert sink.stream.await_text("first")
    logging.getLogger("x").info("a record")
    logs.log_access(line("second"))
    logging.getLogger("x").info("a record that takes the line along")
    assert sink.stream.await_text("takes the line along")
    logs.log_access(line("third"))
    assert sink.stream.await_text("third")


def test_a_stuck_terminal_stops_nobody_and_lost_lines_are_counted(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "QUEUE_RECORDS", 5)
    sink.stream.open.clear()
    sink.open()
    logs.log_access(line("first"))
    assert sink.stream.reached.wait(60)
    for number in range(20):
        logs.log_access(line(str(number)))
    sink.stream.open.set()
    written = sink.lines()
    assert [found["request_id"] for found in written if "request_id" in found] == ["first", "0", "1", "2", "3", "4"]
    told = "15 log records were dropped because the log queue was full"
    assert [found["message"] for found in written if "request_id" not in found] == [told]


def test_an_output_that_fails_loses_what_it_was_given_and_nothing_after(sink: Sink) -> None:
    sink.stream.open.clear()
    sink.stream.broken = True
    sink.open()
    logs.log_access(line("lost"))
    assert sink.stream.reached.wait(60)
    sink.stream.open.set()
    assert sink.stream.failed.wait(60)
    sink.stream.broken = False
    logs.log_access(line("kept"))
    assert [found["request_id"] for found in sink.lines()] == ["kept"]


def test_a_line_after_the_end_is_still_written(sink: Sink) -> None:
    sink.open()
    sink.lines()
    logs.log_access(line("late"))
    assert sink.stream.getvalue().count("late") == 1


def test_whoever_listens_to_the_logger_of_requests_gets_records_and_the_line_is_written_once(sink: Sink) -> None:
    sink.open()
    records: queue.Queue[logging.LogRecord] = queue.Queue()
    listener = QueueHandler(records)
    logging.getLogger(LOGGER).addHandler(listener)
    try:
        logs.log_access(line("r1", path="/v1/models?key=abc"))
    finally:
        logging.getLogger(LOGGER).removeHandler(listener)
    logs.log_access(line("r2"))
    record = records.get_nowait()
    assert record.getMessage() == "POST /v1/models 200"
    assert record.__dict__["fields"]["request_id"] == "r1"
    assert records.empty()
    assert [found["request_id"] for found in sink.lines()] == ["r1", "r2"]


def test_without_configuration_a_line_is_a_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        logs.log_access(line("r1", path="/v1/models?key=abc"))
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == (LOGGER, "POST /v1/models 200")
    assert record.__dict__["fields"]["path"] == "/v1/models"


def test_the_writer_is_woken_once_for_many_lines() -> None:
    woken: list[int] = []
    buffer = AccessBuffer(100, lambda: woken.append(len(buffer.take_lines(100))))
    for number in range(3):
        buffer.add(line(str(number)))
    assert woken == [1]
    assert [found.request_id for found in buffer.take_lines(100)] == ["1", "2"]
    buffer.request_wake()
    buffer.add(line())
    assert woken == [1, 1]


def test_a_buffer_gives_no_more_than_is_asked_for_and_nothing_of_later() -> None:
    buffer = AccessBuffer(4, lambda: None)
    for moment in (10, 20, 30, 40, 50, 60):
        buffer.add(line(ended=moment))
    assert [found.ended for found in buffer.take_lines(9, until=20)] == [10, 20]
    assert [found.ended for found in buffer.take_lines(1)] == [30]
    assert (buffer.take_dropped(), buffer.take_dropped()) == (2, 0)
    assert bool(buffer)
    assert [found.ended for found in buffer.take_lines(9)] == [40]
    assert not buffer


BEGIN = (
    "import os, signal, sys, logging\nfrom tornado_gate.telemetry import logs\n"
    "from tests.support.entries import make_logged_entry\n"
    "from tornado_gate.telemetry.logs import log_access\n"
    "installed = logs.configure('info', 'json')\n"
    "def say(request_id): log_access(make_logged_entry(request_id=request_id))\n"
)


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=30, check=True)
    return [json.loads(written)["request_id"] for written in done.stderr.splitlines()]


def test_lines_are_flushed_when_the_process_ends() -> None:
    assert run("for number in range(3000): say(str(number))\n") == [str(number) for number in range(3000)]


def test_lines_are_flushed_when_a_signal_ends_the_process() -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nsay('r1')\nos.kill(os.getpid(), signal.SIGTERM)\n"
    assert run(code) == ["r1"]


def test_a_forked_process_writes_its_own_lines_and_repeats_none() -> None:
    code = (
        "say('parent')\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n    say('after')\n"
        "else:\n    say('child')\n    installed.close()\n    os._exit(0)\n"
    )
    assert sorted(run(code)) == ["after", "child", "parent"]


def test_what_is_killed_has_written_what_it_said_before() -> None:
    code = BEGIN + "say('r1')\nsys.stdin.read()\n"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        written = process.stderr.readline()
        process.kill()
    assert json.loads(written)["request_id"] == "r1"
