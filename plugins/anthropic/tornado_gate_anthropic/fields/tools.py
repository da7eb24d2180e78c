"""Tools and the choice between them. Tools of unknown types are accepted: the upstream may support them.

Source: anthropic-python 2.11, types/tool_param.py and types/tool_choice_param.py.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.codec.fields import Array, BodySchema, Boolean, Declared, Object, String, Unchecked, Variants
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, SCHEMA

MAX_TOOLS: Final = 10_000
_MAX_NAME_LENGTH: Final = 128
_EPHEMERAL: Final = {"type": "ephemeral"}


class ToolSchema(BodySchema):
    """A tool of any type. Definitions of tools may contain others."""

    texts = text_maps.Object(
        kind="other",
        members={**words("model", "mcp_server_name", "server_name", "display_number"), "caching": CACHE_CONTROL},
    )

    type = String(allow_none=True, text=WORD, description="`custom`, or a tool of the vendor.")
    name: Declared[Any] = Unchecked(text=WORD)
    input_schema: Declared[Any] = Unchecked(text=SCHEMA)
    cache_control = Unchecked(text=CACHE_CONTROL, example=_EPHEMERAL)
    defer_loading = Unchecked(example=True)
    eager_input_streaming = Unchecked(example=True)
    input_examples = Unchecked(example=[{"city": "my-city"}])
    allowed_callers = Unchecked(text=WORD, example=["direct"])
    user_location = Unchecked(text=text_maps.Object(kind="other", members=words("type")))
    tools = Unchecked(lambda: Object(ToolSchema))
    tool = Unchecked(lambda: Object(ToolSchema))
    definition = Unchecked(lambda: Object(ToolSchema))


class CustomToolSchema(ToolSchema):
    """A function of the caller."""

    name = String(required=True, shortest=1, longest=_MAX_NAME_LENGTH, text=WORD)
    input_schema = Object(required=True, text=SCHEMA, description="The JSON schema of its input.")
    description = String(allow_none=True, example="my-description")
    strict = Boolean(allow_none=True)


def _list_tools() -> dict[str | None, type[ToolSchema]]:
    return {None: CustomToolSchema, "custom": CustomToolSchema}


TOOLS: Final = Array(
    Variants(ToolSchema, _list_tools),
    most=MAX_TOOLS,
    allow_none=True,
    description="Tools that the model may call: custom ones with an `input_schema`, or the vendor's by `type`.",
)


class ToolChoiceSchema(BodySchema):
    type = String(required=True, text=WORD)
    name: Declared[Any] = Unchecked(text=WORD)
    disable_parallel_tool_use = Boolean(allow_none=True)


class NamedToolChoiceSchema(ToolChoiceSchema):
    name = String(required=True, text=WORD)


def _list_choices() -> dict[str | None, type[ToolChoiceSchema]]:
    return {"tool": NamedToolChoiceSchema}


TOOL_CHOICE: Final = Variants(
    ToolChoiceSchema, _list_choices, allow_none=True, description="Whether the model may or must call a tool."
)
