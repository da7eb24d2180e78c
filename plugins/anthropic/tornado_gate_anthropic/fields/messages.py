"""Schema of a messages body. Values are not converted, unknown fields are accepted, and null means "not set".

Source of the limits: anthropic-python 2.11, types/message_create_params.py, and the vendor's page "Messages" for
fields that the SDK no longer has. Enumerations that the vendor extends (``service_tier``, efforts, types of thinking, …)
accept any string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate.codec.checks import raise_missing
from tornado_gate.codec.fields import (
    MAX_TOKENS,
    Array,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    OneOf,
    String,
    check,
)
from tornado_gate_anthropic.fields.message_checks import check_messages, check_system
from tornado_gate_anthropic.fields.tool_checks import check_tool_choice, check_tools


class _MetadataSchema(BodySchema):
    user_id = String(allow_none=True)


class _OutputFormatSchema(BodySchema):
    type = String(required=True)
    schema = Object(allow_none=True)


class _OutputConfigSchema(BodySchema):
    effort = String(allow_none=True)
    format = Object(_OutputFormatSchema, allow_none=True)


class _ThinkingSchema(BodySchema):
    type = String(required=True)
    budget_tokens = Integer(least=0, allow_none=True)
    display = String(allow_none=True)


class MessagesBodySchema(BodySchema):
    """The body of ``POST /v1/messages``. ``/v1/messages/count_tokens`` takes a subset of these fields."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    messages = FunctionField(check_messages, required=True)
    cache_control = Object(allow_none=True)
    container = OneOf(by_type={str: String(), dict: Object()}, allow_none=True)
    diagnostics = Object(allow_none=True)
    inference_geo = String(allow_none=True)
    max_tokens = Integer(least=0, most=MAX_TOKENS, allow_none=True)
    metadata = Object(_MetadataSchema, allow_none=True)
    output_config = Object(_OutputConfigSchema, allow_none=True)
    service_tier = String(allow_none=True)
    speed = String(allow_none=True)
    stop_sequences = Array(String(), allow_none=True)
    stream = Boolean(allow_none=True)
    system = FunctionField(check_system, allow_none=True)
    temperature = Number(least=0, most=1, allow_none=True)
    thinking = Object(_ThinkingSchema, allow_none=True)
    tool_choice = FunctionField(check_tool_choice, allow_none=True)
    tools = FunctionField(check_tools, allow_none=True)
    top_k = Integer(least=0, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)


_MESSAGES_SCHEMA: Final = MessagesBodySchema()


def check_messages_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field that is invalid, or that another field requires and the body lacks."""
    check(_MESSAGES_SCHEMA, body)
    thinking = body.get("thinking")
    if thinking is not None and thinking["type"] == "enabled" and thinking.get("budget_tokens") is None:
        raise_missing("thinking.budget_tokens")
    wanted = (body.get("output_config") or {}).get("format")
    if wanted is not None and wanted["type"] == "json_schema" and wanted.get("schema") is None:
        raise_missing("output_config.format.schema")
