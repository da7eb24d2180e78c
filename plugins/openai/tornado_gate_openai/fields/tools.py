"""Tools and the choice between them, of the chat route. Tools of unknown types are accepted: the upstream may support them.

Source: openai-python 3.52, types/chat/chat_completion_*_tool*_param.py and types/shared_params/function_definition.py.
"""

from __future__ import annotations

import re
from typing import Any, Final

from marshmallow import ValidationError

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
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, SCHEMA
from tornado_gate_openai.fields.object_ids import OBJECT_IDS

MAX_TOOLS: Final = 128
NO_OBJECT: Final = {"null": "must be an object, not null"}
NO_ARRAY: Final = dict.fromkeys(("required", "null"), "must be an array, not null")
_NAME_PATTERN: Final = re.compile(
    r"[a-zA-Z0-9_.-]{1,128}"
)  # wider than the vendor's pattern (64 characters, no dots), because other upstreams allow more
_FORMAT: Final = text_maps.Object(
    members={**words("type", "syntax"), "grammar": text_maps.Object(members=words("syntax"))}
)


def _check_name(name: str) -> None:
    if _NAME_PATTERN.fullmatch(name) is None and not are_left_to_upstream():
        raise ValidationError("must have 1 to 128 letters, digits, '_', '-' or '.'")


def make_tool_name() -> String:
    """Return the field of the name of a function or of a custom tool."""
    return String(required=True, validate=_check_name, text=WORD)


class DefinitionSchema(BodySchema):
    """What definitions of tools have in common."""

    texts = text_maps.Object(kind="other", members=words("type"))

    name: Declared[Any] = Unchecked(text=WORD)
    parameters: Declared[Any] = Unchecked(text=SCHEMA)
    format = Unchecked(text=_FORMAT)
    cache_control = Unchecked(text=CACHE_CONTROL)


class FunctionSchema(DefinitionSchema):
    """A function of the caller."""

    name = make_tool_name()
    description = String(allow_none=True)
    parameters = Object(allow_none=True, text=SCHEMA, description="The JSON schema of its arguments.")
    strict = Boolean(allow_none=True)


class CustomToolSchema(DefinitionSchema):
    """A tool of the caller whose input is a text."""

    name = make_tool_name()


class ToolSchema(DefinitionSchema):
    """A tool of any type."""

    type = String(required=True, text=WORD)


class FunctionToolSchema(ToolSchema):
    function = Object(FunctionSchema, required=True)


class NamedToolSchema(ToolSchema):
    custom = Object(CustomToolSchema, required=True)


TOOL: Final = Variants(ToolSchema, lambda: {"function": FunctionToolSchema, "custom": NamedToolSchema})
TOOLS: Final = Array(
    TOOL,
    most=MAX_TOOLS,
    allow_none=True,
    description="Tools that the model may call. Tools of unknown types go upstream.",
)
FUNCTIONS: Final = Array(
    Object(FunctionSchema, error_messages=NO_OBJECT), allow_none=True, description="An older form of `tools`."
)


class ChoiceSchema(BodySchema):
    """The choice of a tool, or of a set of tools."""

    ids = OBJECT_IDS

    type = String(required=True, text=WORD)
    name: Declared[Any] = Unchecked(text=WORD)
    server_label = Unchecked(text=WORD)
    mode: Declared[Any] = Unchecked(text=WORD)
    tools: Declared[Any] = Unchecked(lambda: Array(CHOICE))


class ChosenNameSchema(BodySchema):
    texts = text_maps.Object(kind="other", members=words("type"))

    name = String(required=True, text=WORD)


class AllowedToolsSchema(BodySchema):
    mode = String(required=True, choices=("auto", "required"), text=WORD)
    tools = Array(Unchecked(lambda: CHOICE), required=True, error_messages=NO_ARRAY)


class FunctionChoiceSchema(ChoiceSchema):
    function = Object(ChosenNameSchema, required=True)


class CustomChoiceSchema(ChoiceSchema):
    custom = Object(ChosenNameSchema, required=True)


class AllowedToolsChoiceSchema(ChoiceSchema):
    allowed_tools = Object(AllowedToolsSchema, required=True)


_CHOICES: Final[dict[str | None, type[ChoiceSchema]]] = {
    "function": FunctionChoiceSchema,
    "custom": CustomChoiceSchema,
    "allowed_tools": AllowedToolsChoiceSchema,
}


def _list_choices() -> dict[str | None, type[ChoiceSchema]]:
    return _CHOICES


CHOICE: Final[Variants] = Variants(ChoiceSchema, _list_choices)
TOOL_CHOICES: Final = String(choices=("none", "auto", "required"), text=WORD)
TOOL_CHOICE: Final = OneOf(
    by_type={str: TOOL_CHOICES, dict: CHOICE},
    opaque=True,
    allow_none=True,
    description="`none`, `auto`, `required`, or a tool.",
)
FUNCTION_CALL: Final = OneOf(
    by_type={str: String(choices=("none", "auto"), text=WORD), dict: Object(ChosenNameSchema)},
    allow_none=True,
    description="An older form of `tool_choice`.",
)
TOOL_CHOICE_SHAPE: Final = make_shape(TOOL_CHOICE)
