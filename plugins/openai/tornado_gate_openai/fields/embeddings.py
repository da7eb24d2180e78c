"""The body of the embeddings routes, and the texts of their responses.

Source of the limits: openai-python 3.52, types/embedding_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import raise_invalid, raise_missing, refuse_value
from tornado_gate.codec.fields import BodySchema, Integer, String, Unchecked, get_schema, make_check, make_shape
from tornado_gate.types import JsonSchema, RouteDescription, RouteExample, text_maps
from tornado_gate.types.text_maps import DATA, WORD, Object, Text, TextMap, words
from tornado_gate.wire.text_shapes import USAGE
from tornado_gate_openai.fields import json_schemas
from tornado_gate_openai.fields.json_schemas import COUNT, INPUT_KEYWORDS, NUMBER, TEXT, make_object
from tornado_gate_openai.fields.parts import PART_SHAPE

MAX_INPUTS: Final = 2048
ENCODINGS: Final = ("float", "base64")
INPUT: Final = Object(members=PART_SHAPE.members, kind="user", string=Text(kind="user"))
"""A text, or parts."""


class EmbeddingBodySchema(BodySchema):
    """The body of an embeddings request. The format checks the items of ``input`` without blocking other requests."""

    texts = text_maps.Object(kind="other", members=words("input_type"))

    model = String(
        required=True,
        validate=validate.Length(min=1, error="must not be empty"),
        text=WORD,
        description="The name of a model of this gateway.",
    )
    dimensions = Integer(least=1, allow_none=True, example=64)
    encoding_format = String(choices=ENCODINGS, allow_none=True, text=WORD)
    user = String(allow_none=True, example="my-user")
    input = Unchecked(
        text=INPUT,
        description=f"A text, up to {MAX_INPUTS} texts, tokens, or several arrays of tokens.",
        keywords=INPUT_KEYWORDS,
    )


_check_members: Final = make_check(get_schema(EmbeddingBodySchema))
EMBEDDINGS: Final = TextMap(
    request=make_shape(EmbeddingBodySchema),
    response=Object(
        kind="other",
        members={
            **words("object", "model", "id"),
            "usage": USAGE,
            "data": Object(kind="other", members={**words("object"), "embedding": DATA}),
        },
    ),
)


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
    usage=json_schemas.USAGE,
)
_EMBEDDING_EXAMPLES: Final = (
    RouteExample(name="text", summary="A sentence", body={"input": "A cat on a mat."}),
    RouteExample(
        name="texts", summary="Two sentences", body={"input": ["A cat.", "A dog."], "encoding_format": "base64"}
    ),
)

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/embeddings": RouteDescription(
        summary="Create embeddings",
        tag="embeddings",
        body=EmbeddingBodySchema,
        answer=_EMBEDDINGS,
        examples=_EMBEDDING_EXAMPLES,
    ),
    "POST /v1/engines/{model}/embeddings": RouteDescription(
        summary="Create embeddings with the model of the path",
        description="A `model` in the body is ignored.",
        tag="embeddings",
        body=EmbeddingBodySchema(exclude=("model",)),
        answer=_EMBEDDINGS,
        examples=_EMBEDDING_EXAMPLES,
    ),
}
"""The descriptions by method and path."""


def check_embedding(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member; of ``input`` only the number of its items is checked."""
    _check_members(body)
    if body.get("input") is None:
        if "input" in body:
            raise_invalid("input", "must not be null")
        raise_missing("input")
    value = body["input"]
    if isinstance(value, list) and len(value) > MAX_INPUTS and type(value[0]) in (str, list):
        refuse_value("input", f"has {len(value)} items; at most {MAX_INPUTS} are allowed")
