"""The body of ``POST /v1/realtime/client_secrets``, whose session is that of a WebSocket.

Source: openai-python 3.52, types/realtime/client_secret_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid
from tornado_gate.codec.fields import BodySchema, Integer, Object, String, check, get_schema, make_shape
from tornado_gate.types import RouteDescription, RouteExample
from tornado_gate.types.text_maps import TextMap
from tornado_gate_openai.fields.json_schemas import ANY_OBJECT, COUNT, TEXT, make_object
from tornado_gate_openai.fields.realtime_texts import SESSION

LEAST_SECONDS, MOST_SECONDS = 10, 7200


class _ExpirySchema(BodySchema):
    anchor = String(choices=("created_at",), allow_none=True)
    seconds = Integer(
        least=LEAST_SECONDS, most=MOST_SECONDS, allow_none=True, description="How long the secret is valid."
    )


class _SessionSchema(BodySchema):
    type = String(choices=("realtime",), required=True)
    model = String(required=True, description="The name of a model of this gateway.")


def _need_model(body: Mapping[str, Any]) -> None:
    if not body["session"]["model"]:
        raise_invalid("session.model", "must not be empty")


class SecretBodySchema(BodySchema):
    """The body of ``POST /v1/realtime/client_secrets``."""

    texts = SESSION
    rules = (_need_model,)

    session = Object(_SessionSchema, required=True, text=SESSION)
    expires_after = Object(_ExpirySchema, allow_none=True)


_SCHEMA: Final = get_schema(SecretBodySchema)
SECRETS: Final = TextMap(request=make_shape(SecretBodySchema), response=SESSION)


ROUTES: Final[Mapping[str, RouteDescription]] = {
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
}
"""The descriptions by method and path."""


def check_secret(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(_SCHEMA, body)
