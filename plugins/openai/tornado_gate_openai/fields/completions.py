"""The body of text completions.

Source of the limits: openai-python 3.52, types/completion_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_array, raise_invalid, refuse_value
from tornado_gate.codec.fields import (
    MAX_TOKENS,
    BodySchema,
    Boolean,
    FunctionField,
    Integer,
    Number,
    Object,
    String,
    check,
    describe_type,
    get_schema,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import WORD, Text, words
from tornado_gate_openai.fields.chat import StreamOptionsSchema, check_logit_bias, make_stop, need_stream
from tornado_gate_openai.fields.json_schemas import LOGIT_BIAS

MAX_PROMPTS: Final = 2048
"""The vendor's limit for an array of prompts. The length of a token array is limited by the body size only."""


def _check_prompt(prompt: Any) -> None:
    """Raise InvalidField unless `prompt` is a text, an array of texts, an array of tokens, or an array of token arrays."""
    if isinstance(prompt, str):
        return
    need_array(prompt, "prompt")
    if not prompt:
        raise_invalid("prompt", "must not be empty")
    kind = type(prompt[0])
    if kind not in (str, int, list):
        raise_invalid("prompt.0", f"must be a string, an integer or an array, not {describe_type(prompt[0])}")
    if kind is not int and len(prompt) > MAX_PROMPTS:
        refuse_value("prompt", f"has {len(prompt)} items; at most {MAX_PROMPTS} are allowed")
    for index, piece in enumerate(prompt):
        if type(piece) is not kind:
            raise_invalid(
                f"prompt.{index}", f"must be {describe_type(prompt[0])} like the first item, not {describe_type(piece)}"
            )
        if kind is list:
            _check_tokens(piece, f"prompt.{index}")


def _check_tokens(tokens: list[Any], path: str) -> None:
    if not tokens:
        raise_invalid(path, "must not be empty")
    for index, token in enumerate(tokens):
        if type(token) is not int:
            raise_invalid(f"{path}.{index}", f"must be an integer, not {describe_type(token)}")


def _need_best_of(body: Mapping[str, Any]) -> None:
    best_of, n = body.get("best_of"), body.get("n") or 1
    if best_of is not None and best_of < n:
        raise InvalidField("best_of", f"'best_of' must be at least 'n' ({n}), not {best_of}.")


class CompletionBodySchema(BodySchema):
    """The body of ``POST /v1/completions``."""

    texts = text_maps.Object(kind="other", members=words("service_tier"))
    rules = (need_stream, _need_best_of)

    model = String(required=True, filled=True, text=WORD, description="The name of a model of this gateway.")
    prompt = FunctionField(
        _check_prompt,
        required=True,
        text=Text(kind="user"),
        description="A text, several texts, tokens, or several arrays of tokens.",
        keywords={"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]},
    )
    best_of = Integer(least=1, most=128, allow_none=True)
    echo = Boolean(allow_none=True, description="Begin each answer with the prompt.")
    frequency_penalty = Number(least=-2, most=2, allow_none=True)
    logit_bias = FunctionField(check_logit_bias, allow_none=True, keywords=LOGIT_BIAS)
    logprobs = Integer(least=0, allow_none=True)
    max_tokens = Integer(least=1, most=MAX_TOKENS, allow_none=True, description="The most tokens of the answer.")
    n = Integer(least=1, most=128, allow_none=True)
    presence_penalty = Number(least=-2, most=2, allow_none=True)
    seed = Integer(allow_none=True)
    stop = make_stop()
    stream = Boolean(allow_none=True, description="Answer with server-sent events.")
    stream_options = Object(StreamOptionsSchema, allow_none=True)
    suffix = String(allow_none=True, text=Text(kind="user"))
    temperature = Number(least=0, most=2, allow_none=True)
    top_p = Number(least=0, most=1, allow_none=True)
    user = String(allow_none=True)


_SCHEMA: Final = get_schema(CompletionBodySchema)


def check_completion(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field that is invalid or conflicts with another."""
    check(_SCHEMA, body)
