"""Tools of the responses API, whose functions are not nested, and the choice between them.

Tools of unknown types are accepted: the upstream may support them.

Source: openai-python 3.52, types/responses/tool_param.py and response_create_params.py.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
    Declared,
    Object,
    OneOf,
    String,
    Unchecked,
    Variants,
    make_shape,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import MEDIA, WORD, words
from tornado_gate.wire.text_shapes import SCHEMA
from tornado_gate_openai.fields.object_ids import OBJECT_IDS
from tornado_gate_openai.fields.tools import (
    CHOICE,
    NO_ARRAY,
    TOOL_CHOICE_SHAPE,
    TOOL_CHOICES,
    ChoiceSchema,
    make_tool_name,
)


@cache
def _make_container_shape() -> text_maps.Object:
    return text_maps.Object(kind="other", members=make_tool_shape().members, string=WORD)


def make_tool_shape() -> text_maps.Object:
    """Return the shape of tools, and of other objects that are like them, such as formats of texts."""
    shape = make_shape(RESPONSE_TOOL)
    assert isinstance(shape, text_maps.Object)
    return shape


class ResponseToolSchema(BodySchema):
    """A tool of any type."""

    texts = text_maps.Object(
        kind="other",
        members={
            **words("server_label", "search_context_size", "model", "size", "quality", "background"),
            **words("output_format", "moderation", "input_fidelity", "action", "environment", "allowed_callers"),
            **words("execution", "vector_store_ids", "connector_id", "syntax", "file_ids", "memory_limit"),
            **words("search_content_types"),
            "input_image_mask": text_maps.Object(kind="other", members={"image_url": MEDIA, **words("file_id")}),
            "user_location": text_maps.Object(kind="other", members=words("type")),
        },
    )
    ids = OBJECT_IDS

    type = String(required=True, text=WORD)
    name: Declared[Any] = Unchecked(text=WORD)
    parameters: Declared[Any] = Unchecked(text=SCHEMA)
    output_schema = Unchecked(text=SCHEMA)
    input_schema = Unchecked(text=SCHEMA)
    schema = Unchecked(text=SCHEMA)
    strict: Declared[Any] = Unchecked(text=WORD)
    tools = Unchecked(lambda: RESPONSE_TOOL)
    format = Unchecked(lambda: RESPONSE_TOOL)
    container = Unchecked(text=_make_container_shape)


class ResponseFunctionSchema(ResponseToolSchema):
    name = make_tool_name()
    description = String(allow_none=True)
    parameters = Object(allow_none=True, text=SCHEMA, description="The JSON schema of its arguments.")
    strict = Boolean(allow_none=True, text=WORD)


class ResponseCustomToolSchema(ResponseToolSchema):
    name = make_tool_name()


def _list_tools() -> dict[str | None, type[ResponseToolSchema]]:
    return {"function": ResponseFunctionSchema, "custom": ResponseCustomToolSchema}


RESPONSE_TOOL: Final[Variants] = Variants(ResponseToolSchema, _list_tools)
RESPONSE_TOOLS: Final = Array(
    RESPONSE_TOOL,
    allow_none=True,
    description="Tools that the model may call. Tools of unknown types go upstream.",
)


class _NamedChoiceSchema(ChoiceSchema):
    name = String(required=True, text=WORD)


class _AllowedChoiceSchema(ChoiceSchema):
    mode = String(required=True, choices=("auto", "required"), text=WORD)
    tools = Array(Unchecked(lambda: CHOICE), required=True, error_messages=NO_ARRAY)


def _list_choices() -> dict[str | None, type[ChoiceSchema]]:
    return {**dict.fromkeys(("function", "custom"), _NamedChoiceSchema), "allowed_tools": _AllowedChoiceSchema}


_CHOICE: Final[Variants] = Variants(ChoiceSchema, _list_choices)
RESPONSE_TOOL_CHOICE: Final = OneOf(
    by_type={str: TOOL_CHOICES, dict: _CHOICE},
    text=TOOL_CHOICE_SHAPE,
    allow_none=True,
    description="`none`, `auto`, `required`, or a tool.",
)
