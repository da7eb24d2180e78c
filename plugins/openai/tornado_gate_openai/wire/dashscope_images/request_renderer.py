"""`ImageRequest` as bodies of the vendor's APIs. Pure; the provider has adapted the request to the model before.

Requests of this wire format get all members of `extra` back. Images must already be Link or Data.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (messages and parameters),
https://docs.qwencloud.com/api-reference/image-generation/qwen-text-to-image-async and /wan-text-to-image-v2/create-task (a
prompt, by task), https://www.alibabacloud.com/help/en/model-studio/wan2-5-image-edit-api-reference and /wanx-image-edit
(pictures, by task); the position of ``negative_prompt``: dashscope 2.0.2 (its Python SDK), aigc/image_synthesis.py.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.media_types import sniff
from tornado_gate.types import Call, Data, FileSource, ImageRequest, Link
from tornado_gate_openai.wire.dashscope_images.request import INPUT, MESSAGES, PARAMETERS, SHARED_FIELDS, WIRE_FORMAT

_PIXELS: Final = re.compile(r"([0-9]{1,9})x([0-9]{1,9})", re.IGNORECASE)
_NO_EFFECT_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "quality": ("auto",),
    "background": ("auto",),
    "moderation": ("auto",),
    "output_format": ("png",),
    "partial_images": (0,),
}
"""Values that equal the vendor's default behaviour: its images are PNG."""
_UNSUPPORTED_FIELDS: Final = (
    *_NO_EFFECT_VALUES,
    "style",
    "output_compression",
    "input_fidelity",
    "mask",
    "user",
    "aspect_ratio",
)
"""Common fields without a parameter in this format."""
_SNIFFED_LENGTH: Final = 64
"""Leading base64 characters that are read to detect the image type."""
_EDIT_FUNCTION: Final = "description_edit"
"""Default function of wanx2.1-imageedit."""


def render_request(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The body for the APIs with messages. Reports unsupported fields to `call.drop_field`."""
    extra = _select_own_extra(call, request)
    content: list[dict[str, Any]] = [{"image": render_image_source(source)} for source in request.images]
    if request.prompt:
        content.append({"text": request.prompt})
    messages = extra.pop(MESSAGES, None) or [{"role": "user", "content": content}]
    parameters = _render_parameters(call, request)
    return _render_body(call, {"messages": messages}, parameters, extra)


def render_task(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The body for the task APIs with a prompt. Reports unsupported fields to `call.drop_field`."""
    model = call.target.upstream_model
    extra = _select_own_extra(call, request)
    if extra.pop(MESSAGES, None) is not None:
        call.drop_field(MESSAGES)
    task_input: dict[str, Any] = {"prompt": request.prompt}
    parameters = _render_parameters(call, request)
    if "negative_prompt" in parameters and not model.startswith("qwen"):
        task_input["negative_prompt"] = parameters.pop("negative_prompt")
    if request.images and "imageedit" in model:
        task_input |= {"function": _EDIT_FUNCTION, "base_image_url": render_image_source(request.images[0])}
        for index in range(1, len(request.images)):
            call.drop_field(request.names.get(f"images.{index}") or request.field_name("images"))
    elif request.images:
        task_input["images"] = [render_image_source(source) for source in request.images]
    return _render_body(call, task_input, parameters, extra)


def render_image_source(source: FileSource) -> str:
    """An image in the vendor's form: a public URL, or ``data:image/png;base64,…``."""
    match source:
        case Link(url=url):
            return url
        case Data(media_type=declared, base64=text):
            plain = text.replace("-", "+").replace("_", "/")
            return f"data:{declared or _detect_media_type(plain)};base64,{plain}"
        case _:
            raise TypeError("form files must be read into memory before rendering; expected Link or Data")


def _detect_media_type(text: str) -> str:
    beginning = text[:_SNIFFED_LENGTH]
    return sniff(base64.b64decode(beginning + "=" * (-len(beginning) % 4))) or "image/png"


def _select_own_extra(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The `extra` members to send. For a request of another format, all of them are reported as dropped."""
    if request.wire_format == WIRE_FORMAT:
        return dict(request.extra)
    for name in request.extra:
        call.drop_field(name)
    return {}


def _render_body(
    call: Call, members: dict[str, Any], parameters: dict[str, Any], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The body with every member of `extra` put back at its path."""
    top: dict[str, Any] = {}
    for name, value in extra.items():
        if name.startswith(INPUT):
            members[name.removeprefix(INPUT)] = value
        elif name.startswith(PARAMETERS):
            parameters[name.removeprefix(PARAMETERS)] = value
        else:
            top[name] = value
    body = {**top, "model": call.target.upstream_model, "input": members}
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
