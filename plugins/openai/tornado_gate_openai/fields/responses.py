"""The body of responses. Values are not converted, unknown fields are accepted, and null means "not set".

Source: openai-python 3.52, types/responses/response_create_params.py. Enumerations that the vendor extends (tiers, efforts,
values of ``include``) accept any string.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

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
    Reference,
    String,
    check,
    get_schema,
    make_reference_reader,
)
from tornado_gate.codec.value_limits import are_left_to_upstream
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, SCHEMA, USAGE
from tornado_gate_openai.fields.chat import check_metadata, need_stream
from tornado_gate_openai.fields.json_schemas import STRINGS
from tornado_gate_openai.fields.object_ids import OBJECT_IDS
from tornado_gate_openai.fields.response_items import PART_SHAPE, make_input, make_items_shape
from tornado_gate_openai.fields.response_tools import RESPONSE_TOOL_CHOICE, RESPONSE_TOOLS, make_tool_shape


class _StreamOptionsSchema(BodySchema):
    include_obfuscation = Boolean(allow_none=True)


class _TextFormatSchema(BodySchema):
    type = String(required=True, choices=("text", "json_object", "json_schema"), text=WORD)
    name = String(allow_none=True, text=WORD)
    description = String(allow_none=True)
    schema = Object(allow_none=True, text=SCHEMA)
    strict = Boolean(allow_none=True)


class _TextSchema(BodySchema):
    format = Object(_TextFormatSchema, allow_none=True, text=make_tool_shape)
    verbosity = String(allow_none=True, text=WORD)


class _ReasoningSchema(BodySchema):
    context = String(allow_none=True, text=WORD)
    effort = String(allow_none=True, text=WORD)
    generate_summary = String(allow_none=True, text=WORD)
    mode = String(allow_none=True, text=WORD)
    summary = String(allow_none=True, text=WORD)


_CONVERSATION: Final = Reference(kind="conversation")


class _ConversationSchema(BodySchema):
    ids = OBJECT_IDS

    id = String(required=True, text=WORD, refers=_CONVERSATION)


class _PromptSchema(BodySchema):
    ids = OBJECT_IDS

    id = String(required=True, text=WORD, refers=Reference(kind="prompt"))
    variables = Object(allow_none=True, text=text_maps.Object(kind="user", members=PART_SHAPE.members))
    version = String(allow_none=True, text=WORD)


class _ContextManagementSchema(BodySchema):
    type = String(required=True)
    compact_threshold = Integer(allow_none=True)


class ResponseBodySchema(BodySchema):
    """The body of ``POST /v1/responses``."""

    texts = text_maps.Object(
        kind="other",
        members={
            **words("id", "object", "status", "conversation_id"),
            "usage": USAGE,
            **dict.fromkeys(("error", "incomplete_details"), ERROR),
        },
    )
    ids = OBJECT_IDS

    model = String(required=True, filled=True, text=WORD, description="The name of a model of this gateway.")
    input = make_input(
        required=True,
        description="A text, or items: messages, calls of functions and their outputs, reasoning, …",
    )
    access_programs = Object(allow_none=True)
    background = Boolean(allow_none=True)
    context_management = Array(Object(_ContextManagementSchema), allow_none=True, text=CACHE_CONTROL)
    conversation = OneOf(
        by_type={str: String(text=WORD, refers=_CONVERSATION), dict: Object(_ConversationSchema)}, allow_none=True
    )
    image = Object(allow_none=True)
    include = Array(String(), allow_none=True, text=WORD)
    instructions = String(allow_none=True, text=lambda: make_items_shape("system"), description="The system prompt.")
    max_output_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True)
    max_tool_calls = Integer(least=1, allow_none=True)
    metadata = FunctionField(check_metadata, allow_none=True, keywords=STRINGS)
    moderation = Object(allow_none=True)
    parallel_tool_calls = Boolean(allow_none=True)
    previous_response_id = String(
        allow_none=True,
        text=WORD,
        refers=Reference(kind="response"),
        description="The response that this one continues.",
    )
    prompt = Object(_PromptSchema, allow_none=True)
    prompt_cache_key = String(allow_none=True)
    prompt_cache_options = Object(allow_none=True, text=CACHE_CONTROL)
    prompt_cache_retention = String(allow_none=True, text=WORD)
    reasoning = Object(_ReasoningSchema, allow_none=True)
    safety_identifier = String(allow_none=True)
    service_tier = String(allow_none=True, text=WORD)
    store = Boolean(allow_none=True)
    stream = Boolean(allow_none=True, description="Answer with server-sent events.")
    stream_options = Object(_StreamOptionsSchema, allow_none=True)
    temperature = Number(least=0, most=2, allow_none=True)
    text = Object(_TextSchema, allow_none=True)
    tool_choice = RESPONSE_TOOL_CHOICE
    tools = RESPONSE_TOOLS
    top_logprobs = Integer(least=0, most=20, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)
    truncation = String(choices=("auto", "disabled"), allow_none=True, text=WORD)
    user = String(allow_none=True)


class StateBodySchema(ResponseBodySchema):
    """The body of ``POST /v1/responses/compact`` and ``POST /v1/responses/input_tokens``: only the model is required."""

    input = make_input(allow_none=True, description="A text or items.")


_SCHEMA: Final = get_schema(ResponseBodySchema)
_FIELD_NAMES: Final = tuple(_SCHEMA.fields)
_NAMES_WITHOUT_INPUT: Final = tuple(name for name in _FIELD_NAMES if name != "input")
_CONTINUED: Final = ("previous_response_id", "conversation")
read_references: Final = make_reference_reader(ResponseBodySchema)


@lru_cache(maxsize=256)
def _get_schema(names: tuple[str, ...]) -> ResponseBodySchema:
    """Return a schema of these fields only. Cached, because clients send the same few sets of fields repeatedly."""
    return ResponseBodySchema(only=names)


def check_state_body(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a body of ``/v1/responses/compact`` or ``/v1/responses/input_tokens``.

    They take fields of ``/v1/responses``, of which only the model is required. Source: openai-python 3.52,
    types/responses/response_compact_params.py and input_token_count_params.py.
    """
    names = tuple(name for name in _FIELD_NAMES if body.get(name) is not None or name == "model")
    check(_get_schema(names), body)
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
    """Raise InvalidField for the first field that is invalid or conflicts with another.

    `input` is empty only if the request continues something, as at the vendor. A prompt template of the upstream may contain the
    whole input. Source: the vendor's 400 'One of "input" or "previous_response_id" or "prompt" or "conversation" must be
    provided' for "" and [] (2026-08), and its guide to prompt templates, whose examples have no `input`.
    """
    has_prompt = body.get("prompt") is not None and are_left_to_upstream()
    check(_get_schema(_NAMES_WITHOUT_INPUT) if has_prompt and "input" not in body else _SCHEMA, body)
    _check_exclusive(body)
    if not body.get("input") and not has_prompt and all(body.get(name) is None for name in _CONTINUED):
        message = "'input' must not be empty, unless 'previous_response_id' or 'conversation' names what it continues."
        raise InvalidField("input", message, code="missing_required_parameter")
    need_stream(body)
    text_format = (body.get("text") or {}).get("format")
    if text_format is not None and text_format["type"] == "json_schema":
        for name in ("name", "schema"):
            if text_format.get(name) is None:
                raise_missing(f"text.format.{name}")
