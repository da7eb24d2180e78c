"""The body of ``POST /v1/moderations``, and the texts of its responses.

Source: openai-python 3.52, types/moderation_create_params.py and moderation_multi_modal_input_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import (
    choice_member,
    need_object,
    object_member,
    raise_invalid,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import BodySchema, FunctionField, String, check, describe_type, get_schema, make_shape
from tornado_gate.types import RouteDescription, RouteExample, text_maps
from tornado_gate.types.text_maps import WORD, Object, TextMap, words
from tornado_gate_openai.fields.embeddings import INPUT
from tornado_gate_openai.fields.json_schemas import ANY_OBJECT, INPUT_KEYWORDS, TEXT, make_object

MAX_INPUTS: Final = 2048
"""The limit for embeddings. The vendor documents none for moderation."""
PART_TYPES: Final = ("text", "image_url")


def _check_input(value: Any) -> None:
    """Raise InvalidField unless `value` is a text, an array of texts, or an array of the text and image parts of one input."""
    if isinstance(value, str):
        if not value:
            raise_invalid("input", "must not be empty")
        return
    if not isinstance(value, list):
        raise_invalid("input", f"must be a string or an array, not {describe_type(value)}")
    if not value:
        raise_invalid("input", "must not be empty")
    if len(value) > MAX_INPUTS:
        refuse_value("input", f"has {len(value)} items; at most {MAX_INPUTS} are allowed")
    kind = type(value[0])
    if kind not in (str, dict):
        raise_invalid("input.0", f"must be a string or an object, not {describe_type(value[0])}")
    for index, piece in enumerate(value):
        if type(piece) is not kind:
            raise_invalid(
                f"input.{index}", f"must be {describe_type(value[0])} like the first item, not {describe_type(piece)}"
            )
        if kind is dict:
            _check_part(piece, f"input.{index}")
        elif not piece:
            raise_invalid(f"input.{index}", "must not be empty")


def _check_part(part: Any, path: str) -> None:
    need_object(part, path)
    kind = choice_member(part, "type", path, PART_TYPES)
    if kind == "text":
        string_member(part, "text", path)
    elif kind == "image_url":
        string_member(object_member(part, "image_url", path), "url", f"{path}.image_url")


class ModerationBodySchema(BodySchema):
    """The body of ``POST /v1/moderations``."""

    texts = text_maps.Object(kind="other")

    model = String(
        required=True,
        validate=validate.Length(min=1, error="must not be empty"),
        text=WORD,
        description="The name of a model of this gateway.",
    )
    input = FunctionField(
        _check_input,
        required=True,
        text=INPUT,
        description="A text, several texts, or the text and image parts of one input.",
        keywords=INPUT_KEYWORDS,
    )


_SCHEMA: Final = get_schema(ModerationBodySchema)
MODERATIONS: Final = TextMap(
    request=make_shape(ModerationBodySchema),
    response=Object(
        kind="other",
        members={
            **words("id", "model"),
            "results": Object(
                kind="other",
                members={"category_applied_input_types": Object(kind="other", others=WORD)},
            ),
        },
    ),
)


ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/moderations": RouteDescription(
        summary="Classify texts and images",
        tag="moderation",
        body=ModerationBodySchema,
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
}
"""The descriptions by method and path."""


def check_moderation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid member."""
    check(_SCHEMA, body)
