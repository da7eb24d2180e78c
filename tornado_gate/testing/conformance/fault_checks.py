"""Checks with faults of the upstream. Each must become the right error for the caller, and none may look like a
complete response.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.testing.answer_texts import has_error
from tornado_gate.testing.conformance import answer_checks
from tornado_gate.testing.conformance.driver import Driver, Exchange, only_first, reset_after
from tornado_gate.testing.conformance.report import PluginReport, Row
from tornado_gate.testing.scripted_upstream import Fault, UpstreamAnswer
from tornado_gate.types.value import Value, replace

RETRY_AFTER: Final = "7"
_RETRIED: Final = frozenset({"status 429", "status 500", "reset within the answer", "an empty answer"})
"""Faults after which the core restarts a video a second later. That is too slow for the kit."""
_TEXT_TYPES: Final = ("application/json", "text/event-stream")


class UpstreamFault(Value, frozen=True, kw_only=True):
    """A fault: the response to the upstream's first request, and the statuses that the caller may receive."""

    name: str
    answer: UpstreamAnswer
    statuses: range | tuple[int, ...]


def list_faults(usual: UpstreamAnswer, api_key: str) -> list[UpstreamFault]:
    """Return the faults that replace `usual`. The errors repeat the key, as careless upstreams do."""
    body = b'{"error": {"message": "kit fault, key %s", "type": "kit", "code": "kit"}}' % api_key.encode()
    made = UpstreamAnswer(steps=(body,))
    faults = [
        UpstreamFault(name="status 400", answer=replace(made, status=400), statuses=(400,)),
        UpstreamFault(name="status 401", answer=replace(made, status=401), statuses=(502,)),
        UpstreamFault(
            name="status 429", answer=replace(made, status=429, headers={"Retry-After": RETRY_AFTER}), statuses=(429,)
        ),
        UpstreamFault(name="status 500", answer=replace(made, status=500), statuses=(500, 502, 503)),
        UpstreamFault(name="reset before the answer", answer=UpstreamAnswer(steps=(Fault.RESET,)), statuses=(502, 503)),
        UpstreamFault(name="reset within the answer", answer=reset_after(usual), statuses=range(500, 600)),
    ]
    if usual.content_type in _TEXT_TYPES:
        html, late = b"<html>a page of a proxy</html>", range(500, 600)
        faults += [
            UpstreamFault(name="bad JSON", answer=replace(usual, steps=(b'{"kit": ',)), statuses=late),
            UpstreamFault(name="an empty answer", answer=replace(usual, steps=()), statuses=late),
            UpstreamFault(
                name="wrong content type", answer=UpstreamAnswer(steps=(html,), content_type="text/html"), statuses=late
            ),
        ]
    return faults


async def check_faults(driver: Driver, report: PluginReport, row: Row, usual: Exchange) -> None:
    """Try each fault with the request of a row that works."""
    for fault in list_faults(usual.answers[0], driver.api_key):
        if row.operation == "videos" and fault.name in _RETRIED:
            continue
        report.count("faults")
        exchange = await driver.send(usual.example, only_first(fault.answer))
        where = f"{answer_checks.describe(row)}, {fault.name}"
        answer_checks.check_secrets(driver, report, where, exchange)
        if not exchange.received:  # a wrapper has responded from memory
            continue
        for name, text in exchange.failures.items():
            report.fail(
                "faults", where, f"The plugin '{name}' failed: {text}. Raise a GateError, such as UpstreamError."
            )
        if exchange.failures:
            continue
        if row.operation == "videos":
            await _check_task(driver, report, where)
        else:
            _check_error(report, where, fault, exchange)


def _check_error(report: PluginReport, where: str, fault: UpstreamFault, exchange: Exchange) -> None:
    """Check the status of the response, or the error event of a stream that had begun."""
    answer = exchange.answer
    if answer.status < 300:
        late = fault.name == "reset within the answer" or not isinstance(fault.statuses, tuple)
        if not (late and exchange.is_stream and has_error(answer.body)) and not answer.broken:
            shown = answer.body[:300].decode("utf-8", "replace")
            report.fail("faults", where, f"The caller got status {answer.status} and no error: {shown}")
    elif answer.status not in fault.statuses:
        allowed = " or ".join(map(str, fault.statuses)) if isinstance(fault.statuses, tuple) else "5xx"
        message = answer_checks.find_message(answer.body)
        report.fail("faults", where, f"The caller got status {answer.status}, not {allowed}: {message}")
    elif fault.name == "status 429" and answer.headers.get("retry-after") != RETRY_AFTER:
        report.fail(
            "faults",
            where,
            "Retry-After of the upstream did not reach the caller: pass the headers to error_for_status.",
        )


async def _check_task(driver: Driver, report: PluginReport, where: str) -> None:
    """Check the task of a video. If its start failed, it has failed. If its start is uncertain, it may have recovered."""
    store = driver.stage.services.tasks.engine.store
    page = await store.list("conformance", "", 1, "desc")
    if page.records and page.records[0].status not in ("failed", "completed"):
        report.fail("faults", where, f"The task of the video is still '{page.records[0].status}'.")
