"""Embeddings, images and speech at the Gemini API: the method of each request, and the parsing of its response.

Source: https://ai.google.dev/gemini-api/docs/embeddings, /image-generation, /imagen and /speech-generation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from tornado_gate.http.fetch.pictures import read_image
from tornado_gate.types import Call, Data, EmbeddingRequest, ImageRequest, SpeechRequest
from tornado_gate_gemini.provider.address import make_resource_name
from tornado_gate_gemini.wire.embeddings import render_embedding_request
from tornado_gate_gemini.wire.generate import (
    GeminiModelFeatures,
    encode_in_slices,
    render_image_request,
    render_speech_request,
)
from tornado_gate_gemini.wire.images import render_prediction

WHOLE_METHOD: Final = "generateContent"
STREAM_METHOD: Final = "streamGenerateContent?alt=sse"
EMBED_METHOD: Final = "embedContent"
EMBED_BATCH_METHOD: Final = "batchEmbedContents"
PREDICT_METHOD: Final = "predict"


async def build_request(
    call: Call, request: EmbeddingRequest | ImageRequest | SpeechRequest, features: GeminiModelFeatures
) -> tuple[str, dict[str, Any]]:
    """(method, body). Reports unsupported fields to `call.drop_field`."""
    model = call.target.upstream_model
    match request:
        case EmbeddingRequest():
            return EMBED_BATCH_METHOD, render_embedding_request(call, request, model=make_resource_name(model))
        case SpeechRequest():
            method = STREAM_METHOD if request.stream else WHOLE_METHOD
            return method, render_speech_request(call, request, styles=features.styles)
        case ImageRequest() if features.predict:
            return PREDICT_METHOD, render_prediction(call, request, resolutions=features.resolutions)
        case ImageRequest():
            pictures = await _read_images(call, request)
            return WHOLE_METHOD, render_image_request(call, request, pictures, resolutions=features.resolutions)


async def _read_images(call: Call, request: ImageRequest) -> list[Data]:
    """The input images as data, fetched or read where necessary."""
    name = request.field_name("images")
    images: list[Data] = []
    for number, source in enumerate(request.images):
        param = name if len(request.images) == 1 else f"{name}.{number}"
        picture = await read_image(call, source, param)
        images.append(Data(media_type=picture.media_type, base64=await encode_in_slices(picture.data)))
    return images


async def iterate_once(body: Any) -> AsyncIterator[Any]:
    """A whole response as a stream of one body."""
    yield body
