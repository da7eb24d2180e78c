"""Texts of the answers of chat completions and text completions: messages are those of requests (`messages`).

Sources: openai-python 3.52, types/chat/ and types/completion.py.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types.text_maps import DATA, TEXT, Derived, JsonText, Object, Shape, Text, TextMap, words
from tornado_gate.wire.text_shapes import ERROR, USAGE
from tornado_gate_openai.fields.chat import ChatBodySchema
from tornado_gate_openai.fields.completions import CompletionBodySchema
from tornado_gate_openai.fields.messages import MESSAGE, THINKING, TOOL_CALL, SpokenSchema, make_thinking_shapes

_ENVELOPE: Final = {
    **words("id", "object", "model", "system_fingerprint", "service_tier", "provider"),
    "obfuscation": DATA,
    "usage": USAGE,
    "error": ERROR,
}
_CHOICE: Final = {**words("finish_reason", "native_finish_reason"), "logprobs": Derived()}
_PIECE: Final = Text(delta=True)
_CALLED_FUNCTION: Final = Object(members={**words("name"), "arguments": JsonText(kind="tool_call", delta=True)})
_CALLED_TOOL: Final = Object(members={**words("name"), "input": Text(kind="tool_call", delta=True)})


def _copy_members(shape: Shape) -> dict[str, Shape]:
    assert isinstance(shape, Object)
    return dict(shape.members)


def _make_delta() -> Object:
    """Return the shape of a piece of a message."""
    call = Object(
        members={**_copy_members(make_shape(TOOL_CALL)), "function": _CALLED_FUNCTION, "custom": _CALLED_TOOL},
        place="tool_calls.{index}",
    )
    audio = Object(
        members={**_copy_members(make_shape(SpokenSchema)), "transcript": Text(kind="assistant", delta=True)}
    )
    return Object(
        members={
            **_copy_members(make_shape(MESSAGE)),
            **make_thinking_shapes(delta=True),
            "content": _PIECE,
            "refusal": _PIECE,
            "tool_calls": call,
            "function_call": _CALLED_FUNCTION,
            "audio": audio,
        },
        kind="assistant",
        place="message",
        ends=dict.fromkeys(("content", "tool_calls"), (*THINKING, "reasoning_details")),
    )


def _make_response(choice: dict[str, Shape]) -> Object:
    choices = Object(kind="assistant", members={**_CHOICE, **choice})
    return Object(kind="other", members={**_ENVELOPE, "choices": choices})


def _make_event(choice: dict[str, Shape]) -> Object:
    piece = Object(
        kind="assistant",
        members={**_CHOICE, **choice},
        place="choices.{index}",
        ends={"finish_reason": ("",)},
    )
    return Object(kind="other", members={**_ENVELOPE, "choices": piece}, ends={"error": ("/",)})


CHAT: Final = TextMap(
    request=make_shape(ChatBodySchema),
    response=_make_response({"message": make_shape(MESSAGE)}),
    event=_make_event({"delta": _make_delta()}),
)
COMPLETIONS: Final = TextMap(
    request=make_shape(CompletionBodySchema),
    response=_make_response({"text": TEXT}),
    event=_make_event({"text": _PIECE}),
)
