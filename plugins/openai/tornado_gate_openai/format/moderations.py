"""The moderation route: checks of its body, and the responses of both lanes.

Source: openai-python 3.52, types/moderation_create_params.py and moderation_multi_modal_input_param.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final, TypeVar

import orjson
from marshmallow import validate

from tornado_gate import passthrough
from tornado_gate.codec.checks import (
    choice_member,
    need_object,
    object_member,
    raise_invalid,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import BodySchema, FunctionField, String, check, describe_type
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch import pictures
from tornado_gate.streams.events import close, read_single_event
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
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.passing import ResultAdapter, make_media_verbatim
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.wire.chat import parse_usage
from tornado_gate_openai.wire.moderations import ID_PREFIX, check_response, parse_request, render_response

ROUTES: Final = paths.MODERATION_ROUTES

Checked = TypeVar("Checked")

MAX_INPUTS: Final = 2048
"""The limit for embeddings. The vendor documents none for moderation."""

_PART_TYPES: Final = ("text", "image_url")

_ADAPTER: Final = ResultAdapter(check=check_response, parse_usage=parse_usage)


def _check_input(value: Any) -> None:
    """Raise InvalidField unless `value` is a text, an array of texts, or an array of the text and image parts of one input."""
    if isinstance(value, str):
        if not value:
            raise_invalid("input", "must not be empty")
        return
    if not isinstance(value, list):
        raise_invalid("input", f"must be a string or an array, not {describe_type(value)}")
    if not value:
        raise_invalid("input", "must not be empty")
    if len(value) > MAX_INPUTS:
        refuse_value("input", f"has {len(value)} items; at most {MAX_INPUTS} are allowed")
    kind = type(value[0])
    if kind not in (str, dict):
        raise_invalid("input.0", f"must be a string or an object, not {describe_type(value[0])}")
    for index, piece in enumerate(value):
        if type(piece) is not kind:
            raise_invalid(
                f"input.{index}", f"must be {describe_type(value[0])} like the first item, not {describe_type(piece)}"
            )
        if kind is dict:
            _check_part(piece, f"input.{index}")
        elif not piece:
            raise_invalid(f"input.{index}", "must not be empty")


def _check_part(part: Any, path: str) -> None:
    need_object(part, path)
    kind = choice_member(part, "type", path, _PART_TYPES)
    if kind == "text":
        string_member(part, "text", path)
    elif kind == "image_url":
        string_member(object_member(part, "image_url", path), "url", f"{path}.image_url")


class ModerationBodySchema(BodySchema):
    """The body of ``POST /v1/moderations``."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    input = FunctionField(_check_input, required=True)


_MODERATION_SCHEMA: Final = ModerationBodySchema()


def parse(call: Call, wire: WireRequest) -> ModerationRequest | Awaitable[ModerationRequest]:
    """Parse the body into the common request. Raises InvalidField, also for image data that is not an image."""
    body = _add_default_model(call, wire)
    check(_MODERATION_SCHEMA, body)
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
    return Reply(content_type=JSON_TYPE, chunks=_render_answer(call, request, events))


async def _render_answer(
    call: Call, request: ModerationRequest, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, ModerationResult)
    finally:
        await close(events)
    if len(result.verdicts) != len(request.inputs):
        message = f"The upstream sent {len(result.verdicts)} verdicts for {len(request.inputs)} inputs. Try again."
        raise UpstreamError(message)
    kinds = [sorted({_get_part_type(part) for part in parts}) for parts in request.inputs]
    identity = f"{ID_PREFIX}{make_unique_id()}"
    yield orjson.dumps(render_response(result, id=identity, model=call.model or request.model, kinds=kinds))


def _get_part_type(part: Part) -> str:
    return "image" if isinstance(part, Image) else "text"


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | Awaitable[VerbatimRequest]:
    """Check the body and return the request unchanged. Raises InvalidField."""
    body = _add_default_model(call, wire)
    check_for_upstream(check, _MODERATION_SCHEMA, body)
    verbatim = make_media_verbatim(wire, raw=wire.raw, body=wire.json)
    if _has_known_parts(body["input"]):
        return _check_images(parse_request(body, model=body["model"]), verbatim)
    return verbatim


def _has_known_parts(value: str | list[Any]) -> bool:
    """Return whether an input is an array without parts of unknown types."""
    return isinstance(value, list) and all(type(piece) is not dict or piece["type"] in _PART_TYPES for piece in value)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged and record its usage."""
    return passthrough.forward_answer(call, _ADAPTER, request, incoming)
