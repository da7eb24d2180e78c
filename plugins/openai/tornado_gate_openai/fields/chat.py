"""Schema of a chat body. Values are not converted, unknown fields are accepted, and null means "not set".

Source of the limits: openai-python 3.52, types/chat/completion_create_params.py. Enumerations that the vendor extends
(``reasoning_effort``, ``service_tier``, ``verbosity``, …) accept any string, because upstreams differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_object, raise_invalid, raise_missing, string_member
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
    describe_type,
)
from tornado_gate.errors import InvalidField
from tornado_gate_openai.fields.message_checks import check_messages, check_parts
from tornado_gate_openai.fields.tool_checks import check_function_call, check_functions, check_tool_choice, check_tools

_MAX_STOPS: Final = 4


def check_logit_bias(bias: Any) -> None:
    """Raise InvalidField unless ``logit_bias`` is an object whose values are numbers."""
    need_object(bias, "logit_bias")
    for token, value in bias.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise_invalid(f"logit_bias.{token}", f"must be a number, not {describe_type(value)}")


def check_metadata(metadata: Any) -> None:
    """Raise InvalidField unless ``metadata`` is an object whose values are strings."""
    need_object(metadata, "metadata")
    for name, value in metadata.items():
        if not isinstance(value, str):
            raise_invalid(f"metadata.{name}", f"must be a string, not {describe_type(value)}")


def _check_prediction(prediction: Any) -> None:
    need_object(prediction, "prediction")
    string_member(prediction, "type", "prediction")
    content = prediction.get("content")
    if isinstance(content, list):
        check_parts(content, "prediction.content")
    else:
        string_member(prediction, "content", "prediction")


class StreamOptionsSchema(BodySchema):
    """``stream_options`` of chat and of text completions."""

    include_usage = Boolean(allow_none=True)
    include_obfuscation = Boolean(allow_none=True)


class _JsonSchemaSchema(BodySchema):
    name = String(required=True)
    description = String(allow_none=True)
    schema = Object(allow_none=True)
    strict = Boolean(allow_none=True)


class _ResponseFormatSchema(BodySchema):
    type = String(required=True, choices=("text", "json_object", "json_schema"))
    json_schema = Object(_JsonSchemaSchema, allow_none=True)


class _ChatVoiceSchema(BodySchema):
    id = String(required=True)


class _ChatAudioSchema(BodySchema):
    format = String(required=True)
    voice = OneOf(required=True, by_type={str: String(), dict: Object(_ChatVoiceSchema)})


class ChatBodySchema(BodySchema):
    """The body of ``POST /v1/chat/completions``."""

    model = String(required=True, filled=True)
    messages = FunctionField(check_messages, required=True)
    audio = Object(_ChatAudioSchema, allow_none=True)
    frequency_penalty = Number(least=-2, most=2, allow_none=True)
    function_call = FunctionField(check_function_call, allow_none=True)
    functions = FunctionField(check_functions, allow_none=True)
    logit_bias = FunctionField(check_logit_bias, allow_none=True)
    logprobs = Boolean(allow_none=True)
    max_completion_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    max_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    metadata = FunctionField(check_metadata, allow_none=True)
    modalities = Array(String(), allow_none=True)
    moderation = Object(allow_none=True)
    n = Integer(least=1, most=128, allow_none=True)
    parallel_tool_calls = Boolean(allow_none=True)
    prediction = FunctionField(_check_prediction, allow_none=True)
    presence_penalty = Number(least=-2, most=2, allow_none=True)
    prompt_cache_key = String(allow_none=True)
    prompt_cache_options = Object(allow_none=True)
    prompt_cache_retention = String(allow_none=True)
    reasoning_effort = String(allow_none=True)
    response_format = Object(_ResponseFormatSchema, allow_none=True)
    safety_identifier = String(allow_none=True)
    seed = Integer(allow_none=True)
    service_tier = String(allow_none=True)
    stop = OneOf(by_type={str: String(), list: Array(String(), most=_MAX_STOPS)}, allow_none=True)
    store = Boolean(allow_none=True)
    stream = Boolean(allow_none=True)
    stream_options = Object(StreamOptionsSchema, allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True)
    tool_choice = FunctionField(check_tool_choice, allow_none=True)
    tools = FunctionField(check_tools, allow_none=True)
    top_logprobs = Integer(least=0, most=20, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)
    user = String(allow_none=True)
    verbosity = String(allow_none=True)
    web_search_options = Object(allow_none=True)


_CHAT_SCHEMA: Final = ChatBodySchema()
_FIELDS_TO_CHECK: Final = frozenset(("top_logprobs", "stream_options", "response_format"))
"""The fields that require another field."""


def check_chat(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field that is invalid or conflicts with another."""
    check(_CHAT_SCHEMA, body)
    if _FIELDS_TO_CHECK.isdisjoint(body):
        return
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        raise InvalidField("top_logprobs", "'top_logprobs' requires 'logprobs' to be true.")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise InvalidField("stream_options", "'stream_options' requires 'stream' to be true.")
    wanted = body.get("response_format")
    if wanted is not None and wanted["type"] == "json_schema" and wanted.get("json_schema") is None:
        raise_missing("response_format.json_schema")
