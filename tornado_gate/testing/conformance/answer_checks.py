"""Checks of one response: complete, in the right order, without secrets, and independent of the borders of the chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tornado_gate.streams.events import OrderChecker
from tornado_gate.testing.answer_texts import (
    contains_text,
    find_main_text,
    find_missing,
    join_sound_bytes,
    join_texts,
    read_values,
)
from tornado_gate.testing.conformance.answers import NO_ANSWER_STATUS
from tornado_gate.testing.conformance.driver import Driver, Exchange, join_bytes, split_bytes
from tornado_gate.testing.conformance.examples import PICTURE_MARK
from tornado_gate.testing.conformance.report import PluginReport, Row
from tornado_gate.testing.differences import GUIDE, describe_difference
from tornado_gate.testing.provider_contracts import join_sound
from tornado_gate.testing.stage import CALLER_KEY
from tornado_gate.types import PartStart, ResponseStart, StreamError, StreamEvent, replace

_NO_KEY_BYTES = 12
"""Shorter keys are not searched in responses, because they may occur there by chance."""
_JSON_TYPES = ("application/json", "text/event-stream")


def make_row(exchange: Exchange) -> Row:
    """Return the cell of the matrix for a response. `check_answer` examines it further."""
    answer, example = exchange.answer, exchange.example
    row = Row(
        operation=example.operation, format=example.format, request=example.name, lane=exchange.lane,
        streamed=exchange.is_stream,
        losses=answer.headers.get("x-gate-loss", ""),
    )  # fmt: skip
    if answer.status >= 300:
        row.why = find_message(answer.body) or f"status {answer.status}"
        is_refusal = answer.status in (400, 404, 413, 415, 422) and not exchange.received
        row.outcome = "refused" if is_refusal else "failed"
    return row


def find_message(body: bytes) -> str:
    """Return the first text named ``message`` in a body."""
    for value in read_values(body):
        for member in _walk_value(value):
            if isinstance(member, dict) and isinstance(member.get("message"), str):
                return str(member["message"])
    return ""


def _walk_value(value: Any) -> Iterable[Any]:
    yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walk_value(member)


def check_answer(driver: Driver, report: PluginReport, row: Row, exchange: Exchange) -> None:
    """Check every property of one response. A failure marks the row as failed."""
    before = report.failed_places
    where = describe(row)
    report.count("answer")
    check_secrets(driver, report, where, exchange)
    for name, text in exchange.failures.items():
        report.fail("plugin", where, f"The plugin '{name}' failed: {text}. {_HINT_OF_HOOKS}")
    if row.outcome == "failed" and any(answer.status == NO_ANSWER_STATUS for answer in exchange.answers):
        report.fail("upstream", where, describe_unknown(exchange))
    elif row.outcome == "failed" and not exchange.failures:
        report.fail("answer", where, f"status {exchange.answer.status}: {row.why}")
    if row.outcome == "ok":
        _check_complete(report, where, exchange)
        _check_order(report, where, exchange)
        _check_carried(report, where, exchange)
    if report.failed_places > before:
        row.outcome = "failed"


_HINT_OF_HOOKS = (
    "An exception other than a GateError is a fault of the plugin; run its tests, or see the log of a gateway."
)


def describe(row: Row) -> str:
    """Describe a row as the place of a failure."""
    way = "stream" if row.streamed else "whole"
    return f"{row.operation}, {row.format} {row.request}, {way}, {row.lane} lane"


def describe_unknown(exchange: Exchange) -> str:
    """Return the remedy for a request to which the kit cannot respond as the vendor would."""
    sent = [f"{request.method} {request.url}" for request in exchange.received]
    return (
        f"The kit does not know what the upstream answers to {', '.join(sent)}. Ship a module with a contract that has a "
        f"case for this request, or with `Conformance(answer=…)`. See {GUIDE}."
    )


def check_secrets(driver: Driver, report: PluginReport, where: str, exchange: Exchange) -> None:
    """Check that the upstream's key is in a header to the upstream only, and that the caller's key does not leave the
    gateway.
    """
    report.count("secrets")
    key, answer = driver.api_key, exchange.answer
    for request in exchange.received:
        everything = request.url.encode() + repr(dict(request.headers)).encode() + request.body
        if CALLER_KEY.encode() in everything:
            report.fail("secrets", where, "The caller's key of the gateway was sent to the upstream.")
        if len(key) >= _NO_KEY_BYTES and key in request.url:
            where_sent = f"The API key is in the URL of {request.method} {request.path}."
            what = f"{where_sent} Send it in a header: proxies and logs record URLs."
            report.fail("secrets", where, what)
    if len(key) >= _NO_KEY_BYTES and key.encode() in answer.body + repr(dict(answer.headers)).encode():
        report.fail("secrets", where, "The caller's answer contains the API key of the upstream.")
    sends = any(key in value for request in exchange.received[:1] for value in request.headers.values())
    if key and exchange.received and driver.setup.sends_key and not sends:
        what = f"No header of the upstream request has the API key. If the plugin signs with it, say `sends_key=False`: {GUIDE}."
        report.fail("secrets", where, what)


def _check_complete(report: PluginReport, where: str, exchange: Exchange) -> None:
    """Check that the caller receives everything that the upstream sent."""
    answer, events = exchange.answer, exchange.events
    if answer.broken:
        return report.fail("complete", where, "The connection broke before the end of the answer.")
    if not answer.body:
        return report.fail("complete", where, "The answer is empty.")
    missing = find_missing(events, answer.body)
    if missing:
        report.fail(
            "complete", where, f"The answer does not contain the text {missing[0]!r}:\n{_shorten_body(answer.body)}"
        )
    sound = join_sound_bytes(events)
    if sound and answer.content_type.startswith("audio/") and sound != answer.body:
        what = f"The sound of the answer has {len(answer.body)} bytes, the events have {len(sound)}."
        report.fail("complete", where, what)
    if exchange.lane == "verbatim" and exchange.answers and exchange.answers[-1].content_type in _JSON_TYPES:
        main_text = find_main_text(exchange.answers[-1].body)
        if not contains_text(answer.body, main_text) and main_text:
            what = f"The upstream said {main_text!r}, which the answer does not contain:\n{_shorten_body(answer.body)}"
            report.fail("complete", where, what)


def _check_order(report: PluginReport, where: str, exchange: Exchange) -> None:
    """Check that the events are complete and in an allowed order. (The core has checked the order as they arrived.)"""
    for call in exchange.calls:
        if not call.translated or any(isinstance(event, StreamError) for event in call.events):
            continue
        report.count("event order")
        checker = OrderChecker()
        for event in call.events:
            checker.check(event)
        if not checker.is_complete():
            names = ", ".join(type(event).__name__ for event in call.events)
            report.fail("event order", where, f"The last event is missing: {names}. Each choice ends with a Finish.")


def _check_carried(report: PluginReport, where: str, exchange: Exchange) -> None:
    """Check that a picture and a tool of the request reached the upstream, or are named in x-gate-loss."""
    example, sent = exchange.example, b"".join(request.body for request in exchange.received)
    if not exchange.received or exchange.answer.headers.get("x-gate-loss"):
        return
    if example.has_picture:
        report.count("images in")
        if PICTURE_MARK.encode() not in sent:
            what = "The picture of the request did not reach the upstream, and x-gate-loss does not name it: call.drop_field."
            report.fail("images in", where, what)
    if example.has_tool:
        report.count("tools")
        called_tools = [
            event.name for event in exchange.events if isinstance(event, PartStart) and event.kind == "tool_call"
        ]
        texts = join_texts(exchange.answer.body)
        if lost := [name for name in called_tools if name and name not in texts]:
            report.fail("tools", where, f"The answer does not contain the call of the tool {lost[0]!r}.")


async def check_borders(driver: Driver, report: PluginReport, row: Row, usual: Exchange) -> None:
    """Check that the response does not depend on the borders of the upstream's chunks."""
    for name, change in (("one byte at a time", split_bytes), ("everything at once", join_bytes)):
        report.count("chunk borders")
        exchange = await driver.send(usual.example, lambda _number, answer, change=change: change(answer))  # type: ignore[misc]
        where = f"{describe(row)}, {name}"
        if exchange.answer.status != usual.answer.status:
            report.fail(
                "chunk borders", where, f"status {exchange.answer.status}: {find_message(exchange.answer.body)}"
            )
        elif (events := normalize(exchange.events)) != (expected := normalize(usual.events)):
            report.fail("chunk borders", where, "Other events than usual:\n" + describe_difference(events, expected))
        elif row.lane == "verbatim" and exchange.answer.body != usual.answer.body:
            what = describe_difference(exchange.answer.body, usual.answer.body)
            report.fail("chunk borders", where, f"Other bytes than usual:\n{what}")
        else:
            continue
        row.outcome = "failed"


def normalize(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """Return events without the ids and times that a plugin makes, and with adjacent sound joined."""
    made = [replace(event, id=None, created=None) if isinstance(event, ResponseStart) else event for event in events]
    return join_sound(replace(event, id=None) if isinstance(event, PartStart) else event for event in made)


def _shorten_body(body: bytes) -> str:
    return body[:600].decode("utf-8", "replace")
