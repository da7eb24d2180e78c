"""What is known of a model by its name: what it does, which API it has, which sizes stand for a ratio. Pure.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (qwen-image-2.0 and later: any size from 512*512 to
2048*2048 pixels in all, and editing too; qwen-image, -plus, -max: five sizes, no editing), /qwen-image-edit-api (512 to 2048 a
side; qwen-image-edit itself takes no size), /text-to-image-v2-api-reference (wan2.5, wan2.6: 1280*1280 to 1440*1440 pixels in
all; before: 512 to 1440 a side; four pictures unless `n` says otherwise), /wan-image-generation-api-reference (wan2.6-image needs
pictures), /document_detail/3026980.html (wan2.7-image does both and takes labels as sizes, 4K without
pictures only), /z-image-api-reference (generates only).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from tornado_gate.types import Call, ImageRequest, Operation
from tornado_gate.types.value import replace
from tornado_gate.wire.dashscope_images import WIRE_FORMAT
from tornado_gate_dashscope.address import TASK_OF_MESSAGES, TASK_OF_PICTURES, TASK_OF_PROMPT

T = TypeVar("T")

BOTH: Final[frozenset[Operation]] = frozenset({"images", "image_edits"})
_MAKES: Final[frozenset[Operation]] = frozenset({"images"})
_EDITS: Final[frozenset[Operation]] = frozenset({"image_edits"})

OPERATIONS: Final[Mapping[str, frozenset[Operation]]] = {
    "qwen-image": _MAKES,
    "qwen-image-plus*": _MAKES,
    "qwen-image-max*": _MAKES,
    "qwen-image-edit*": _EDITS,
    "z-image*": _MAKES,
    "wan*-t2i*": _MAKES,
    "wanx-v1": _MAKES,
    "wan*-i2i*": _EDITS,
    "wanx*-imageedit*": _EDITS,
    "wan2.6-image*": _EDITS,
}
"""Models that do not do both, by patterns of which the first that fits counts."""

BY_TASK: Final = ("wanx*", "wan2.1-*", "wan2.2-*", "wan2.5-*")
"""Models that have no API which answers at once."""

_OF_PROMPTS: Final = (*BY_TASK, "qwen-image", "qwen-image-plus*")
"""Models whose tasks take a prompt; those of all others take messages."""

_SQUARE: Final = "1:1"
_SMALL: Final = {_SQUARE: "1024x1024", "16:9": "1280x720", "9:16": "720x1280", "4:3": "1152x864", "3:4": "864x1152"}
_WAN: Final = {_SQUARE: "1280x1280", "16:9": "1696x960", "9:16": "960x1696", "4:3": "1472x1104", "3:4": "1104x1472"}
_FIVE: Final = {_SQUARE: "1328x1328", "16:9": "1664x928", "9:16": "928x1664", "4:3": "1472x1104", "3:4": "1104x1472"}
_LARGE: Final = {_SQUARE: "2048x2048", "16:9": "2688x1536", "9:16": "1536x2688", "4:3": "2368x1728", "3:4": "1728x2368"}

_NO_SIZE: Final = ("qwen-image-edit",)
_RATIOS: Final[Mapping[str, Mapping[str, str]]] = {
    "qwen-image": _FIVE,
    "qwen-image-plus*": _FIVE,
    "qwen-image-max*": _FIVE,
    "qwen-image-edit-*": _SMALL,
    "qwen-image-[23].*": _LARGE,
    "z-image*": _SMALL,
    "wan2.5-t2i*": _WAN,
    "wan2.6-t2i*": _WAN,
    "wan*-t2i*": _SMALL,
}
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "wan2.7-image-pro*": ("1K", "2K", "4K"),
    "wan2.7-image*": ("1K", "2K"),
}
_LARGEST: Final = "4K"
_FOUR_UNLESS_SAID: Final = ("wan*",)


def path_of_task(model: str, *, pictures: bool) -> str:
    """Where a task of this model is made."""
    if not matches(model, _OF_PROMPTS):
        return TASK_OF_MESSAGES
    return TASK_OF_PICTURES if pictures else TASK_OF_PROMPT


def fitted(call: Call, request: ImageRequest) -> ImageRequest:
    """A request of another format in the terms of the target's model; one of the vendor's own stays as it is.

    A ratio or a label becomes a size that the vendor names for the model, and the number of pictures is said where the vendor
    would make four, because everywhere else one is what comes when nothing is said. What has no size is left for the renderer to
    report.
    """
    if request.wire_format == WIRE_FORMAT:
        return request
    model = call.target.upstream_model
    if request.n is None and matches(model, _FOUR_UNLESS_SAID):
        request = replace(request, n=1)
    if matches(model, _NO_SIZE) and request.size not in (None, "auto"):
        call.lose(request.field_name("size"))
        request = replace(request, size=None)
    if request.size is not None:
        return request
    size = _first(_RATIOS, model, {}).get(request.aspect_ratio or "")
    if size is not None:
        return replace(request, size=size, aspect_ratio=None)
    label = (request.resolution or "").upper()
    if label in _first(_LABELS, model, ()) and not (request.images and label == _LARGEST):
        return replace(request, size=label, resolution=None)
    return request


def matches(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits."""
    return any(fnmatchcase(model, pattern) for pattern in patterns)


def _first(table: Mapping[str, T], model: str, otherwise: T) -> T:
    return next((value for pattern, value in table.items() if fnmatchcase(model, pattern)), otherwise)
