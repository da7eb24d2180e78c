"""What the API description says about the routes of this format: their own modules have it, and this one for models and realtime.

Source of the answers: openai-python 3.52, types/model.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import JsonSchema, Route, RouteDescription, RouteExample, RouteParameter
from tornado_gate_openai.fields import (
    chat_answers,
    client_secrets,
    embeddings,
    image_answers,
    moderations,
    response_answers,
    speech,
    stored_objects,
    transcriptions,
    video_answers,
)
from tornado_gate_openai.fields.json_schemas import COUNT, TEXT, make_list, make_object

_MODEL: Final[JsonSchema] = make_object(
    ("id", "object", "created", "owned_by"), id=TEXT, object={"const": "model"}, created=COUNT, owned_by=TEXT
)
_REALTIME: Final = (
    "A WebSocket: a `GET` with `Upgrade: websocket`. Messages are JSON events in both directions. Browsers, which cannot set "
    "headers, send the key as the subprotocol `openai-insecure-api-key.KEY` beside `realtime`. Without an upgrade it is a 426."
)

_ROUTES: Final[Mapping[str, RouteDescription]] = {
    "GET /v1/realtime": RouteDescription(
        summary="Open a realtime voice session",
        description=_REALTIME,
        tag="realtime",
        parameters=(RouteParameter(name="model", description="The model.", required=True),),
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
    **chat_answers.ROUTES,
    **response_answers.ROUTES,
    **stored_objects.ROUTES,
    **embeddings.ROUTES,
    **moderations.ROUTES,
    **image_answers.ROUTES,
    **speech.ROUTES,
    **transcriptions.ROUTES,
    **client_secrets.ROUTES,
}


def describe_route(route: Route) -> RouteDescription | None:
    """Return the description of one of the routes of this format."""
    if route.operation == "videos":
        return video_answers.describe_route(route)
    return _ROUTES.get(f"{route.method} {route.path}")
