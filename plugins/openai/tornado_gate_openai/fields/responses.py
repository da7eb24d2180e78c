"""Schema of a responses body. Values are not converted, unknown fields are accepted, and null means "not set".

Source: openai-python 3.52, types/responses/response_create_params.py. Enumerations that the vendor extends (tiers, efforts,
values of ``include``) accept any string.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
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
from tornado_gate.errors import InvalidField
from tornado_gate_openai.fields.chat import check_metadata
from tornado_gate_openai.fields.input_checks import check_input
from tornado_gate_openai.fields.tool_checks import check_response_tool_choice, check_response_tools

_REQUIRED_FIELDS: Final = ("model", "input")


class _StreamOptionsSchema(BodySchema):
    include_obfuscation = Boolean(allow_none=True)


class _TextFormatSchema(BodySchema):
    type = String(required=True, choices=("text", "json_object", "json_schema"))
    name = String(allow_none=True)
    description = String(allow_none=True)
    schema = Object(allow_none=True)
    strict = Boolean(allow_none=True)


class _TextSchema(BodySchema):
    format = Object(_TextFormatSchema, allow_none=True)
    verbosity = String(allow_none=True)


class _ReasoningSchema(BodySchema):
    context = String(allow_none=True)
    effort = String(allow_none=True)
    generate_summary = String(allow_none=True)
    mode = String(allow_none=True)
    summary = String(allow_none=True)


class _ConversationSchema(BodySchema):
    id = String(required=True)


class _PromptSchema(BodySchema):
    id = String(required=True)
    variables = Object(allow_none=True)
    version = String(allow_none=True)


class _ContextManagementSchema(BodySchema):
    type = String(required=True)
    compact_threshold = Integer(allow_none=True)


class ResponseBodySchema(BodySchema):
    """The body of ``POST /v1/responses``."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    input = FunctionField(check_input, required=True)
    access_programs = Object(allow_none=True)
    background = Boolean(allow_none=True)
    context_management = Array(Object(_ContextManagementSchema), allow_none=True)
    conversation = OneOf(by_type={str: String(), dict: Object(_ConversationSchema)}, allow_none=True)
    image = Object(allow_none=True)
    include = Array(String(), allow_none=True)
    instructions = String(allow_none=True)
    max_output_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    max_tool_calls = Integer(least=1, allow_none=True)
    metadata = FunctionField(check_metadata, allow_none=True)
    moderation = Object(allow_none=True)
    parallel_tool_calls = Boolean(allow_none=True)
    previous_response_id = String(allow_none=True)
    prompt = Object(_PromptSchema, allow_none=True)
    prompt_cache_key = String(allow_none=True)
    prompt_cache_options = Object(allow_none=True)
    prompt_cache_retention = String(allow_none=True)
    reasoning = Object(_ReasoningSchema, allow_none=True)
    safety_identifier = String(allow_none=True)
    service_tier = String(allow_none=True)
    store = Boolean(allow_none=True)
    stream = Boolean(allow_none=True)
    stream_options = Object(_StreamOptionsSchema, allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True)
    text = Object(_TextSchema, allow_none=True)
    tool_choice = FunctionField(check_response_tool_choice, allow_none=True)
    tools = FunctionField(check_response_tools, allow_none=True)
    top_logprobs = Integer(least=0, most=20, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)
    truncation = String(choices=("auto", "disabled"), allow_none=True)
    user = String(allow_none=True)


_FIELD_NAMES: Final = tuple(ResponseBodySchema().fields)


@lru_cache(maxsize=256)
def _get_schema(names: tuple[str, ...]) -> ResponseBodySchema:
    """Return a schema of these fields only. Cached, because clients send the same few sets of fields repeatedly."""
    return ResponseBodySchema(only=names)


def check_state_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a body of ``/v1/responses/compact`` or ``/v1/responses/input_tokens``.

    They take fields of ``/v1/responses``, of which only the model is required. Source: openai-python 3.52,
    types/responses/response_compact_params.py and input_token_count_params.py.
    """
    given = tuple(name for name in _FIELD_NAMES if body.get(name) is not None or name == "model")
    check(_get_schema(given), body)
    _check_exclusive(body)


def _check_exclusive(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for a body that continues a response and a conversation."""
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        raise InvalidField(
            "previous_response_id",
            "'previous_response_id' and 'conversation' are mutually exclusive. Send only one of them.",
            code="mutually_exclusive_parameters",
        )


def check_response(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field that is invalid or conflicts with another."""
    check(_get_schema(tuple(name for name in _FIELD_NAMES if name in body or name in _REQUIRED_FIELDS)), body)
    _check_exclusive(body)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise InvalidField("stream_options", "'stream_options' requires 'stream' to be true.")
    wanted = (body.get("text") or {}).get("format")
    if wanted is not None and wanted["type"] == "json_schema":
        for name in ("name", "schema"):
            if wanted.get(name) is None:
                raise_missing(f"text.format.{name}")
