"""Facts by model name: operations, API path, and the sizes for aspect ratios. Pure.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api (qwen-image-2.0 and later: any size from 512*512 to
2048*2048 pixels in all, and editing too; qwen-image, -plus, -max: five sizes, no editing), /qwen-image-edit-api (512 to 2048 a
side; qwen-image-edit itself takes no size), /text-to-image-v2-api-reference (wan2.5, wan2.6: 1280*1280 to 1440*1440 pixels in
all; before: 512 to 1440 a side; four images by default), /wan-image-generation-api-reference (wan2.6-image requires input
images), /document_detail/3026980.html (wan2.7-image generates and edits, and accepts labels as sizes, 4K without input
images only), /z-image-api-reference (generates only).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from tornado_gate.types import Call, ImageRequest, Operation
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.value import replace
from tornado_gate_dashscope.address import IMAGES_TASK_PATH, MESSAGES_TASK_PATH, PROMPT_TASK_PATH
from tornado_gate_openai.wire.dashscope_images import WIRE_FORMAT

T = TypeVar("T")

BOTH_OPERATIONS: Final[frozenset[Operation]] = frozenset({"images", "image_edits"})
_CREATE_ONLY: Final[frozenset[Operation]] = frozenset({"images"})
_EDIT_ONLY: Final[frozenset[Operation]] = frozenset({"image_edits"})

OPERATIONS_OF_MODEL: Final[Mapping[str, frozenset[Operation]]] = {
    "qwen-image": _CREATE_ONLY,
    "qwen-image-plus*": _CREATE_ONLY,
    "qwen-image-max*": _CREATE_ONLY,
    "qwen-image-edit*": _EDIT_ONLY,
    "z-image*": _CREATE_ONLY,
    "wan*-t2i*": _CREATE_ONLY,
    "wanx-v1": _CREATE_ONLY,
    "wan*-i2i*": _EDIT_ONLY,
    "wanx*-imageedit*": _EDIT_ONLY,
    "wan2.6-image*": _EDIT_ONLY,
}
"""Models that only generate or only edit, by name pattern; the first match counts."""

TASK_MODELS: Final = ("wanx*", "wan2.1-*", "wan2.2-*", "wan2.5-*")
"""Models without a synchronous API."""

_PROMPT_MODELS: Final = (*TASK_MODELS, "qwen-image", "qwen-image-plus*")
"""Models whose tasks have a prompt. The tasks of other models have messages."""

_SQUARE: Final = "1:1"
_SMALL_SIZES: Final = {
    _SQUARE: "1024x1024",
    "16:9": "1280x720",
    "9:16": "720x1280",
    "4:3": "1152x864",
    "3:4": "864x1152",
}
_WAN_SIZES: Final = {
    _SQUARE: "1280x1280",
    "16:9": "1696x960",
    "9:16": "960x1696",
    "4:3": "1472x1104",
    "3:4": "1104x1472",
}
_QWEN_IMAGE_SIZES: Final = {
    _SQUARE: "1328x1328",
    "16:9": "1664x928",
    "9:16": "928x1664",
    "4:3": "1472x1104",
    "3:4": "1104x1472",
}
_LARGE_SIZES: Final = {
    _SQUARE: "2048x2048",
    "16:9": "2688x1536",
    "9:16": "1536x2688",
    "4:3": "2368x1728",
    "3:4": "1728x2368",
}

_MODELS_WITHOUT_SIZE: Final = ("qwen-image-edit",)
_SIZES_OF_MODEL: Final[Mapping[str, Mapping[str, str]]] = {
    "qwen-image": _QWEN_IMAGE_SIZES,
    "qwen-image-plus*": _QWEN_IMAGE_SIZES,
    "qwen-image-max*": _QWEN_IMAGE_SIZES,
    "qwen-image-edit-*": _SMALL_SIZES,
    "qwen-image-[23].*": _LARGE_SIZES,
    "z-image*": _SMALL_SIZES,
    "wan2.5-t2i*": _WAN_SIZES,
    "wan2.6-t2i*": _WAN_SIZES,
    "wan*-t2i*": _SMALL_SIZES,
}
_RESOLUTIONS_OF_MODEL: Final[Mapping[str, tuple[str, ...]]] = {
    "wan2.7-image-pro*": ("1K", "2K", "4K"),
    "wan2.7-image*": ("1K", "2K"),
}
_MAX_RESOLUTION: Final = "4K"
_MODELS_DEFAULTING_TO_FOUR: Final = ("wan*",)


def choose_task_path(model: str, *, pictures: bool) -> str:
    """Return the path to create a task of this model."""
    if not is_match(model, _PROMPT_MODELS):
        return MESSAGES_TASK_PATH
    return IMAGES_TASK_PATH if pictures else PROMPT_TASK_PATH


def fit_request(call: Call, request: ImageRequest) -> ImageRequest:
    """Return the request in the terms of the target's model. A request in the vendor's own format is returned
    unchanged.

    An aspect ratio or a label becomes a documented size of the model. The number of images is set to 1 where the
    vendor's default is four, because in other formats the default is one. A ratio or label without a size is left for
    the renderer to report.
    """
    if request.wire_format == WIRE_FORMAT:
        return request
    model = call.target.upstream_model
    if request.n is None and is_match(model, _MODELS_DEFAULTING_TO_FOUR):
        request = replace(request, n=1)
    if is_match(model, _MODELS_WITHOUT_SIZE) and request.size not in (None, "auto"):
        call.drop_field(request.field_name("size"))
        request = replace(request, size=None)
    if request.size is not None:
        return request
    size = _find_first_match(_SIZES_OF_MODEL, model, {}).get(request.aspect_ratio or "")
    if size is not None:
        return replace(request, size=size, aspect_ratio=None)
    label = (request.resolution or "").upper()
    if label in _find_first_match(_RESOLUTIONS_OF_MODEL, model, ()) and not (
        request.images and label == _MAX_RESOLUTION
    ):
        return replace(request, size=label, resolution=None)
    return request


def is_match(model: str, patterns: tuple[str, ...]) -> bool:
    """Return whether any of the patterns matches."""
    return any(fnmatchcase(canonicalize_name(model), pattern) for pattern in patterns)


def _find_first_match(table: Mapping[str, T], model: str, otherwise: T) -> T:
    return next(
        (value for pattern, value in table.items() if fnmatchcase(canonicalize_name(model), pattern)), otherwise
    )
