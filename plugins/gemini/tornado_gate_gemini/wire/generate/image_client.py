"""Image requests for models with generateContent: the client half. Pure.

The vendor accepts no width and height: a size becomes the nearest supported aspect ratio and the resolution with the nearest
number of pixels. A size of another ratio is reported as dropped, as is one over 1K when the model supports only 1K.

Source: https://ai.google.dev/gemini-api/docs/image-generation; google-genai 3.4, types.ImageConfig.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.media_types import sniff
from tornado_gate.errors import GateError, UpstreamError, UpstreamRefused
from tornado_gate.types import Call, Data, GeneratedImage, ImageRequest, ImageResult
from tornado_gate_gemini.wire.generate.base64_slices import decode_in_slices
from tornado_gate_gemini.wire.generate.errors import find_error
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, read_objects, read_string
from tornado_gate_gemini.wire.generate.names import convert_to_camel_case
from tornado_gate_gemini.wire.generate.usage import find_block_reason, parse_finish_reason, parse_usage

ASPECT_RATIOS: Final = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
_RESOLUTIONS: Final = ((8_400_000, "4K"), (2_100_000, "2K"))
"""By minimum number of pixels; the limits lie between the vendor's squares (1024, 2048 and 4096 pixels a side)."""

_SIZE: Final = re.compile(r"([1-9][0-9]{0,4})[xX*]([1-9][0-9]{0,4})")
_UNSUPPORTED_FIELDS: Final = (
    "mask",
    "negative_prompt",
    "quality",
    "style",
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "input_fidelity",
    "watermark",
    "prompt_extend",
    "user",
    "partial_images",
)
_MAX_TEXT_LENGTH: Final = 500


def drop_unsupported(call: Call, request: ImageRequest, *sayable: str) -> None:
    """Report every field that no model of the vendor supports, except the fields in `sayable`.

    "auto" and zero partial images are the default behaviour and are not reported.
    """
    for name in _UNSUPPORTED_FIELDS:
        value = getattr(request, name)
        anyway = value in (None, "auto") or (name == "partial_images" and value == 0)
        if name not in sayable and not anyway:
            call.drop_field(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None:
            call.drop_field(name)


def choose_shape(
    call: Call, request: ImageRequest, ratios: Sequence[str], *, resolutions: bool
) -> tuple[str | None, str | None]:
    """(aspect ratio, resolution) for a request; each is None if it is not set. Reports an unsupported size as dropped."""
    ratio, resolution = request.aspect_ratio, request.resolution
    if resolution is not None and not resolutions:
        call.drop_field(request.field_name("resolution"))
        resolution = None
    if request.size in (None, "auto"):
        return ratio, resolution
    match = _SIZE.fullmatch(request.size or "")
    if match is None or ratio is not None:
        call.drop_field(request.field_name("size"))
        return ratio, resolution
    width, height = int(match[1]), int(match[2])
    ratio, exact = _find_nearest_ratio(width, height, ratios)
    resolution_name = next((name for least, name in _RESOLUTIONS if width * height >= least), None)
    if not exact or (resolution_name and not resolutions):
        call.drop_field(request.field_name("size"))
    return ratio, resolution or (resolution_name if resolutions else None)


def _find_nearest_ratio(width: int, height: int, ratios: Sequence[str]) -> tuple[str, bool]:
    """The nearest ratio, and whether it is exact."""

    def distance(ratio: str) -> float:
        wide, _, high = ratio.partition(":")
        return abs(math.log(width * int(high) / (height * int(wide))))

    best = min(ratios, key=distance)
    return best, distance(best) == 0


def render_image_request(
    call: Call, request: ImageRequest, pictures: Sequence[Data], *, resolutions: bool
) -> dict[str, Any]:
    """The request body for one image; `pictures` are the input images to edit. Reports unsupported fields to `call.drop_field`.

    `resolutions` is True when the model supports other resolutions than 1K.
    """
    drop_unsupported(call, request)
    if request.n is not None and request.n > 1:  # image models reject several candidates
        call.drop_field(request.field_name("n"))
    ratio, resolution = choose_shape(call, request, ASPECT_RATIOS, resolutions=resolutions)
    parts: list[dict[str, Any]] = [{"text": request.prompt}]
    parts += [{"inlineData": {"mimeType": picture.media_type, "data": picture.base64}} for picture in pictures]
    config = drop_none(
        responseModalities=["TEXT", "IMAGE"],
        imageConfig=drop_none(aspectRatio=ratio, imageSize=resolution) or None,
        seed=request.seed,
    )
    return {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}


async def parse_image_response(body: Any) -> ImageResult:
    """The images of a whole response, without the images in the model's thoughts.

    Raises the upstream's error, and an error with the upstream's reason for a response without an image.
    """
    if (error := find_error(body)) is not None:
        raise error
    body = read_object(convert_to_camel_case(body))
    images: list[GeneratedImage] = []
    texts: list[str] = []
    for candidate in read_objects(body.get("candidates")):
        for part in read_objects(read_object(candidate.get("content")).get("parts")):
            if part.get("thought") is True:
                continue
            texts.append(read_string(part.get("text")))
            if (image := await _parse_picture(read_object(part.get("inlineData")))) is not None:
                images.append(image)
    text = "".join(texts) or None
    if not images:
        raise no_output_error(body, "image", text or "")
    usage = parse_usage(body.get("usageMetadata"))
    return ImageResult(images=tuple(images), model=read_string(body.get("modelVersion")), usage=usage, text=text)


async def _parse_picture(value: Mapping[str, Any]) -> GeneratedImage | None:
    media_type = read_string(value.get("mimeType"))
    if not media_type.startswith("image/"):
        return None
    data = await decode_in_slices(read_string(value.get("data")))
    return GeneratedImage(data=data, media_type=sniff(data) or media_type) if data else None


def no_output_error(body: Mapping[str, Any], what: str, text: str = "") -> GateError:
    """The error for a response without the requested output (`what`), with the upstream's reason if there is one."""
    candidate = next(iter(read_objects(body.get("candidates"))), {})
    feedback = read_object(body.get("promptFeedback"))
    barred = find_block_reason(body)
    reason = barred or read_string(candidate.get("finishReason"))
    explanation = read_string(feedback.get("blockReasonMessage")) or read_string(candidate.get("finishMessage")) or text
    if not reason and not explanation:
        return UpstreamError(f"The upstream's response contains no {what} and no reason. Retry the request.")
    message = " ".join(
        filter(
            None, [f"The upstream returned no {what}:", f"{reason}." if reason else "", explanation[:_MAX_TEXT_LENGTH]]
        )
    )
    filtered = bool(barred) or parse_finish_reason(reason) == "content_filter"
    return UpstreamRefused(message, status=400, code="content_policy_violation" if filtered else "nothing_made")
