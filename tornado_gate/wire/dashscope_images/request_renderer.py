"""`ImageRequest` to bodies of the vendor's APIs. Pure: what models differ in is settled before, by the provider.

Requests of this wire format get back everything that the vocabulary has no word for. Pictures must be Link or Data by now.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (messages and parameters),
https://docs.qwencloud.com/api-reference/image-generation/qwen-text-to-image-async and /wan-text-to-image-v2/create-task (a
prompt, by task), https://www.alibabacloud.com/help/en/model-studio/wan2-5-image-edit-api-reference and /wanx-image-edit
(pictures, by task); where ``negative_prompt`` stands: dashscope 2.0.2 (its Python SDK), aigc/image_synthesis.py.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.media_types import sniff
from tornado_gate.types import Call, Data, FileSource, ImageRequest, Link
from tornado_gate.wire.dashscope_images.request import INPUT, MESSAGES, PARAMETERS, SHARED_FIELDS, WIRE_FORMAT

_PIXELS: Final = re.compile(r"([0-9]+)x([0-9]+)", re.IGNORECASE)
_NO_EFFECT_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "quality": ("auto",),
    "background": ("auto",),
    "moderation": ("auto",),
    "output_format": ("png",),
    "partial_images": (0,),
}
"""Values at which a field asks for what comes anyway: the vendor's pictures are PNG."""
_UNSUPPORTED_FIELDS: Final = (
    *_NO_EFFECT_VALUES,
    "style",
    "output_compression",
    "input_fidelity",
    "mask",
    "user",
    "aspect_ratio",
)
"""Fields of the vocabulary that the vendor has no parameter for."""
_SNIFFED_LENGTH: Final = 64
"""Characters of base64 that are looked at to tell a picture's kind."""
_EDIT_FUNCTION: Final = "description_edit"
"""What wanx2.1-imageedit does when asked for nothing special."""


def render_request(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The body for the APIs that take messages. What cannot be said is reported to `call.lose`."""
    extra = _select_own_extra(call, request)
    content: list[dict[str, Any]] = [{"image": render_image_source(source)} for source in request.images]
    if request.prompt:
        content.append({"text": request.prompt})
    messages = extra.pop(MESSAGES, None) or [{"role": "user", "content": content}]
    parameters = _render_parameters(call, request)
    return _render_body(call, {"messages": messages}, parameters, extra)


def render_task(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The body for the APIs that take a prompt and work by task. What cannot be said is reported to `call.lose`."""
    model = call.target.upstream_model
    extra = _select_own_extra(call, request)
    if extra.pop(MESSAGES, None) is not None:
        call.drop_field(MESSAGES)
    asked: dict[str, Any] = {"prompt": request.prompt}
    parameters = _render_parameters(call, request)
    if "negative_prompt" in parameters and not model.startswith("qwen"):
        asked["negative_prompt"] = parameters.pop("negative_prompt")
    if request.images and "imageedit" in model:
        asked |= {"function": _EDIT_FUNCTION, "base_image_url": render_image_source(request.images[0])}
        for index in range(1, len(request.images)):
            call.drop_field(request.names.get(f"images.{index}") or request.field_name("images"))
    elif request.images:
        asked["images"] = [render_image_source(source) for source in request.images]
    return _render_body(call, asked, parameters, extra)


def render_image_source(source: FileSource) -> str:
    """A picture as the vendor takes it: a public address, or ``data:image/png;base64,…``."""
    match source:
        case Link(url=url):
            return url
        case Data(media_type=declared, base64=text):
            plain = text.replace("-", "+").replace("_", "/")
            return f"data:{declared or _detect_media_type(plain)};base64,{plain}"
        case _:
            raise TypeError("a file of a form must be read before it is rendered")


def _detect_media_type(text: str) -> str:
    beginning = text[:_SNIFFED_LENGTH]
    return sniff(base64.b64decode(beginning + "=" * (-len(beginning) % 4))) or "image/png"


def _select_own_extra(call: Call, request: ImageRequest) -> dict[str, Any]:
    """What of `extra` goes back; all of it is lost when it is another format's."""
    if request.wire_format == WIRE_FORMAT:
        return dict(request.extra)
    for name in request.extra:
        call.drop_field(name)
    return {}


def _render_body(
    call: Call, asked: dict[str, Any], parameters: dict[str, Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The body, with every member of `extra` in its place again."""
    top: dict[str, Any] = {}
    for name, value in extra.items():
        if name.startswith(INPUT):
            asked[name.removeprefix(INPUT)] = value
        elif name.startswith(PARAMETERS):
            parameters[name.removeprefix(PARAMETERS)] = value
        else:
            top[name] = value
    body = {**top, "model": call.target.upstream_model, "input": asked}
    return body | {"parameters": parameters} if parameters else body


def _render_parameters(call: Call, request: ImageRequest) -> dict[str, Any]:
    parameters = {name: getattr(request, name) for name in SHARED_FIELDS if getattr(request, name) is not None}
    size = request.size if request.size != "auto" else None
    if size is None and request.wire_format == WIRE_FORMAT:
        size = request.resolution
    elif request.resolution is not None:
        call.drop_field(request.field_name("resolution"))
    if size is not None:
        parameters["size"] = _PIXELS.sub(r"\1*\2", size)
    for field in _UNSUPPORTED_FIELDS:
        value = getattr(request, field)
        if value is not None and value not in _NO_EFFECT_VALUES.get(field, ()):
            call.drop_field(request.field_name(field))
    return parameters
