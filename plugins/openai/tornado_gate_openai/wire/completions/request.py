"""Requests: body to `ChatRequest`. No I/O.

Members that `ChatRequest` has no field for (``suffix``, ``logprobs`` as a number, ``best_of``) are in `extra`, and so is
``echo`` if it is true; a format plugin that implements ``echo`` removes it.

Source: openai-python 3.52, types/completion_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import ChatRequest, Message, Text
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.parts import select_unknown

WIRE_FORMAT: Final = formats.OPENAI_COMPLETIONS

FIELD_NAMES: Final[Mapping[str, str]] = {"messages": "prompt", "messages.0": "prompt", "messages.0.content.0": "prompt"}

_SHARED_FIELDS: Final = (
    "n",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "user",
)
_KNOWN_MEMBERS: Final = (*_SHARED_FIELDS, "model", "prompt", "stream", "stream_options", "stop")


def read_prompt(body: Mapping[str, Any]) -> str:
    """Return the prompt of a validated body. Raises InvalidField for tokens and for several prompts."""
    prompt = body["prompt"]
    if isinstance(prompt, str):
        return prompt
    if any(not isinstance(piece, str) for piece in prompt):
        raise InvalidField(
            "prompt", "'prompt' must be text for this model; tokens are not supported.", code="unsupported_value"
        )
    if len(prompt) != 1:
        raise InvalidField(
            "prompt",
            f"'prompt' has {len(prompt)} prompts, but this model supports only one. Send one request per prompt.",
            code="unsupported_value",
        )
    return str(prompt[0])


def parse_request(body: Mapping[str, Any]) -> ChatRequest:
    """Return the common request for a validated body. Raises InvalidField for a prompt that is not one text."""
    stop, options = body.get("stop"), body.get("stream_options") or {}
    extra = {
        name: value
        for name, value in body.items()
        if name not in _KNOWN_MEMBERS and not _has_no_effect(name, value, body)
    }
    if unsaid := select_unknown(options, "include_usage"):
        extra["stream_options"] = unsaid
    same: dict[str, Any] = {name: body.get(name) for name in _SHARED_FIELDS}
    return ChatRequest(
        model=body["model"],
        messages=(Message(role="user", parts=(Text(text=read_prompt(body)),)),),
        wire_format=WIRE_FORMAT,
        stream=bool(body.get("stream")),
        include_usage=options.get("include_usage"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        extra=extra,
        names=FIELD_NAMES,
        **same,
    )


def _has_no_effect(name: str, value: Any, body: Mapping[str, Any]) -> bool:
    """Return whether a field has the value that the vendor uses by default."""
    match name:
        case "echo":
            return value is not True
        case "suffix":
            return not value
        case "best_of":  # no effect if all candidates are returned
            return value is None or value == (body.get("n") or 1)
        case _:
            return value is None
