"""Imagen's ``:predict`` wire format: the client half. Pure.

Source: https://ai.google.dev/gemini-api/docs/imagen; google-genai 3.4, models.py (_GenerateImagesConfig_to_vertex and
_GeneratedImage_from_vertex) for the names on the wire. The Gemini API, unlike the vendor's cloud platform, accepts no seed,
no negative prompt and no watermark setting.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.codec.media_types import sniff
from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRefused
from tornado_gate.types import Call, GeneratedImage, ImageRequest, ImageResult
from tornado_gate_gemini.wire.generate import choose_shape, decode_in_slices, drop_unsupported, find_error
from tornado_gate_gemini.wire.generate.json_values import drop_none, read_object, read_objects, read_string

ASPECT_RATIOS: Final = ("1:1", "3:4", "4:3", "9:16", "16:9")
MAX_IMAGES: Final = 4
_FORMATS: Final = {"png": "image/png", "jpeg": "image/jpeg"}


def render_prediction(call: Call, request: ImageRequest, *, resolutions: bool) -> dict[str, Any]:
    """The body of ``:predict``. Raises InvalidField for input images: these models do not edit images."""
    if request.images:
        name = request.field_name("images")
        raise InvalidField(
            name, f"'{name}' is not supported: the model '{call.model}' generates images and does not edit them."
        )
    drop_unsupported(call, request, "output_format", "output_compression")
    if request.seed is not None:
        call.drop_field(request.field_name("seed"))
    count = request.n or 1  # the vendor's default is four
    if count > MAX_IMAGES:
        call.drop_field(request.field_name("n"))
    ratio, resolution = choose_shape(call, request, ASPECT_RATIOS, resolutions=resolutions)
    parameters = drop_none(
        sampleCount=min(count, MAX_IMAGES),
        aspectRatio=ratio,
        sampleImageSize=resolution,
        outputOptions=_render_output_options(call, request) or None,
        includeRaiReason=True,
    )
    return {"instances": [{"prompt": request.prompt}], "parameters": parameters}


def _render_output_options(call: Call, request: ImageRequest) -> dict[str, Any]:
    """The output file format. Only JPEG has a compression quality."""
    media_type = _FORMATS.get(request.output_format or "")
    if request.output_format is not None and media_type is None:
        call.drop_field(request.field_name("output_format"))
    quality = request.output_compression
    if quality is not None and media_type != "image/jpeg":
        call.drop_field(request.field_name("output_compression"))
        quality = None
    return drop_none(mimeType=media_type, compressionQuality=quality)


async def parse_predictions(body: Any) -> ImageResult:
    """The images of a response. Raises the upstream's error, and an error with the reason when all images were filtered."""
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, dict):
        raise UpstreamError(
            "The upstream's response is not an Imagen response: it has no 'predictions'.",
            advice="Check the provider's base_url.",
        )
    images: list[GeneratedImage] = []
    reasons: list[str] = []
    for prediction in read_objects(read_object(body).get("predictions")):
        data = await decode_in_slices(read_string(prediction.get("bytesBase64Encoded")))
        reasons.append(read_string(prediction.get("raiFilteredReason")))
        if data:
            media_type = sniff(data) or read_string(prediction.get("mimeType")) or "image/png"
            revised = read_string(prediction.get("prompt")) or None
            images.append(GeneratedImage(data=data, media_type=media_type, revised_prompt=revised))
    if not images:
        why = " ".join(filter(None, reasons)) or "The safety filter removed all images."
        raise UpstreamRefused(
            f"The upstream returned no image: {why[:500]}", status=400, code="content_policy_violation"
        )
    return ImageResult(images=tuple(images))
