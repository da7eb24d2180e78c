"""Logs: what is written, what is masked, and that nobody waits for it."""

import io
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.entries import make_logged_entry
from tornado_gate.telemetry import logs
from tornado_gate.telemetry.entries import Entry
from tornado_gate.telemetry.logs import Logging, Scrubber
from tornado_gate.types import Usage

SECRET = "upstream-s3cret/with+signs"


class Sink:
    """Logging to a string; reading it closes it first, so that all of it is there."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.logging: Logging | None = None

    def open(self, **rest: Any) -> "Sink":
        settings: dict[str, Any] = {"level": "info", "format": "json", "secrets": [SECRET]} | rest
        self.logging = logs.configure(**settings, stream=self.stream)
        return self

    def text(self) -> str:
        assert self.logging is not None
        self.logging.close()
        return self.stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture
def sink() -> Iterator[Sink]:
    root = logging.getLogger()
    level = root.level
    made = Sink()
    yield made
    if made.logging is not None:
        made.logging.remove()
    root.setLevel(level)


def test_a_json_line_holds_time_level_logger_message_and_fields(sink: Sink) -> None:
    sink.open()
    logging.getLogger("some.place").warning("seen %d", 3, extra={"fields": {"plugin": "local", "tries": 2}})
    (line,) = sink.lines()
    assert list(line) == ["time", "level", "logger", "message", "plugin", "tries"]
    assert line | {"time": ""} == {
        "time": "",
        "level": "warning",
        "logger": "some.place",
        "message": "seen 3",
        "plugin": "local",
        "tries": 2,
    }


def test_time_is_iso_8601_in_utc_with_milliseconds(sink: Sink) -> None:
    sink.open()
    record = logging.makeLogRecord({"name": "x", "levelno": 20, "levelname": "INFO", "msg": "m", "created": 1.5})
    logging.getLogger().handle(record)
    assert sink.lines()[0]["time"] == "1970-01-01T00:00:01.500Z"


def test_text_says_the_same_as_key_value(sink: Sink) -> None:
    sink.open(format="text")
    logging.getLogger("some.place").info("hello", extra={"fields": {"a": 1, "b": "two words", "c": None}})
    assert sink.text().split(" ", 1)[1] == 'info    some.place hello a=1 b="two words" c=null\n'.replace("info", "INFO")


def test_a_level_hides_what_is_below_it(sink: Sink) -> None:
    sink.open(level="warning")
    logging.getLogger("x").info("hidden")
    logging.getLogger("x").error("shown")
    assert [line["message"] for line in sink.lines()] == ["shown"]


def test_a_field_cannot_take_the_name_of_a_part_of_the_line(sink: Sink) -> None:
    sink.open()
    logging.getLogger("x").info("true", extra={"fields": {"message": "forged", "level": "debug"}})
    (line,) = sink.lines()
    assert (line["message"], line["level"]) == ("true", "info")
    assert (line["field_message"], line["field_level"]) == ("forged", "debug")


@pytest.mark.parametrize("format", ["json", "text"])
def test_a_secret_is_masked_in_message_fields_and_traceback(sink: Sink, format: str) -> None:
    sink.open(format=format)
    try:
        raise ValueError(f"cannot log in with {SECRET}")
    except ValueError:
        logging.getLogger("x").exception("sent %s", SECRET, extra={"fields": {"list": [{"deep": f"<{SECRET}>"}]}})
    text = sink.text()
    assert SECRET not in text
    assert text.count("***") == 3
    assert "ValueError: cannot log in with ***" in text


def test_secrets_are_replaced_on_a_reload(sink: Sink) -> None:
    sink.open()
    assert sink.logging is not None
    sink.logging.scrubber.replace(["another-secret"])
    logging.getLogger("x").info("another-secret")
    assert sink.lines()[0]["message"] == "***"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("bearer x", "bearer ***"),
        ("key sk-proj-abcdefghijklmnop was refused", "key sk-*** was refused"),
        ("'tg-0123456789_-abcdefXYZ'", "'tg-***'"),
        ("GET /v1/models?key=abc HTTP/1.1", "GET /v1/models?key=*** HTTP/1.1"),
        ("/x?alt=sse&key=a%2Fb&z=1", "/x?alt=sse&key=***&z=1"),
        ('{"x-api-key": "zzz"}', '{"x-api-key": "***"}'),
        ("x-goog-api-key: zzz", "x-goog-api-key: ***"),
        ("api_key\t: zzz", "api_key\t: ***"),
        ("AIzaSyA-1234567890", "AIza***"),
        ("openai-insecure-api-key.abc", "openai-insecure-api-key.***"),
        ("a task-runner in the desk-drawer", "a task-runner in the desk-drawer"),
        ("the monkey=banana", "the monkey=banana"),
        ("api_key: the environment variable K is not set", "api_key: the environment variable K is not set"),
        ("api_key: the-key is wrong", "api_key: *** is wrong"),
    ],
)
def test_what_looks_like_a_key_is_masked(text: str, clean: str) -> None:
    assert Scrubber().scrub_text(text) == clean


def test_a_secret_is_masked_in_its_url_and_json_spelling_too() -> None:
    scrubber = Scrubber(['quo"te/slash'])
    assert scrubber.scrub_text('"quo\\"te/slash" quo%22te%2Fslash') == '"***" ***'


def test_a_secret_inside_a_longer_one_does_not_leave_the_rest() -> None:
    assert Scrubber(["aaaabbbb", "aaaabbbbcccc"]).scrub_text("aaaabbbbcccc") == "***"


def test_a_short_value_is_no_secret() -> None:
    assert Scrubber(["", "the"]).scrub_text("the end") == "the end"


def test_a_field_named_like_a_secret_is_masked_whatever_it_holds() -> None:
    assert Scrubber().scrub_fields({"Authorization": "Basic QQ", "a": {"password": "x"}, "api_key": ""}) == {
        "Authorization": "***",
        "a": {"password": "***"},
        "api_key": "",
    }


@given(st.integers(0, 60), st.integers(0, 3), st.text(alphabet="ab &", max_size=10))
def test_no_piece_of_a_secret_survives_a_cut(before: int, times: int, after: str) -> None:
    secret = "0123456789ABCDEF"
    text = Scrubber([secret]).scrub_text("x" * before + secret * times + "y" * 20 + secret + after, longest=50)
    assert not any(secret[start : start + 3] in text for start in range(len(secret) - 2))
    assert len(text) <= 51


def test_fields_are_bounded_in_depth_width_and_length() -> None:
    deep: dict[str, Any] = {}
    deep["self"] = deep
    clean = Scrubber().scrub_fields({"deep": deep, "wide": list(range(10_000)), "long": "x" * 100_000})
    assert len(json.dumps(clean)) < 10_000


def test_a_megabyte_is_scrubbed_in_no_time() -> None:
    scrubber = Scrubber(f"secret-number-{number}" for number in range(200))
    started = time.thread_time()
    for piece in ("bearer ", "?key", "sk-", "api-key: ", "x" * 100):
        scrubber.scrub_text(piece * (1_000_000 // len(piece)))
    assert time.thread_time() - started < 0.5


def test_values_that_json_does_not_know_are_written_as_text(sink: Sink) -> None:
    sink.open()
    logging.getLogger("x").info(
        "m", extra={"fields": {"big": 2**70, "half": "\ud800", "error": ValueError("v"), 5: {1}}}
    )
    (line,) = sink.lines()
    assert (line["big"], line["error"], line["5"]) == (2**70, "v", [1])


def test_a_line_break_in_a_message_starts_no_line_of_its_own(sink: Sink) -> None:
    sink.open(format="text")
    logging.getLogger("x").info("one\n2026-01-01 ERROR forged\x1b[2J", extra={"fields": {"a\nb": "c\nd"}})
    text = sink.text()
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_arguments_that_do_not_fit_lose_neither_the_line_nor_a_secret(
    sink: Sink, capfd: pytest.CaptureFixture[str]
) -> None:
    sink.open()
    record = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": "%d of %d", "args": (SECRET,)})
    assert sink.logging is not None
    sink.logging._queue.handle(record)  # pytest's own handler on the root would raise
    (line,) = sink.lines()
    assert line["message"] == "%d of %d (its arguments do not fit)"
    assert capfd.readouterr().err == ""


def test_what_is_logged_is_as_it_was_at_that_moment(sink: Sink) -> None:
    sink.open()
    fields = {"state": "before"}
    state = ["before"]
    logging.getLogger("x").info("%s", state, extra={"fields": fields})
    fields["state"] = state[0] = "after"
    (line,) = sink.lines()
    assert (line["message"], line["state"]) == ("['before']", "before")


def test_other_handlers_get_the_record_unchanged(sink: Sink, caplog: pytest.LogCaptureFixture) -> None:
    sink.open()
    logging.getLogger("x").info("%s", "argument")
    assert caplog.records[-1].args == ("argument",)


class Stuck(io.StringIO):
    """A terminal that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.go.wait(60)
        return super().write(text)


def test_a_stuck_terminal_stops_nobody_and_what_was_lost_is_counted(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "QUEUE_RECORDS", 5)
    stuck = sink.stream = Stuck()
    sink.open()
    logging.getLogger("x").info("first")
    assert stuck.reached.wait(60)
    for number in range(20):
        logging.getLogger("x").info("number %d", number)
    stuck.go.set()
    messages = [line["message"] for line in sink.lines()]
    assert [message for message in messages if message.startswith("number")] == [f"number {n}" for n in range(5)]
    assert "15 log records were dropped because the log queue was full" in messages


def test_what_is_logged_after_the_end_is_still_written(sink: Sink) -> None:
    sink.open()
    sink.text()
    logging.getLogger("x").info("late")
    assert sink.lines()[-1]["message"] == "late"


def test_configuring_again_takes_the_place_of_the_first(sink: Sink) -> None:
    sink.open()
    sink.open(format="text")
    logging.getLogger("x").info("once")
    assert sink.text().count("once") == 1


def access_line(**rest: Any) -> Entry:
    return make_logged_entry(**{"path": "/v1/chat/completions?key=abc", "total_ms": 12.345, "request_id": "r1", **rest})


def test_an_access_line_names_who_what_and_how_much_and_never_the_query(sink: Sink) -> None:
    sink.open(level="error")
    logs.log_access(
        access_line(
            caller="key_1",
            model="gpt",
            provider="openai",
            bytes_out=10,
            usage=Usage(input_tokens=0, output_tokens=7),
            attempts=2,
        )
    )
    (line,) = sink.lines()
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "tornado_gate.access",
        "message": "POST /v1/chat/completions 200",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "milliseconds": 12.35,
        "request_id": "r1",
        "caller": "key_1",
        "model": "gpt",
        "provider": "openai",
        "bytes_out": 10,
        "attempts": 2,
        "input_tokens": 0,
        "output_tokens": 7,
    }


def test_access_lines_can_be_switched_off(sink: Sink) -> None:
    sink.open(access_log=False)
    logs.log_access(access_line())
    assert sink.text() == ""


def test_tornados_own_access_log_is_off_and_its_other_loggers_are_routed_through(sink: Sink) -> None:
    sink.open()
    logging.getLogger("tornado.access").error("500 GET /?key=abc")
    logging.getLogger("tornado.general").warning("general")
    logging.getLogger("tornado.application").error("application")
    assert [line["message"] for line in sink.lines()] == ["general", "application"]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return done.stderr


def test_lines_are_flushed_when_the_process_ends() -> None:
    stderr = run(
        "import logging\nfrom tornado_gate.telemetry import logs\nlogs.configure('info', 'json')\n"
        "for number in range(2000): logging.getLogger('x').info('line %d', number)\n"
    )
    assert len(stderr.splitlines()) == 2000


def test_a_forked_process_logs_on_its_own_and_repeats_nothing() -> None:
    stderr = run(
        "import logging, os\nfrom tornado_gate.telemetry import logs\nlogs.configure('info', 'json')\n"
        "logging.getLogger('x').info('parent')\n"
        "child = os.fork()\nif child: os.waitpid(child, 0)\nelse: logging.getLogger('x').info('child')\n"
    )
    assert sorted(json.loads(line)["message"] for line in stderr.splitlines()) == ["child", "parent"]


def test_many_secrets_are_hidden_as_few_are() -> None:
    many = Scrubber(f"secret-number-{number}-of-many" for number in range(5000))
    assert many.scrub_text("a secret-number-4711-of-many, twice: secret-number-4711-of-many") == "a ***, twice: ***"
    assert many.scrub_text("secret-number-5001-of-many") == "secret-number-5001-of-many"
    assert many.is_clean("nothing of the kind")
    assert not many.is_clean("xsecret-number-0-of-manyx")
    assert many.scrub_text("short") == "short"
