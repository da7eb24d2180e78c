"""Embeddings, moderation, images, speech, transcription, realtime voice and models.

Source of the answers: openai-python 3.52, types/create_embedding_response.py, moderation_create_response.py, images_response.py,
audio/transcription.py, realtime/client_secret_create_response.py and model.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import JsonSchema, RouteDescription, RouteExample, RouteParameter
from tornado_gate_openai.fields.client_secrets import SecretBodySchema
from tornado_gate_openai.fields.descriptions.parts import (
    ANY_OBJECT,
    COUNT,
    FILE,
    MODEL_MEMBER,
    NUMBER,
    PNG,
    TEXT,
    USAGE,
    make_list,
    make_object,
)
from tornado_gate_openai.fields.embeddings import EmbeddingBodySchema
from tornado_gate_openai.fields.image_inputs import InputBodySchema
from tornado_gate_openai.fields.images import EditBodySchema, GenerationBodySchema
from tornado_gate_openai.fields.moderations import ModerationBodySchema
from tornado_gate_openai.fields.speech import SpeechBodySchema
from tornado_gate_openai.wire.speech import MEDIA_TYPES
from tornado_gate_openai.wire.transcriptions import RESPONSE_FORMATS

_INPUT: Final[JsonSchema] = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "minItems": 1}]}
_EMBEDDINGS: Final[JsonSchema] = make_object(
    ("object", "data", "model", "usage"),
    object={"const": "list"},
    data={
        "type": "array",
        "items": make_object(
            ("object", "index", "embedding"),
            index=COUNT,
            embedding={"anyOf": [{"type": "array", "items": NUMBER}, {"type": "string", "description": "base64"}]},
        ),
    },
    model=TEXT,
    usage=USAGE,
)
_EMBEDDING_EXAMPLES: Final = (
    RouteExample(name="text", summary="A sentence", body={"input": "A cat on a mat."}),
    RouteExample(
        name="texts", summary="Two sentences", body={"input": ["A cat.", "A dog."], "encoding_format": "base64"}
    ),
)
_STREAM: Final[JsonSchema] = {
    "description": "Answer with server-sent events; also as a string.",
    "anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}],
}
_IMAGES: Final[JsonSchema] = make_object(
    ("created", "data"),
    created=COUNT,
    data={"type": "array", "items": make_object(url=TEXT, b64_json=TEXT, revised_prompt=TEXT)},
    usage=USAGE,
)
_REFERENCE: Final[JsonSchema] = make_object(image_url=TEXT, file_id=TEXT)
_GENERATION_BODIES: Final = (GenerationBodySchema, InputBodySchema)
_EDIT_BODIES: Final = (EditBodySchema, InputBodySchema)
_IMAGE_MEMBERS: Final[Mapping[str, JsonSchema]] = {
    "model": MODEL_MEMBER,
    "prompt": {"description": "What the image shows."},
    "stream": _STREAM,
    "images": {"type": "array", "minItems": 1, "items": _REFERENCE},
    "mask": _REFERENCE,
    "input": {"description": "`messages` with texts and images."},
}
_IMAGE_FORM: Final[JsonSchema] = make_object(
    ("image", "prompt"),
    image={"description": "An image; `image[]` for several.", **FILE},
    mask={"description": "Where its pixels are transparent the image is changed.", **FILE},
    prompt=TEXT,
    model=TEXT,
    n={"type": "string"},
    size=TEXT,
    response_format={"type": "string", "enum": ["url", "b64_json"]},
)
_PROMPT_STYLE: Final = "The body may also have `input` and `parameters` in place of `prompt` and its options."
_IMAGE_EVENTS: Final[Mapping[str, str]] = {"text/event-stream": 'data: {"type": "image_generation.completed", …}\n\n'}
_TRANSCRIPT_FORM: Final[JsonSchema] = make_object(
    ("file",),
    file={"description": "A sound file.", **FILE},
    model=TEXT,
    language=TEXT,
    prompt=TEXT,
    response_format={"type": "string", "enum": list(RESPONSE_FORMATS)},
    temperature={"type": "string", "description": "A number from 0 to 1."},
    stream={"type": "string", "enum": ["true", "false"]},
)
_TRANSCRIPT_TYPES: Final[Mapping[str, str]] = {
    "text/plain": "Hello.",
    "text/event-stream": 'data: {"type": "transcript.text.delta", "delta": "Hello."}\n\n',
}
_MODEL: Final[JsonSchema] = make_object(
    ("id", "object", "created", "owned_by"), id=TEXT, object={"const": "model"}, created=COUNT, owned_by=TEXT
)
_REALTIME: Final = (
    "A WebSocket: a `GET` with `Upgrade: websocket`. Messages are JSON events in both directions. Browsers, which cannot set "
    "headers, send the key as the subprotocol `openai-insecure-api-key.KEY` beside `realtime`. Without an upgrade it is a 426."
)

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/embeddings": RouteDescription(
        summary="Create embeddings",
        tag="embeddings",
        body=EmbeddingBodySchema,
        members={"input": _INPUT},
        answer=_EMBEDDINGS,
        examples=_EMBEDDING_EXAMPLES,
    ),
    "POST /v1/engines/{model}/embeddings": RouteDescription(
        summary="Create embeddings with the model of the path",
        description="A `model` in the body is ignored.",
        tag="embeddings",
        body=EmbeddingBodySchema(exclude=("model",)),
        members={"input": _INPUT},
        answer=_EMBEDDINGS,
        examples=_EMBEDDING_EXAMPLES,
    ),
    "POST /v1/moderations": RouteDescription(
        summary="Classify texts and images",
        tag="moderation",
        body=ModerationBodySchema,
        members={"input": _INPUT},
        answer=make_object(
            ("id", "model", "results"),
            id=TEXT,
            model=TEXT,
            results={
                "type": "array",
                "items": make_object(
                    ("flagged", "categories", "category_scores"), flagged={"type": "boolean"}, categories=ANY_OBJECT
                ),
            },
        ),
        examples=(RouteExample(name="text", summary="A text", body={"input": "I like cats."}),),
    ),
    "POST /v1/images/generations": RouteDescription(
        summary="Create images",
        description=_PROMPT_STYLE,
        tag="images",
        body=_GENERATION_BODIES,
        members=_IMAGE_MEMBERS,
        answer=_IMAGES,
        media_types=_IMAGE_EVENTS,
        examples=(
            RouteExample(name="prompt", summary="A prompt", body={"prompt": "A red square."}),
            RouteExample(
                name="data", summary="As data", body={"prompt": "A red square.", "n": 1, "response_format": "b64_json"}
            ),
            RouteExample(
                name="input",
                summary="With `input` and `parameters`",
                body={"input": {"messages": [{"role": "user", "content": [{"text": "A red square."}]}]}},
            ),
        ),
    ),
    "POST /v1/images/edits": RouteDescription(
        summary="Edit images",
        description=_PROMPT_STYLE,
        tag="images",
        body=_EDIT_BODIES,
        members=_IMAGE_MEMBERS,
        form=_IMAGE_FORM,
        answer=_IMAGES,
        media_types=_IMAGE_EVENTS,
        examples=(
            RouteExample(
                name="form", summary="A form", fields={"prompt": "Make it blue."}, files={"image": "image.png"}
            ),
            RouteExample(
                name="json",
                summary="An address",
                body={"prompt": "Make it blue.", "images": [{"image_url": PNG}]},
            ),
        ),
    ),
    "POST /v1/images/variations": RouteDescription(
        summary="Create variations of an image",
        tag="images",
        form=make_object(("image",), image=FILE, model=TEXT, n={"type": "string"}, size=TEXT),
        answer=_IMAGES,
        examples=(
            RouteExample(
                name="form", summary="A form", files={"image": "image.png"}, needs="a model that makes variations"
            ),
        ),
    ),
    "POST /v1/audio/speech": RouteDescription(
        summary="Create speech",
        tag="speech",
        body=SpeechBodySchema,
        media_types={**dict.fromkeys(sorted(set(MEDIA_TYPES.values())), ""), "text/event-stream": ""},
        examples=(
            RouteExample(
                name="wav", summary="A sentence", body={"input": "Hello.", "voice": "alloy", "response_format": "wav"}
            ),
        ),
    ),
    "POST /v1/audio/transcriptions": RouteDescription(
        summary="Transcribe speech",
        tag="transcription",
        form=_TRANSCRIPT_FORM,
        answer=make_object(("text",), text=TEXT),
        media_types=_TRANSCRIPT_TYPES,
        examples=(RouteExample(name="form", summary="A file", files={"file": "speech.wav"}),),
    ),
    "POST /v1/audio/translations": RouteDescription(
        summary="Transcribe speech into English",
        tag="transcription",
        form=_TRANSCRIPT_FORM,
        answer=make_object(("text",), text=TEXT),
        media_types={"text/plain": "Hello."},
        examples=(RouteExample(name="form", summary="A file", files={"file": "speech.wav"}),),
    ),
    "GET /v1/realtime": RouteDescription(
        summary="Open a realtime voice session",
        description=_REALTIME,
        tag="realtime",
        parameters=(RouteParameter(name="model", description="The model.", required=True),),
    ),
    "POST /v1/realtime/client_secrets": RouteDescription(
        summary="Create a client secret for a browser",
        tag="realtime",
        body=SecretBodySchema,
        answer=make_object(("value", "expires_at", "session"), value=TEXT, expires_at=COUNT, session=ANY_OBJECT),
        examples=(
            RouteExample(
                name="secret",
                summary="For ten minutes",
                body={"session": {"type": "realtime", "model": "{model}"}, "expires_after": {"seconds": 600}},
            ),
        ),
    ),
    "GET /v1/models": RouteDescription(
        summary="List the models",
        tag="models",
        answer=make_list(_MODEL),
        examples=(RouteExample(name="models", summary="All models"),),
    ),
    "GET /v1/models/{model}": RouteDescription(
        summary="Describe a model",
        tag="models",
        answer=_MODEL,
        examples=(RouteExample(name="model", summary="One model"),),
    ),
}
"""By method and path."""
