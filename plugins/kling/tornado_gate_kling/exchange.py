"""The upstream is asked: to begin, how a task stands, and whether it has one at all.

Every task carries the gateway's own name for it (external_task_id, which the vendor wants to be unique in the account), so a
beginning whose answer was lost is no riddle: the upstream is asked for that name, and what it has is not made, and paid, twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.http import upstream
from tornado_gate.types import BufferedBody, Call, UpstreamRequest, UpstreamResponse
from tornado_gate.types.value import Value, replace
from tornado_gate_kling.address import KINDS, Kind, build_task_url
from tornado_gate_kling.answers import NOT_FOUND_CODE, POLICY_CODES, KlingResponse, make_error, parse_response

NOT_FOUND_BODY: Final = orjson.dumps({"code": NOT_FOUND_CODE, "message": "task not found", "data": None})
"""What is answered for the upstream when it knows a task under none of the addresses where it could be."""

ERROR_STATUSES: Final = range(400, 600)
"""Statuses that are answers here, because the vendor's own code in the body says more: by the status alone an account without
money looks like one that asks too often."""

_TASK_STATUSES: Final = frozenset({200, 400, 404})
"""The statuses with which the upstream may say that it has no such task."""


class TaskCreation(Value, frozen=True, kw_only=True):
    """`name` is the gateway's own name for the task."""

    kind: Kind
    name: str


class TaskQuery(Value, frozen=True, kw_only=True):
    """A task by the vendor's id, or with `own` by the name that the gateway gave it; `kinds` are what it may be."""

    kinds: tuple[Kind, ...]
    name: str
    own: bool = False


class RejectedResponse(Exception):
    """An answer that is no task, with the error that it would be."""

    def __init__(self, answer: KlingResponse, raw: bytes, status: int, error: UpstreamError) -> None:
        super().__init__(error.message)
        self.answer = answer
        self.raw = raw
        self.status = status
        self.error = error


async def _send(call: Call, outgoing: UpstreamRequest) -> tuple[bytes, KlingResponse]:
    """One exchange. Raises Rejected, and UpstreamError for everything that is no answer of the vendor's."""
    incoming = await upstream.call_upstream(call, outgoing)
    raw, failed = await incoming.read(), incoming.status in ERROR_STATUSES
    try:
        answer = parse_response(call.target.settings, raw, incoming.provider)
    except UpstreamError:
        if not failed:
            raise
        answer = KlingResponse(code=-1)
    if failed or answer.code != 0:
        raise _make_rejected(call, raw, answer, incoming.status, incoming.headers)
    return raw, answer


def _make_rejected(
    call: Call, raw: bytes, answer: KlingResponse, status: int, headers: Mapping[str, str]
) -> RejectedResponse:
    return RejectedResponse(answer, raw, status, make_error(call, answer, raw, status, headers))


async def create_task(call: Call, outgoing: UpstreamRequest, task: TaskCreation) -> UpstreamResponse:
    """The upstream's answer to a beginning; the one about the task, when it turns out to have begun before."""
    error: UpstreamError
    try:
        raw, _ = await _send(call, outgoing)
        return _make_response(raw, task.kind)
    except RejectedResponse as rejected:
        if rejected.answer.code in POLICY_CODES:
            return _make_response(rejected.raw, task.kind)
        if rejected.status < 500 and not rejected.answer.is_duplicate:
            raise rejected.error from None
        error = rejected.error
    except UpstreamError as uncertain:  # the request may have come through
        error = uncertain
    try:
        found = (
            await _find_task(call, outgoing, TaskQuery(kinds=(task.kind,), name=task.name, own=True))
            if task.name
            else None
        )
    except GateError:
        found = None
    if found is None:
        raise error
    return found


async def query_task(call: Call, outgoing: UpstreamRequest, asked: TaskQuery) -> UpstreamResponse:
    """The upstream's answer about a task, LOST when it has none. Raises UpstreamError."""
    return await _find_task(call, outgoing, asked) or _make_response(NOT_FOUND_BODY, asked.kinds[0])


async def _find_task(call: Call, outgoing: UpstreamRequest, asked: TaskQuery) -> UpstreamResponse | None:
    """An answer about the task, None when the upstream says that it has none. Raises UpstreamError."""
    for kind in asked.kinds:
        url = build_task_url(call.target.base_url, kind, asked.name)
        try:
            raw, answer = await _send(call, replace(outgoing, method="GET", url=url, json=None))
        except RejectedResponse as rejected:
            if not rejected.answer.is_unknown_task or rejected.status not in _TASK_STATUSES:
                raise _make_query_error(call, rejected) from None
            continue
        if not asked.own or _is_called(answer, asked.name):
            return _make_response(raw, kind)
    return None


def _make_query_error(call: Call, rejected: RejectedResponse) -> UpstreamError:
    """A 404 that is not the vendor's says nothing of the task, so it must not end it as a refusal would."""
    if rejected.status == 404 and rejected.answer.code == -1:
        return UpstreamError(f"The provider '{call.target.provider}' is not where conf says: its address answers 404.")
    return rejected.error


def _is_called(answer: KlingResponse, name: str) -> bool:
    """Whether there is a task in the answer to a name, and it has that name as far as the upstream says."""
    if not answer.data:
        return False
    about = answer.data.get("task_info")
    said = about.get("external_task_id") if isinstance(about, dict) else None
    return said in (None, "", name)


def _make_response(raw: bytes, kind: Kind) -> UpstreamResponse:
    """`context` is the kind of the task: the address says it, the answer does not."""
    return UpstreamResponse(chunks=BufferedBody(raw), headers={"content-type": "application/json"}, context=kind)


ANY_KIND: Final = KINDS
"""For a task of which only the name is known."""
