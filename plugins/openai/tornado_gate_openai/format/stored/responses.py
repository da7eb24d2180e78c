"""The routes of stored responses: ``GET`` and ``DELETE /v1/responses/{id}``, ``POST …/cancel``, and ``GET`` of its input items.

The routes need no model. Responses that the gateway stored are in the caller's memory; the core forwards requests about others to
the upstream that keeps them.

Source: openai-python 3.52, resources/responses/responses.py and input_items.py; OpenAI's API reference, "Delete a model
response".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import orjson

from tornado_gate import passthrough
from tornado_gate.errors import GateError, InvalidField, RequestError
from tornado_gate.types import (
    Call,
    IssuedObjects,
    Meter,
    ObjectReference,
    Reply,
    Route,
    StoredObjectRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_openai.fields import response_answers
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.format.responses import drop_encrypted
from tornado_gate_openai.format.stored import store
from tornado_gate_openai.format.stored.listed_items import complete_item
from tornado_gate_openai.format.stored.paging import render_page
from tornado_gate_openai.format.stream_adapters import ResponsesAdapter
from tornado_gate_openai.wire import responses

_PATH: Final = "/v1/responses/{response_id}"
_ITEMS_ROUTE: Final = Route("GET", f"{_PATH}/input_items", "chat", model="none", texts=response_answers.ITEMS)
_CANCEL_ROUTE: Final = Route(
    "POST", f"{_PATH}/cancel", "chat", model="none", empty_body=True, texts=response_answers.RESPONSES
)
_READ_ROUTE: Final = Route("GET", _PATH, "chat", model="none", texts=response_answers.RESPONSES)
_DELETE_ROUTE: Final = Route("DELETE", _PATH, "chat", model="none", texts=response_answers.RESPONSES)
ROUTES: Final = (_ITEMS_ROUTE, _CANCEL_ROUTE, _READ_ROUTE, _DELETE_ROUTE)
_ACTIONS: Final = {_ITEMS_ROUTE.path: "input_items", _CANCEL_ROUTE.path: "cancel"}

_FORWARDED_PARAMETERS: Final = ("stream", "starting_after", "include_obfuscation", "after", "limit", "order")
_FORWARDED_LISTS: Final = ("include", "include[]")


async def answer(call: Call, wire: WireRequest) -> Reply | StoredObjectRequest:
    """Return the stored response if the gateway keeps it, otherwise the request to the upstream that keeps it."""
    response_id = wire.path_arguments["response_id"]
    record = await store.find_turn(call, response_id)
    if record is None or "kept_by" in record:
        return _make_upstream_request(wire, response_id)
    body = orjson.dumps(await _render_answer(call, wire, response_id, record))
    return Reply(content_type=JSON_TYPE, chunks=_iterate_once(body))


def _make_upstream_request(wire: WireRequest, response_id: str) -> StoredObjectRequest:
    reference = ObjectReference(
        kind="response",
        id=response_id,
        param="response_id",
        error=partial(store.response_not_found_error, response_id, "response_id"),
        memory_name=store.make_name(response_id),
    )
    return StoredObjectRequest(
        reference=reference,
        wire_format=responses.WIRE_FORMAT,
        method=wire.route.method,
        action=_ACTIONS.get(wire.route.path, ""),
        query=tuple(_list_parameters(wire)),
        stream=_is_streamed(wire),
        issued=IssuedObjects(),
    )


def _is_streamed(wire: WireRequest) -> bool:
    return wire.route == _READ_ROUTE and wire.query.get("stream") == "true"


def _list_parameters(wire: WireRequest) -> Iterator[tuple[str, str]]:
    """Yield the vendor's query parameters; others are not forwarded."""
    yield from ((name, wire.query[name]) for name in _FORWARDED_PARAMETERS if name in wire.query)
    for name in _FORWARDED_LISTS:
        if name in wire.query:
            yield from ((name, value) for value in wire.query_lists.get(name, (wire.query[name],)))


async def _render_answer(
    call: Call, wire: WireRequest, response_id: str, record: store.TurnRecord
) -> Mapping[str, Any]:
    if wire.route == _DELETE_ROUTE:
        await store.delete_turn(call, response_id)
        return {"id": response_id, "object": "response", "deleted": True}
    if wire.route == _CANCEL_ROUTE:
        raise RequestError(
            "Only a response that was created with 'background' set to true can be cancelled.",
            param="response_id",
            code="response_not_cancellable",
        )
    if _is_streamed(wire):
        message = "Only a response that its upstream produces in the background can be streamed again. Omit 'stream'."
        raise InvalidField("stream", message, code="unsupported_parameter")
    if wire.route == _ITEMS_ROUTE:
        return render_page(_add_item_ids(record), wire.query)
    body = record["response"]
    return {**body, "output": [drop_encrypted(item) for item in body["output"]]}


def forward_response(call: Call, request: StoredObjectRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged. Usage is counted if it was not known when the response was created."""
    return passthrough.forward_answer(
        call, _ADAPTER, cast("VerbatimRequest", request), incoming
    )  # it reads `stream` only


class _StoredAdapter(ResponsesAdapter):
    """The adapter of stored responses in every status, pages of items, and confirmations. It forwards them."""

    streams_bodies = False

    def meter(self, call: Call, request: Any) -> passthrough.StreamMeter:
        if request.unmetered:
            return responses.ResponsesStreamMeter(call.meter, request.issued, stored=True)
        return responses.ResponsesStreamMeter(Meter())

    def parse_error(self, body: Any) -> GateError | None:
        """Return None for a failed response: the caller requested its state."""
        return None if isinstance(body, Mapping) and "response" in body else super().parse_error(body)

    def read_body(self, call: Call, request: Any, raw: bytes, body: Any) -> bytes:
        is_response = isinstance(body, Mapping) and body.get("id") == request.reference.id and "output" in body
        if request.unmetered and is_response and not responses.is_unfinished(body):
            call.meter.record_usage(responses.parse_usage(body.get("usage")))
            responses.note_issued(request.issued, body, stored=True)
        return raw


_ADAPTER: Final = _StoredAdapter()


async def _iterate_once(chunk: bytes) -> AsyncIterator[bytes]:
    yield chunk


def _add_item_ids(record: store.TurnRecord) -> list[dict[str, Any]]:
    """Return the input items, complete as in the vendor's list; items without an id get one."""
    stem = str(record["response"]["id"]).removeprefix("resp_")
    items = (drop_encrypted(item) for item in record["input"])
    return [{"id": f"item_{stem}{number:04x}", **complete_item(item)} for number, item in enumerate(items)]
