"""Vectors, pictures and speech at the Gemini API: which method makes them, and what its answers become.

Source: https://ai.google.dev/gemini-api/docs/embeddings, /image-generation, /imagen and /speech-generation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from tornado_gate.http.fetch.pictures import picture_of
from tornado_gate.types import Call, Data, EmbeddingRequest, ImageRequest, SpeechRequest
from tornado_gate.wire.gemini_embeddings import render_embedding_request
from tornado_gate.wire.gemini_generate import encoded, render_image_request, render_speech_request
from tornado_gate.wire.gemini_images import render_prediction
from tornado_gate_gemini.address import resource
from tornado_gate_gemini.facts import is_imagen, reads_styles, takes_resolutions

WHOLE: Final = "generateContent"
STREAM: Final = "streamGenerateContent?alt=sse"
EMBED: Final = "embedContent"
EMBED_BATCH: Final = "batchEmbedContents"
PREDICT: Final = "predict"


async def body_of(call: Call, request: EmbeddingRequest | ImageRequest | SpeechRequest) -> tuple[str, dict[str, Any]]:
    """The method to call, and its body. What it cannot say is reported to `call.lose`."""
    model = call.target.upstream_model
    match request:
        case EmbeddingRequest():
            return EMBED_BATCH, render_embedding_request(call, request, model=resource(model))
        case SpeechRequest():
            method = STREAM if request.stream else WHOLE
            return method, render_speech_request(call, request, styles=reads_styles(model))
        case ImageRequest() if is_imagen(model):
            return PREDICT, render_prediction(call, request, resolutions=takes_resolutions(model))
        case ImageRequest():
            pictures = await _pictures(call, request)
            return WHOLE, render_image_request(call, request, pictures, resolutions=takes_resolutions(model))


async def _pictures(call: Call, request: ImageRequest) -> list[Data]:
    """The pictures to change, wherever they are."""
    name = request.field_name("images")
    found: list[Data] = []
    for number, source in enumerate(request.images):
        param = name if len(request.images) == 1 else f"{name}.{number}"
        picture = await picture_of(call, source, param)
        found.append(Data(media_type=picture.media_type, base64=await encoded(picture.data)))
    return found


async def one(body: Any) -> AsyncIterator[Any]:
    """A whole answer as the stream of one body that it is."""
    yield body
