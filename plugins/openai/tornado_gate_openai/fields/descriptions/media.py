"""Embeddings, moderation, images, speech, transcription, realtime voice and models.

Source of the answers: openai-python 3.52, types/create_embedding_response.py, moderation_create_response.py, images_response.py,
audio/transcription.py, realtime/client_secret_create_response.py and model.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import JsonSchema, RouteDescription, RouteExample, RouteParameter
from tornado_gate_openai.fields.client_secrets import SecretBodySchema
from tornado_gate_openai.fields.embeddings import EmbeddingBodySchema
from tornado_gate_openai.fields.json_schemas import (
    ANY_OBJECT,
    COUNT,
    NUMBER,
    TEXT,
    USAGE,
    make_list,
    make_object,
)
from tornado_gate_openai.fields.moderations import ModerationBodySchema
from tornado_gate_openai.fields.speech import SpeechBodySchema
from tornado_gate_openai.wire.speech import MEDIA_TYPES

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
