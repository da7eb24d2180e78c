"""Provider for videos at Kling AI: from text, and from an image.

A video is a task: created by one request, polled until it ends, then downloaded from the vendor's store. The core stores the
task and polls; this plugin translates each of its requests.

Source: https://app.klingai.com/global/dev/document-api and the pages that each module names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tornado_gate import Capabilities, ProviderEntry, provider_impl
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.http import upstream
from tornado_gate.http.base_url import is_same_origin, normalize_base_url
from tornado_gate.telemetry.redaction import mask_secret
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
from tornado_gate.types.vendors import Vendor
from tornado_gate_kling import account, exchange
from tornado_gate_kling.address import DEFAULT_BASE_URL, KINDS, TEXT_KIND, Kind, build_creation_url, build_task_url
from tornado_gate_kling.answers import (
    POLICY_CODES,
    get_kind,
    make_error,
    make_policy_failure,
    parse_operation,
    parse_response,
)
from tornado_gate_kling.body import build_body
from tornado_gate_kling.download import get_video_url
from tornado_gate_kling.exchange import ANY_KIND, ERROR_STATUSES, TaskCreation, TaskQuery
from tornado_gate_kling.metadata import choose_kind

_OPERATIONS = frozenset({"videos"})


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url = normalize_base_url(entry.base_url, "v1", default=DEFAULT_BASE_URL)
    return Capabilities(operations=_OPERATIONS, base_url=base_url, settings=account.read_account(entry))


@provider_impl
def list_vendors() -> list[Vendor]:
    return [Vendor(name="kling", title="Kling AI", base_url=DEFAULT_BASE_URL)]


@provider_impl
async def translate_request(call: Call, request: Request) -> UpstreamRequest:
    match request:
        case VideoRequest():
            task = TaskCreation(kind=choose_kind(request), name=request.task_id)
            body = await build_body(call, request)
            return _build_upstream_request(
                call, build_creation_url(call.target.base_url, task.kind), task, method="POST", json=body
            )
        case VideoPoll():
            task_asked = _make_task_query(call, request)
            return _build_upstream_request(
                call, build_task_url(call.target.base_url, task_asked.kinds[0], task_asked.name), task_asked
            )
        case VideoDownload():
            url = get_video_url(call, request.operation, request.index)
            headers = _build_headers(call) if is_same_origin(url, call.target.base_url) else {}
            return UpstreamRequest(method="GET", url=url, headers=headers, file_types=("video/",))
        case VideoCancel():
            raise UnsupportedOperation(
                f"The provider '{call.target.provider}' cannot cancel a video that it has started."
            )
    raise UnsupportedOperation(f"The model '{call.model}' supports only video generation.")


def _make_task_query(call: Call, request: VideoPoll) -> TaskQuery:
    """Return a query by the vendor's task id, or by the gateway's own id for a task whose creation was not confirmed."""
    if request.operation is None:
        return TaskQuery(kinds=ANY_KIND, name=request.task_id, own=True)
    kind, name = get_kind(request.operation), request.operation.get("task_id")
    if kind is None or not isinstance(name, str):
        raise UpstreamError(
            f"The stored task does not belong to the provider '{call.target.provider}': its operation has no Kling task id."
        )
    return TaskQuery(kinds=(kind,), name=name)


def _build_upstream_request(
    call: Call, url: str, context: Any, *, method: str = "GET", json: Any = None
) -> UpstreamRequest:
    return UpstreamRequest(
        method=method,
        url=url,
        headers=_build_headers(call),
        json=json,
        context=context,
        accepted_statuses=ERROR_STATUSES,
    )


def _build_headers(call: Call) -> dict[str, str]:
    """Return the request headers, in lower case, so that configured headers replace default ones in any spelling."""
    own = call.target.settings.make_headers()
    if own:
        mask_secret(call.target, own["authorization"].removeprefix("Bearer "))
    return {
        **own,
        **{name.lower(): str(value) for name, value in call.target.headers.items()},
    }


@provider_impl
async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    match outgoing.context:
        case TaskCreation():
            return await exchange.create_task(call, outgoing, outgoing.context)
        case TaskQuery():
            return await exchange.query_task(call, outgoing, outgoing.context)
    return await upstream.call_upstream(call, outgoing)


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    raw = await incoming.read()
    answer = parse_response(call.target.settings, raw, call.target.provider)
    if answer.code == 0:
        yield parse_operation(call, answer, _get_kind(request, incoming))
    elif answer.code in POLICY_CODES:
        yield make_policy_failure(call, answer)
    elif isinstance(request, VideoPoll) and answer.is_unknown_task:
        yield VideoOperation(status="lost")
    else:
        raise make_error(call, answer, raw, incoming.status, incoming.headers)


def _get_kind(request: Request, incoming: UpstreamResponse) -> Kind:
    """Return the kind in the response's context. For a task that was found by name, only the URL of the request has the
    kind.
    """
    if incoming.context in KINDS:
        return next(kind for kind in KINDS if kind == incoming.context)
    if isinstance(request, VideoRequest):
        return choose_kind(request)
    return (get_kind(request.operation) if isinstance(request, VideoPoll) and request.operation else None) or TEXT_KIND
