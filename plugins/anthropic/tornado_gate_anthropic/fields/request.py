"""The body of ``POST /v1/messages``. Values are not converted, unknown fields are accepted, and null means "not set".

Source of the limits: anthropic-python 2.11, types/message_create_params.py, and the vendor's page "Messages" for
fields that the SDK no longer has; of the references: types/beta/beta_file_document_source_param.py,
beta_container_params.py and beta_container_upload_block_param.py. Enumerations that the vendor extends (``service_tier``,
efforts, types of thinking, …) accept any string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_missing
from tornado_gate.codec.fields import (
    MAX_TOKENS,
    Array,
    BodySchema,
    Boolean,
    Integer,
    Number,
    Object,
    OneOf,
    Reference,
    String,
    Unchecked,
    get_schema,
    make_check,
    make_request_reference_reader,
    make_shape,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import TEXT, WORD, Shape, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, SCHEMA
from tornado_gate_anthropic.fields.content import CONTENT, MESSAGES, list_block_members
from tornado_gate_anthropic.fields.tools import TOOL_CHOICE, TOOLS

_EPHEMERAL: Final = {"type": "ephemeral"}


def _make_system_shape() -> Shape:
    """Return the shape of ``system``: blocks, whose texts are of one kind whatever their type."""
    return text_maps.Object(kind="system", members=list_block_members(), others=TEXT)


class _MetadataSchema(BodySchema):
    user_id = String(allow_none=True, example="my-user")


class _OutputFormatSchema(BodySchema):
    type = String(required=True, text=WORD)
    schema = Object(allow_none=True, text=SCHEMA)


class _OutputConfigSchema(BodySchema):
    effort = String(allow_none=True, text=WORD)
    format = Object(_OutputFormatSchema, allow_none=True)


class _ThinkingSchema(BodySchema):
    type = String(required=True, text=WORD)
    budget_tokens = Integer(least=0, allow_none=True)
    display = String(allow_none=True, text=WORD)


class _SkillSchema(BodySchema):
    type = Unchecked(text=WORD)
    skill_id = Unchecked(text=WORD, refers=Reference(kind="skill", unless={"type": ("anthropic",)}))
    version = Unchecked(text=WORD)


class _ContainerSchema(BodySchema):
    id = Unchecked(text=WORD, refers=Reference(kind="container"))
    skills = Unchecked(lambda: Array(Object(_SkillSchema)))


def _need_budget(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is not None and thinking["type"] == "enabled" and thinking.get("budget_tokens") is None:
        raise_missing("thinking.budget_tokens")


def _need_schema(body: Mapping[str, Any]) -> None:
    output = (body.get("output_config") or {}).get("format")
    if output is not None and output["type"] == "json_schema" and output.get("schema") is None:
        raise_missing("output_config.format.schema")


class MessagesBodySchema(BodySchema):
    """The body of ``POST /v1/messages``. ``/v1/messages/count_tokens`` takes a subset of these fields."""

    texts = text_maps.Object(
        kind="other",
        members={
            **words("betas", "anthropic_version"),
            "output_format": make_shape(_OutputFormatSchema),
            "mcp_servers": text_maps.Object(kind="other", members=words("type", "name")),
            "context_management": text_maps.Object(
                kind="other", members={"edits": text_maps.Object(kind="other", members=words("type"))}
            ),
        },
    )
    rules = (_need_budget, _need_schema)

    model = String(required=True, filled=True, text=WORD, description="The name of a model of this gateway.")
    messages = MESSAGES
    cache_control = Object(allow_none=True, text=CACHE_CONTROL, example=_EPHEMERAL)
    container = OneOf(
        by_type={str: String(text=WORD, refers=Reference(kind="container")), dict: Object(_ContainerSchema)},
        allow_none=True,
        example="my-container",
    )
    diagnostics = Object(allow_none=True, example={"previous_message_id": "my-message"})
    inference_geo = String(allow_none=True, text=WORD, example="my-geo")
    max_tokens = Integer(
        least=0,
        most=MAX_TOKENS,
        allow_none=True,
        description="The most tokens of the answer. Without it, the model's default applies.",
        example=2,
    )
    metadata = Object(_MetadataSchema, allow_none=True)
    output_config = Object(_OutputConfigSchema, allow_none=True)
    service_tier = String(allow_none=True, text=WORD, example="standard_only")
    speed = String(allow_none=True, text=WORD, example="fast")
    stop_sequences = Array(String(), allow_none=True, description="Texts at which the answer ends.")
    stream = Boolean(allow_none=True, description="Answer with server-sent events.", example=True)
    system = OneOf(
        by_type=CONTENT, allow_none=True, text=_make_system_shape, opaque=True, description="The system prompt."
    )
    temperature = Number(least=0, most=1, allow_none=True, example=0.5)
    thinking = Object(_ThinkingSchema, allow_none=True, description="Whether the model thinks before it answers.")
    tool_choice = TOOL_CHOICE
    tools = TOOLS
    top_k = Integer(least=0, allow_none=True, example=40)
    top_p = Number(least=0, most=1, allow_none=True, example=0.5)


list_references: Final = make_request_reference_reader(MessagesBodySchema)
"""The references to files, containers and skills in a body.

Content that the upstream produced in earlier turns may contain file ids too; it is not looked up.
"""
REQUEST: Final = make_shape(MessagesBodySchema)


check_messages_body: Final[Callable[[Mapping[str, Any]], None]] = make_check(get_schema(MessagesBodySchema))
"""Raises InvalidField for the first field that is invalid, or that another field requires and the body lacks."""
