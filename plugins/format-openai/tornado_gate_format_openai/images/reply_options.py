"""What was asked for, with how the answer is to look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types import Call, ImageRequest
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.openai_images import ModelFamily, is_true
from tornado_gate_format_openai.dialect import is_sdk

InputStyle = Literal["prompt", "input"]
"""Of a body: the vendor's, or ``input`` and ``parameters``."""


class ImageState(Value, frozen=True, kw_only=True):
    """What the answer needs to know.

    `shape` is that of the body; `inline` is whether the answer holds the pictures' bytes or their addresses; `detailed` says
    that the answer tells what the pictures are like, as the vendor's does for the newer models.
    """

    shape: InputStyle
    inline: bool
    detailed: bool


def add_reply_options(
    call: Call, request: ImageRequest, body: Mapping[str, Any], family: ModelFamily, shape: InputStyle
) -> ImageRequest:
    """`request`, made of `body`, for a model of `family`, with what its answer needs to know."""
    state = ImageState(
        shape=shape,
        inline=wants_bytes(call, body, family, shape),
        detailed=shape == "prompt" and family.name not in ("one", "two"),
    )
    return replace(request, reply_state=state)


def wants_bytes(call: Call, body: Mapping[str, Any], family: ModelFamily, shape: InputStyle) -> bool:
    """Whether a caller wants the bytes inside the answer: as asked, else as the vendor or the contract has it.

    The vendor's models of family three know no addresses, which its SDKs rely on.
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
    return vendor and family.name == "three"
