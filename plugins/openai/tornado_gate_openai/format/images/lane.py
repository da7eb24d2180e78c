"""The verbatim lane of images, for responses that contain the images as base64.

A caller who requests URLs gets URLs of the gateway, so such requests take the common lane. Only variations have no common lane:
the upstream is called with ``response_format: b64_json``, and the images are stored here when the caller requested URLs.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import REMOVE, passthrough, patch_json
from tornado_gate.codec.large_json import load_json
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError
from tornado_gate.streams import sse
from tornado_gate.streams.events import iterate_events
from tornado_gate.types import Call, ImageRequest, Meter, Reply, UpstreamResponse, VerbatimRequest, WireRequest
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.fields.image_inputs import is_input_style
from tornado_gate_openai.fields.images import check_generation
from tornado_gate_openai.format import verbatim
from tornado_gate_openai.format.images.edits import (
    CheckedEdit,
    check_variation_form,
    check_vendor_edit,
    variations_unsupported_error,
)
from tornado_gate_openai.format.images.replies import make_image_saver
from tornado_gate_openai.format.images.reply_options import wants_bytes
from tornado_gate_openai.format.images.rules import check_contract_words, check_rules
from tornado_gate_openai.format.paths import VARIATIONS_PATH
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.wire import images

MAX_PARSED_BYTES: Final = 64 * 1024
"""JSON bodies up to this size are checked completely; of longer ones everything except the base64 of the images."""

MAX_DROPPED_IMAGES: Final = 100
"""The images whose base64 is omitted in the event loop; a vendor returns at most ten."""

_BASE64_NAME: Final = b'"b64_json"'
_BASE64_VALUE: Final = re.compile(rb'[ \t\r\n]*+:[ \t\r\n]*+"')


class ImageForwardState(Value, frozen=True):
    """State of a variation whose response has URLs, although the upstream's response contains the images."""


async def forward(call: Call, wire: WireRequest) -> VerbatimRequest | None:
    """Return the request of the verbatim lane, or None when the common lane must build the response. Raises InvalidField."""
    if wire.route.path == VARIATIONS_PATH:
        return await _forward_variation(call, wire)
    family = images.find_family(call)
    edits = wire.route.operation == "image_edits"
    if is_input_style(wire.json, edits=edits, form=wire.form):
        return None
    if edits:
        checked = await check_vendor_edit(call, wire, for_upstream=True)
    else:
        checked = CheckedEdit(body={**wire.json, "model": call.model})
        check_for_upstream(check_generation, checked.body)
    check_contract_words(call, checked.body)
    check_for_upstream(check_rules, family, checked.body)
    answers_bytes = (images.find_family_by_model(call.target.upstream_model) or family).name == "three"
    if not _can_forward(call, checked, family, answers_bytes, edits_json=edits and not wire.form):
        return None
    return _make_verbatim(wire, checked, answers_bytes)


def _can_forward(
    call: Call, checked: CheckedEdit, family: images.ModelFamily, answers_bytes: bool, *, edits_json: bool
) -> bool:
    """Return whether the upstream's response has the form that the caller requested.

    Edits in JSON take the common lane, which sends the form that every upstream accepts, except edits with a `file_id` of the
    upstream.
    """
    if edits_json and not checked.has_file_ids():
        return False
    if not wants_bytes(call, checked.body, family, "prompt"):
        return False
    streams = images.is_true(checked.body.get("stream"))
    return answers_bytes or (checked.body.get("response_format") == "b64_json" and not streams)


def _make_verbatim(wire: WireRequest, checked: CheckedEdit, answers_bytes: bool) -> VerbatimRequest:
    changes: dict[str, Any] = {}
    if answers_bytes and "response_format" in wire.json:
        changes["response_format"] = REMOVE
    if wire.form:
        fields = {name: value for name, value in wire.json.items() if name not in changes}
        request = verbatim.make_verbatim(wire, b"", fields, verbatim.OpenAIForwardState())
        streams = images.is_true(fields.get("stream"))
        return replace(request, files=checked.files, form=True, stream=streams)
    if isinstance(wire.json.get("stream"), str):
        changes["stream"] = images.is_true(wire.json["stream"])
    body = {name: value for name, value in {**wire.json, **changes}.items() if value is not REMOVE}
    raw = patch_json(wire.raw, changes, wire.json) if changes else wire.raw
    return verbatim.make_verbatim(wire, raw, body, verbatim.OpenAIForwardState())


async def _forward_variation(call: Call, wire: WireRequest) -> VerbatimRequest:
    family = images.find_family(call)
    if family.name in ("two", "three"):
        raise variations_unsupported_error(call)
    checked = await check_variation_form(call, wire)
    check_rules(family, {**checked.body, "prompt": ""})
    fields = {**wire.json, "response_format": "b64_json"}
    inline = wants_bytes(call, checked.body, family, "prompt")
    request = verbatim.make_verbatim(wire, b"", fields, verbatim.OpenAIForwardState())
    return replace(request, files=checked.files, form=True, state=request.state if inline else ImageForwardState())


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged; images of a variation are stored when the caller requested URLs."""
    if isinstance(request.state, ImageForwardState):
        return Reply(content_type=JSON_TYPE, chunks=_store_images(call, incoming))
    return passthrough.forward_answer(call, _ADAPTER, request, incoming)


async def _store_images(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    result = await images.parse_response(await incoming.read_json())
    call.meter.record_usage(result.usage)
    yield await images.render_response(
        result, created=int(time.time()), save_image=make_image_saver(call), usage=result.usage, details=False
    )


def _is_quiet(frames: bytes) -> bool:
    return frames.find(b'.completed"') < 0 and frames.find(b'"error"') < 0


class _ImageMeter:
    """The meter of an image stream. A stream may have one completed event per image, so only an error ends it early."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.finished = False
        self.done = False

    def note(self, raw: bytes) -> bool:
        """Record one frame. Frames of partial images are searched, not parsed."""
        if _is_quiet(raw):
            return False
        body = sse.parse_json(raw)
        if images.find_frame_error(body) is not None:
            self.done = True
        elif isinstance(body, Mapping):
            self.finished = True
            self._meter.add_images(1)
            _note_usage(self._meter, body)
        return False


def _note_usage(meter: Meter, body: Mapping[str, Any]) -> None:
    meter.record_usage(images.sum_usages([*([meter.usage] if meter.usage else []), *_list_usages(body)]))
    meter.record_finish("stop")


def _list_usages(body: Mapping[str, Any]) -> list[Any]:
    usage = images.parse_usage(body.get("usage"))
    return [] if usage is None else [usage]


def drop_images(raw: bytes, most: int | None = None) -> bytes:
    """Return a JSON body without its base64 values; `raw` unchanged when a value contains a backslash or has no end.

    `most` is the maximum number of values that are removed. Base64 has no quotation mark, so a value ends at the next one. The
    result is valid JSON if `raw` is; the removed bytes are not checked.
    """
    pieces: list[bytes] = []
    kept_until = 0
    name = raw.find(_BASE64_NAME)
    while name >= 0 and len(pieces) != most:
        after = name + len(_BASE64_NAME)
        if (value := _BASE64_VALUE.match(raw, after)) is not None:
            after = raw.find(b'"', value.end())
            if after < 0 or raw.find(b"\\", value.end(), after) >= 0:
                return raw
            pieces.append(raw[kept_until : value.end()])
            kept_until = after
        name = raw.find(_BASE64_NAME, after)
    return b"".join([*pieces, raw[kept_until:]])


class ImagesAdapter(verbatim.OpenAIAdapter):
    """Passthrough adapter of images, whose streams have no end event."""

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return _ImageMeter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return _is_quiet(frames)

    def parse_error(self, body: Any) -> GateError | None:
        return images.find_frame_error(body)

    def shorten_body(self, raw: bytes) -> bytes:
        return drop_images(raw, MAX_DROPPED_IMAGES) if len(raw) > MAX_PARSED_BYTES else raw

    def parse_body(self, raw: bytes) -> Any:
        return load_json(drop_images(raw)) if len(raw) > MAX_PARSED_BYTES else orjson.loads(raw)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        if (error := images.find_frame_error(body)) is not None:
            raise error
        if not isinstance(body, Mapping) or not is_array_of_objects(body.get("data")):
            raise wrong_format_error()
        _note_usage(call.meter, body)
        call.meter.add_images(len(body["data"]))
        return raw

    async def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        result = await images.parse_response(body)
        image_request = ImageRequest(model=call.model, prompt="", size=request.body.get("size"))
        what: images.StreamKind = "image_edit" if request.operation == "image_edits" else "image_generation"
        frames = images.render_stream(
            iterate_events(iter([result])), what=what, asked=image_request, created=int(time.time())
        )
        async for frame in frames:
            yield frame


_ADAPTER: Final = ImagesAdapter()
