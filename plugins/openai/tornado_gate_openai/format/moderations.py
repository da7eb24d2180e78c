"""The moderation route: the requests and the responses of both lanes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from tornado_gate import passthrough
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch import pictures
from tornado_gate.streams.events import render_single
from tornado_gate.types import (
    Call,
    Data,
    Image,
    ModerationRequest,
    ModerationResult,
    Part,
    Reply,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_openai.fields.moderations import PART_TYPES, check_moderation
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.passing import ResultAdapter, make_media_verbatim
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.wire.chat import parse_usage
from tornado_gate_openai.wire.moderations import ID_PREFIX, check_response, parse_request, render_response

ROUTES: Final = paths.MODERATION_ROUTES

Checked = TypeVar("Checked")

_ADAPTER: Final = ResultAdapter(check=check_response, parse_usage=parse_usage)


def parse(call: Call, wire: WireRequest) -> ModerationRequest | Awaitable[ModerationRequest]:
    """Parse the body into the common request. Raises InvalidField, also for image data that is not an image."""
    body = _add_default_model(call, wire)
    check_moderation(body)
    request = parse_request(body, model=body["model"])
    return _check_images(request, request) if isinstance(body["input"], list) else request


def _add_default_model(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    return wire.json if wire.json.get("model") is not None else {**wire.json, "model": call.model}


async def _check_images(request: ModerationRequest, checked: Checked) -> Checked:
    """Return `checked`. Raises InvalidField for image data in `request` that is not an image."""
    for parts in request.inputs:
        for index, part in enumerate(parts):
            if isinstance(part, Image) and isinstance(part.source, Data):
                await pictures.check(part.source, f"input.{index}.image_url.url")
    return checked


def reply(call: Call, request: ModerationRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response. Its `model` is the name that the caller sent."""
    chunks = render_single(events, ModerationResult, partial(_render_answer, call, request))
    return Reply(content_type=JSON_TYPE, chunks=chunks)


def _render_answer(call: Call, request: ModerationRequest, result: ModerationResult) -> bytes:
    if len(result.verdicts) != len(request.inputs):
        message = f"The upstream sent {len(result.verdicts)} verdicts for {len(request.inputs)} inputs. Try again."
        raise UpstreamError(message)
    kinds = [sorted({_get_part_type(part) for part in parts}) for parts in request.inputs]
    identity = f"{ID_PREFIX}{make_unique_id()}"
    return orjson.dumps(render_response(result, id=identity, model=call.model or request.model, kinds=kinds))


def _get_part_type(part: Part) -> str:
    return "image" if isinstance(part, Image) else "text"


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | Awaitable[VerbatimRequest]:
    """Check the body and return the request unchanged. Raises InvalidField."""
    body = _add_default_model(call, wire)
    check_for_upstream(check_moderation, body)
    verbatim = make_media_verbatim(wire, raw=wire.raw, body=wire.json)
    if _has_known_parts(body["input"]):
        return _check_images(parse_request(body, model=body["model"]), verbatim)
    return verbatim


def _has_known_parts(value: str | list[Any]) -> bool:
    """Return whether an input is an array without parts of unknown types."""
    return isinstance(value, list) and all(type(piece) is not dict or piece["type"] in PART_TYPES for piece in value)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged and record its usage."""
    return passthrough.forward_answer(call, _ADAPTER, request, incoming)
