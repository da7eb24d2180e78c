"""The response state of image requests: the form of the response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types import Call, ImageRequest
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.format.dialect import is_sdk, reads_only_base64
from tornado_gate_openai.wire.images import ModelFamily, is_true

InputStyle = Literal["prompt", "input"]
"""Shape of a body: the vendor's with ``prompt``, or ``input`` and ``parameters``."""


class ImageState(Value, frozen=True, kw_only=True):
    """Response state of an image request.

    `shape` is the shape of the request body. `inline` is whether the response contains base64 rather than URLs. `detailed` is
    whether the response describes the images (size, quality, format), as the vendor's does for newer models.
    """

    shape: InputStyle
    inline: bool
    detailed: bool


def add_reply_options(
    call: Call, request: ImageRequest, body: Mapping[str, Any], family: ModelFamily, shape: InputStyle
) -> ImageRequest:
    """Return `request`, which was parsed from `body`, with the response state for a model of `family`."""
    state = ImageState(
        shape=shape,
        inline=wants_bytes(call, body, family, shape),
        detailed=shape == "prompt" and family.name not in ("one", "two"),
    )
    return replace(request, reply_state=state)


def wants_bytes(call: Call, body: Mapping[str, Any], family: ModelFamily, shape: InputStyle) -> bool:
    """Return whether the response contains base64: as the body requests, else the default of the vendor or the contract.

    The vendor's models of family three return base64 only, and its SDKs rely on that. Some libraries read only base64, of every
    model.
    """
    if is_true(body.get("stream")):
        return True
    if body.get("response_format") is not None:
        return bool(body["response_format"] == "b64_json")
    if shape == "input":
        return False
    if body.get("output_format") is not None:
        return True
    vendor = call.dialect == "vendor" or (call.dialect == "auto" and is_sdk(call.headers))
    return vendor and (family.name == "three" or reads_only_base64(call.headers))
