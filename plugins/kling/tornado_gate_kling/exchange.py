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
from tornado_gate.types import Call, UpstreamRequest, UpstreamResponse, Whole
from tornado_gate.types.value import Value, replace
from tornado_gate_kling.address import KINDS, Kind, task_url
from tornado_gate_kling.answers import NO_SUCH_THING, POLICY, Answer, answer_in, error_of

LOST: Final = orjson.dumps({"code": NO_SUCH_THING, "message": "task not found", "data": None})
"""What is answered for the upstream when it knows a task under none of the addresses where it could be."""

ERRORS: Final = range(400, 600)
"""Statuses that are answers here, because the vendor's own code in the body says more: by the status alone an account without
money looks like one that asks too often."""

_ABOUT_THE_TASK: Final = frozenset({200, 400, 404})
"""The statuses with which the upstream may say that it has no such task."""


class Begin(Value, frozen=True, kw_only=True):
    """`name` is the gateway's own name for the task."""

    kind: Kind
    name: str


class Ask(Value, frozen=True, kw_only=True):
    """A task by the vendor's id, or with `own` by the name that the gateway gave it; `kinds` are what it may be."""

    kinds: tuple[Kind, ...]
    name: str
    own: bool = False


class Rejected(Exception):
    """An answer that is no task, with the error that it would be."""

    def __init__(self, answer: Answer, raw: bytes, status: int, error: UpstreamError) -> None:
        super().__init__(error.message)
        self.answer = answer
        self.raw = raw
        self.status = status
        self.error = error


async def _send(call: Call, outgoing: UpstreamRequest) -> tuple[bytes, Answer]:
    """One exchange. Raises Rejected, and UpstreamError for everything that is no answer of the vendor's."""
    incoming = await upstream.call_upstream(call, outgoing)
    raw, failed = await incoming.read(), incoming.status in ERRORS
    try:
        answer = answer_in(call.target.settings, raw, incoming.provider)
    except UpstreamError:
        if not failed:
            raise
        answer = Answer(code=-1)
    if failed or answer.code != 0:
        raise _rejected(call, raw, answer, incoming.status, incoming.headers)
    return raw, answer


def _rejected(call: Call, raw: bytes, answer: Answer, status: int, headers: Mapping[str, str]) -> Rejected:
    return Rejected(answer, raw, status, error_of(call, answer, raw, status, headers))


async def begin(call: Call, outgoing: UpstreamRequest, task: Begin) -> UpstreamResponse:
    """The upstream's answer to a beginning; the one about the task, when it turns out to have begun before."""
    error: UpstreamError
    try:
        raw, _ = await _send(call, outgoing)
        return _response(raw, task.kind)
    except Rejected as rejected:
        if rejected.answer.code in POLICY:
            return _response(rejected.raw, task.kind)
        if rejected.status < 500 and not rejected.answer.taken:
            raise rejected.error from None
        error = rejected.error
    except UpstreamError as uncertain:  # the request may have come through
        error = uncertain
    try:
        found = await _found(call, outgoing, Ask(kinds=(task.kind,), name=task.name, own=True)) if task.name else None
    except GateError:
        found = None
    if found is None:
        raise error
    return found


async def ask(call: Call, outgoing: UpstreamRequest, asked: Ask) -> UpstreamResponse:
    """The upstream's answer about a task, LOST when it has none. Raises UpstreamError."""
    return await _found(call, outgoing, asked) or _response(LOST, asked.kinds[0])


async def _found(call: Call, outgoing: UpstreamRequest, asked: Ask) -> UpstreamResponse | None:
    """An answer about the task, None when the upstream says that it has none. Raises UpstreamError."""
    for kind in asked.kinds:
        url = task_url(call.target.base_url, kind, asked.name)
        try:
            raw, answer = await _send(call, replace(outgoing, method="GET", url=url, json=None))
        except Rejected as rejected:
            if not rejected.answer.unknown or rejected.status not in _ABOUT_THE_TASK:
                raise _honest(call, rejected) from None
            continue
        if not asked.own or _is_called(answer, asked.name):
            return _response(raw, kind)
    return None


def _honest(call: Call, rejected: Rejected) -> UpstreamError:
    """A 404 that is not the vendor's says nothing of the task, so it must not end it as a refusal would."""
    if rejected.status == 404 and rejected.answer.code == -1:
        return UpstreamError(f"The provider '{call.target.provider}' is not where conf says: its address answers 404.")
    return rejected.error


def _is_called(answer: Answer, name: str) -> bool:
    """Whether there is a task in the answer to a name, and it has that name as far as the upstream says."""
    if not answer.data:
        return False
    about = answer.data.get("task_info")
    said = about.get("external_task_id") if isinstance(about, dict) else None
    return said in (None, "", name)


def _response(raw: bytes, kind: Kind) -> UpstreamResponse:
    """`context` is the kind of the task: the address says it, the answer does not."""
    return UpstreamResponse(chunks=Whole(raw), headers={"content-type": "application/json"}, context=kind)


ANY_KIND: Final = KINDS
"""For a task of which only the name is known."""
