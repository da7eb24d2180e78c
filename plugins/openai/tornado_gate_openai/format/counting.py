"""The route ``POST /v1/responses/input_tokens``: how many tokens the prompt of a response takes.

Source: openai-python 3.52, types/responses/input_token_count_params.py and input_token_count_response.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import passthrough
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UpstreamError
from tornado_gate.streams.events import render_single
from tornado_gate.types import (
    Call,
    CountTokensRequest,
    Reply,
    StreamEvent,
    TokenCount,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_openai.fields.responses import check_state_body
from tornado_gate_openai.format.passing import ResultAdapter
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.format.stored import history, storing
from tornado_gate_openai.format.stream_adapters import resolve_state
from tornado_gate_openai.format.verbatim import DEFAULT_STATE, make_verbatim
from tornado_gate_openai.wire import responses

_OBJECT: Final = "response.input_tokens"
_WITHOUT_TOKENS: Final = ("conversation", "previous_response_id", "truncation")
"""Members that are resolved here, or do not concern the prompt."""


async def parse(call: Call, wire: WireRequest) -> CountTokensRequest:
    """Parse the body into the common request, with everything that it refers to by id. Raises InvalidField and NotFound."""
    body = _read_body(call, wire)
    check_state_body(body)
    storing.check_previous_response(call, body)
    loaded = await history.load(call, body)
    earlier, items = (
        responses.restore_items(part, path) for part, path in ((loaded.earlier, loaded.path), (loaded.items, "input"))
    )
    whole = {name: value for name, value in body.items() if name not in _WITHOUT_TOKENS} | {"input": items}
    chat = responses.parse_request(whole, earlier)
    counted = {**whole, "input": [*earlier, *items]} if earlier else body
    return CountTokensRequest(model=body["model"], chat=chat, counted=counted)


def reply(call: Call, request: Any, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a request that `parse` returned."""
    return Reply(content_type=JSON_TYPE, chunks=render_single(events, TokenCount, _render_count))


def _render_count(count: TokenCount) -> bytes:
    return orjson.dumps({"object": _OBJECT, "input_tokens": count.input_tokens})


async def forward(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Check the body and return the request of the verbatim lane. Raises InvalidField."""
    body = _read_body(call, wire)
    check_for_upstream(check_state_body, body)
    storing.check_previous_response(call, body)
    resolved = await resolve_state(call, wire, body, {})
    return make_verbatim(wire, resolved.raw, resolved.body, DEFAULT_STATE)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's count unchanged."""
    return passthrough.forward_answer(call, _ADAPTER, request, incoming)


def _check_count(body: Any) -> None:
    if not isinstance(body, Mapping) or not isinstance(body.get("input_tokens"), int):
        raise UpstreamError(
            "The upstream sent a token count without 'input_tokens'.", advice="Check the provider's base_url."
        )


_ADAPTER: Final = ResultAdapter(_check_count, lambda usage: None)


def _read_body(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    body = wire.json
    return {**body, "model": call.model} if call.model and body.get("model") is None else body
