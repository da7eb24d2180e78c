"""Videos at Kling AI: of a text, and of a picture.

A video is a task there: begun with one request, asked about until it ends, then fetched from the vendor's store. The core keeps
the task and asks; here is what each of its questions becomes.

Source: https://app.klingai.com/global/dev/document-api and the pages that each module names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tornado_gate import Capabilities, ProviderEntry, provider_impl
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.http import upstream
from tornado_gate.http.base_url import is_same_origin, normalize_base_url
from tornado_gate.types import (
    Call,
    Request,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_kling import account, exchange
from tornado_gate_kling.address import DEFAULT, KINDS, TEXT, Kind, begin_url, task_url
from tornado_gate_kling.answers import POLICY, answer_in, error_of, kind_in, operation_in, stopped
from tornado_gate_kling.body import body_of
from tornado_gate_kling.download import video_url
from tornado_gate_kling.exchange import ANY_KIND, ERRORS, Ask, Begin
from tornado_gate_kling.metadata import kind_of

_OPERATIONS = frozenset({"videos"})


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url = normalize_base_url(entry.base_url, "v1", default=DEFAULT)
    return Capabilities(operations=_OPERATIONS, base_url=base_url, settings=account.read(entry))


@provider_impl
async def translate_request(call: Call, request: Request) -> UpstreamRequest:
    match request:
        case VideoRequest():
            task = Begin(kind=kind_of(request), name=request.task_id)
            body = await body_of(call, request)
            return _outgoing(call, begin_url(call.target.base_url, task.kind), task, method="POST", json=body)
        case VideoPoll():
            task_asked = _asked(call, request)
            return _outgoing(call, task_url(call.target.base_url, task_asked.kinds[0], task_asked.name), task_asked)
        case VideoDownload():
            url = video_url(call, request.operation, request.index)
            headers = _headers(call) if is_same_origin(url, call.target.base_url) else {}
            return UpstreamRequest(method="GET", url=url, headers=headers, file_types=("video/",))
        case VideoCancel():
            raise UnsupportedOperation(f"The provider '{call.target.provider}' cannot stop a video that it has begun.")
    raise UnsupportedOperation(f"The model '{call.model}' makes videos, and nothing else.")


def _asked(call: Call, request: VideoPoll) -> Ask:
    """The vendor's id of a task, or the gateway's name for one whose beginning is uncertain."""
    if request.operation is None:
        return Ask(kinds=ANY_KIND, name=request.task_id, own=True)
    kind, name = kind_in(request.operation), request.operation.get("task_id")
    if kind is None or not isinstance(name, str):
        raise UpstreamError(f"What is kept of this task is none of the provider '{call.target.provider}'.")
    return Ask(kinds=(kind,), name=name)


def _outgoing(call: Call, url: str, context: Any, *, method: str = "GET", json: Any = None) -> UpstreamRequest:
    return UpstreamRequest(
        method=method, url=url, headers=_headers(call), json=json, context=context, accepted_statuses=ERRORS
    )


def _headers(call: Call) -> dict[str, str]:
    """Names in lower case, so that the entry's own headers replace ours however conf spells them."""
    return {**call.target.settings.headers(), **{name.lower(): str(each) for name, each in call.target.headers.items()}}


@provider_impl
async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    match outgoing.context:
        case Begin():
            return await exchange.begin(call, outgoing, outgoing.context)
        case Ask():
            return await exchange.ask(call, outgoing, outgoing.context)
    return await upstream.call_upstream(call, outgoing)


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    raw = await incoming.read()
    answer = answer_in(call.target.settings, raw, call.target.provider)
    if answer.code == 0:
        yield operation_in(call, answer, _kind(request, incoming))
    elif answer.code in POLICY:
        yield stopped(call, answer)
    elif isinstance(request, VideoPoll) and answer.unknown:
        yield VideoOperation(status="lost")
    else:
        raise error_of(call, answer, raw, incoming.status, incoming.headers)


def _kind(request: Request, incoming: UpstreamResponse) -> Kind:
    """As the address said, which is the only one to know it of a task that was asked for by name."""
    if incoming.context in KINDS:
        return next(kind for kind in KINDS if kind == incoming.context)
    if isinstance(request, VideoRequest):
        return kind_of(request)
    return (kind_in(request.operation) if isinstance(request, VideoPoll) and request.operation else None) or TEXT
