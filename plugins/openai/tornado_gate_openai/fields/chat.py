"""The body of chat completions. Values are not converted, unknown fields are accepted, and null means "not set".

Source of the limits: openai-python 3.52, types/chat/completion_create_params.py. Enumerations that the vendor extends
(``reasoning_effort``, ``service_tier``, ``verbosity``, …) accept any string, because upstreams differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_object, raise_invalid, raise_missing
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
    describe_type,
    get_schema,
    make_check,
    make_request_reference_reader,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, SCHEMA
from tornado_gate_openai.fields.json_schemas import LOGIT_BIAS, STRINGS
from tornado_gate_openai.fields.messages import MESSAGES
from tornado_gate_openai.fields.parts import make_content
from tornado_gate_openai.fields.tools import FUNCTION_CALL, FUNCTIONS, TOOL_CHOICE, TOOLS

_MAX_STOPS: Final = 4
_DEPENDENT_MEMBERS: Final = frozenset(("top_logprobs", "stream_options", "response_format"))
"""Members that require another one."""


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


def make_stop() -> OneOf:
    """Return the field of the texts at which the answer ends."""
    return OneOf(
        by_type={str: String(), list: Array(String(), most=_MAX_STOPS)},
        allow_none=True,
        description="Texts at which the answer ends.",
    )


def need_stream(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for options of a stream without a stream."""
    if body.get("stream_options") is not None and body.get("stream") is not True:
        raise InvalidField("stream_options", "'stream_options' requires 'stream' to be true.")


class PredictionSchema(BodySchema):
    """Text of which the most is expected to be in the answer."""

    texts = text_maps.Object(kind="assistant")

    type = String(required=True, text=WORD)
    content = make_content()


class StreamOptionsSchema(BodySchema):
    """``stream_options`` of chat and of text completions."""

    include_usage = Boolean(allow_none=True, description="A last chunk has the tokens of the answer.")
    include_obfuscation = Boolean(allow_none=True, example=False)


class _JsonSchemaSchema(BodySchema):
    name = String(required=True, text=WORD)
    description = String(allow_none=True, example="my-description")
    schema = Object(allow_none=True, text=SCHEMA)
    strict = Boolean(allow_none=True)


class _ResponseFormatSchema(BodySchema):
    texts = text_maps.Object(kind="other", members={**words("name"), "schema": SCHEMA})

    type = String(required=True, choices=("text", "json_object", "json_schema"), text=WORD)
    json_schema = Object(_JsonSchemaSchema, allow_none=True)


class _ChatVoiceSchema(BodySchema):
    id = String(required=True)


class _ChatAudioSchema(BodySchema):
    format = String(required=True, text=WORD)
    voice = OneOf(required=True, by_type={str: String(), dict: Object(_ChatVoiceSchema)}, text=WORD)


def _need_logprobs(body: Mapping[str, Any]) -> None:
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        raise InvalidField("top_logprobs", "'top_logprobs' requires 'logprobs' to be true.")


def _need_json_schema(body: Mapping[str, Any]) -> None:
    response_format = body.get("response_format")
    if (
        response_format is not None
        and response_format["type"] == "json_schema"
        and response_format.get("json_schema") is None
    ):
        raise_missing("response_format.json_schema")


def _check_dependent_members(body: Mapping[str, Any]) -> None:
    if _DEPENDENT_MEMBERS.isdisjoint(body):
        return  # most bodies
    _need_logprobs(body)
    need_stream(body)
    _need_json_schema(body)


class ChatBodySchema(BodySchema):
    """The body of ``POST /v1/chat/completions``."""

    texts = text_maps.Object(
        kind="other",
        members={
            "reasoning": text_maps.Object(kind="other", members=words("effort", "summary")),
            "cache_control": CACHE_CONTROL,
        },
    )
    rules = (_check_dependent_members,)

    model = String(required=True, filled=True, text=WORD, description="The name of a model of this gateway.")
    messages = MESSAGES
    audio = Object(_ChatAudioSchema, allow_none=True)
    frequency_penalty = Number(least=-2, most=2, allow_none=True, example=0.5)
    function_call = FUNCTION_CALL
    functions = FUNCTIONS
    logit_bias = FunctionField(check_logit_bias, allow_none=True, example={"50256": -100}, keywords=LOGIT_BIAS)
    logprobs = Boolean(allow_none=True, example=True)
    max_completion_tokens = Integer(
        least=1,
        most=MAX_TOKENS,
        allow_none=True,
        description="The most tokens of the answer, with those of reasoning.",
        example=2,
    )
    max_tokens = Integer(
        least=1,
        most=MAX_TOKENS,
        allow_none=True,
        description="An older name of `max_completion_tokens`.",
        example=2,
    )
    metadata = FunctionField(check_metadata, allow_none=True, example={"team": "my-team"}, keywords=STRINGS)
    modalities = Array(String(), allow_none=True, text=WORD, example=["text", "audio"])
    moderation = Object(allow_none=True, example={"model": "my-moderation"})
    n = Integer(least=1, most=128, allow_none=True, example=2)
    parallel_tool_calls = Boolean(allow_none=True, description="Whether the model may call several tools at once.")
    prediction = Object(
        PredictionSchema, allow_none=True, opaque=True, example={"type": "content", "content": "my-guess"}
    )
    presence_penalty = Number(least=-2, most=2, allow_none=True, example=0.5)
    prompt_cache_key = String(allow_none=True, example="my-key")
    prompt_cache_options = Object(allow_none=True, text=CACHE_CONTROL, example={"mode": "explicit"})
    prompt_cache_retention = String(allow_none=True, text=WORD, example="24h")
    reasoning_effort = String(allow_none=True, text=WORD)
    response_format = Object(
        _ResponseFormatSchema, allow_none=True, description="Text, any JSON object, or JSON that follows a schema."
    )
    safety_identifier = String(allow_none=True, example="my-person")
    seed = Integer(allow_none=True, example=7)
    service_tier = String(allow_none=True, text=WORD, example="flex")
    stop = make_stop()
    store = Boolean(allow_none=True, example=True)
    stream = Boolean(allow_none=True, description="Answer with server-sent events.", example=True)
    stream_options = Object(StreamOptionsSchema, allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True, example=0.5)
    tool_choice = TOOL_CHOICE
    tools = TOOLS
    top_logprobs = Integer(least=0, most=20, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True, example=0.5)
    user = String(allow_none=True, example="my-user")
    verbosity = String(allow_none=True, text=WORD, example="low")
    web_search_options = Object(
        allow_none=True,
        text=text_maps.Object(
            kind="other",
            members={
                **words("search_context_size"),
                "user_location": text_maps.Object(kind="other", members=words("type")),
            },
        ),
        example={"search_context_size": "low"},
    )


list_chat_references: Final = make_request_reference_reader(ChatBodySchema)
"""The references in the body of ``POST /v1/chat/completions``."""


check_chat: Final[Callable[[Mapping[str, Any]], None]] = make_check(get_schema(ChatBodySchema))
"""Raises InvalidField for the first field that is invalid or conflicts with another."""
