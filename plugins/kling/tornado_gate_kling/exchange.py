"""Requests to the upstream: create a task, poll it, find it by its external id.

Every task has the gateway's own id as external_task_id, which is unique in the vendor's account. When the response to a
creation is lost, the upstream is queried for that id, so that no video is created and charged twice.
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
"""The response body for a task that the upstream does not find under any of its URLs."""

ERROR_STATUSES: Final = range(400, 600)
"""Error statuses that are read as responses, because the vendor's code in the body is more precise. By the status
alone, an account without credit looks like a rate limit.
"""

_TASK_STATUSES: Final = frozenset({200, 400, 404})
"""The statuses of a response that reports an unknown task."""


class TaskCreation(Value, frozen=True, kw_only=True):
    """Creation of a task. `name` is the gateway's own id of the task."""

    kind: Kind
    name: str


class TaskQuery(Value, frozen=True, kw_only=True):
    """A query for a task by the vendor's id or, with `own`, by the gateway's id. `kinds` are the kinds to try."""

    kinds: tuple[Kind, ...]
    name: str
    own: bool = False


class RejectedResponse(Exception):
    """A response that is not a task, with the error to raise for it."""

    def __init__(self, answer: KlingResponse, raw: bytes, status: int, error: GateError) -> None:
        super().__init__(error.message)
        self.answer = answer
        self.raw = raw
        self.status = status
        self.error = error


async def _send_request(call: Call, outgoing: UpstreamRequest) -> tuple[bytes, KlingResponse]:
    """Send one request. Raises RejectedResponse, and UpstreamError for a response that is not the vendor's."""
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
    """Return the response to a creation, or the response about the task if it exists already. Raises UpstreamError."""
    error: GateError
    try:
        raw, _ = await _send_request(call, outgoing)
        return _make_response(raw, task.kind)
    except RejectedResponse as rejected:
        if rejected.answer.code in POLICY_CODES:
            return _make_response(rejected.raw, task.kind)
        if rejected.status < 500 and not rejected.answer.is_duplicate:
            raise rejected.error from None
        error = rejected.error
    except UpstreamError as uncertain:  # the upstream may have received the request
        error = uncertain
    try:
        existing = (
            await _find_task(call, outgoing, TaskQuery(kinds=(task.kind,), name=task.name, own=True))
            if task.name
            else None
        )
    except GateError:
        existing = None
    if existing is None:
        raise error
    return existing


async def query_task(call: Call, outgoing: UpstreamRequest, query: TaskQuery) -> UpstreamResponse:
    """Return the response about a task, NOT_FOUND_BODY when it does not exist. Raises UpstreamError."""
    return await _find_task(call, outgoing, query) or _make_response(NOT_FOUND_BODY, query.kinds[0])


async def _find_task(call: Call, outgoing: UpstreamRequest, query: TaskQuery) -> UpstreamResponse | None:
    """Return the response about a task; None when the upstream reports that it does not exist. Raises UpstreamError."""
    for kind in query.kinds:
        url = build_task_url(call.target.base_url, kind, query.name)
        try:
            raw, answer = await _send_request(call, replace(outgoing, method="GET", url=url, json=None))
        except RejectedResponse as rejected:
            if not rejected.answer.is_unknown_task or rejected.status not in _TASK_STATUSES:
                raise _make_query_error(call, rejected) from None
            continue
        if not query.own or _is_called(answer, query.name):
            return _make_response(raw, kind)
    return None


def _make_query_error(call: Call, rejected: RejectedResponse) -> GateError:
    """Return the error of a poll. A 404 without the vendor's envelope does not mean that the task does not exist."""
    if rejected.status == 404 and rejected.answer.code == -1:
        return UpstreamError(
            f"The provider '{call.target.provider}' returned 404 without a Kling error code.",
            advice="Check its base_url.",
        )
    return rejected.error


def _is_called(answer: KlingResponse, name: str) -> bool:
    """Return whether the response has a task whose external id is `name` or missing."""
    if not answer.data:
        return False
    about = answer.data.get("task_info")
    external_id = about.get("external_task_id") if isinstance(about, dict) else None
    return external_id in (None, "", name)


def _make_response(raw: bytes, kind: Kind) -> UpstreamResponse:
    """Return a response. Its `context` is the kind of the task, which the URL determines and the response does not
    contain.
    """
    return UpstreamResponse(chunks=BufferedBody(raw), headers={"content-type": "application/json"}, context=kind)


ANY_KIND: Final = KINDS
"""The kinds to try for a task that is known only by the gateway's id."""
