"""The messages of chat bodies and of their answers. Unknown members are accepted: the upstream may support them.

Source: openai-python 3.52, types/chat/chat_completion_*_message_param.py; members of other vendors, such as
``reasoning_content``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from marshmallow import ValidationError
from msgspec import DecodeError, Struct, convert

from tornado_gate.codec.fields import Array, BodySchema, Declared, Object, OneOf, Reference, String, Unchecked, Variants
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import DATA, TEXT, WORD, JsonText, Offset, Shape, Text, words
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ROLES
from tornado_gate_openai.fields.parts import CONTENT, make_content

MAX_MESSAGES: Final = 10_000
THINKING: Final = ("reasoning_content", "reasoning", "thinking")
"""The names of the model's thinking at vendors."""
_MESSAGE_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")

_CITATION: Final = text_maps.Object(
    kind="other",
    members={
        **words("type"),
        "url_citation": text_maps.Object(
            kind="other", members={"start_index": Offset(of="^^^content"), "end_index": Offset(of="^^^content")}
        ),
    },
)
_SIGNED_EXTRA: Final = text_maps.Object(
    kind="other", members={"google": text_maps.Object(members={"thought_signature": DATA})}
)


def make_thinking_shapes(*, delta: bool) -> dict[str, Shape]:
    """Return the shapes of the members with thinking, of a message or of a piece of one."""
    details = text_maps.Object(
        kind="reasoning",
        members={
            **words("type", "id", "format"),
            **dict.fromkeys(("text", "summary"), Text(delta=delta)),
            **dict.fromkeys(("data", "signature"), DATA),
        },
        place="reasoning_details.{index}" if delta else "",
    )
    return {**dict.fromkeys(THINKING, Text(kind="reasoning", delta=delta)), "reasoning_details": details}


class CalledFunctionSchema(BodySchema):
    texts = text_maps.Object()

    name = String(required=True, text=WORD)
    arguments = String(required=True, text=JsonText(kind="tool_call"), description="JSON.")


class CalledToolSchema(BodySchema):
    texts = text_maps.Object()

    name = String(required=True, text=WORD)
    input = String(required=True, text=Text(kind="tool_call"))


class ToolCallSchema(BodySchema):
    """A call of a tool of any type."""

    texts = text_maps.Object()

    id = String(required=True, text=WORD)
    type = String(required=True, text=WORD)
    extra_content = Unchecked(text=_SIGNED_EXTRA)


class FunctionToolCallSchema(ToolCallSchema):
    function = Object(CalledFunctionSchema, required=True)


class CustomToolCallSchema(ToolCallSchema):
    custom = Object(CalledToolSchema, required=True)


TOOL_CALL: Final = Variants(
    ToolCallSchema, lambda: {"function": FunctionToolCallSchema, "custom": CustomToolCallSchema}
)


class SpokenSchema(BodySchema):
    """An earlier spoken answer; `data` and `transcript` are in responses."""

    texts = text_maps.Object(members={"data": DATA, "transcript": Text(kind="assistant")})

    id = String(required=True, text=WORD, refers=Reference(kind="audio"))


class MessageSchema(BodySchema):
    """A message of any role. If an upstream knows further roles, it also knows what their content is."""

    texts = text_maps.Object(
        members={**words("phase"), **make_thinking_shapes(delta=False), "annotations": _CITATION},
        kinds={"role": ROLES},
    )

    role = String(required=True, choices=_MESSAGE_ROLES, text=WORD)
    name: Declared[Any] = String(allow_none=True)
    content: Declared[Any] = Unchecked(lambda: OneOf(by_type=CONTENT))
    tool_call_id: Declared[Any] = Unchecked(text=WORD)
    cache_control = Unchecked(text=CACHE_CONTROL)
    extra_content = Unchecked(text=_SIGNED_EXTRA)


class InputMessageSchema(MessageSchema):
    """A message of the user, or instructions."""

    content = make_content()


class ToolMessageSchema(MessageSchema):
    content = make_content()
    tool_call_id = String(required=True, text=WORD)


class FunctionMessageSchema(MessageSchema):
    name = String(required=True)
    content = String(required=True, allow_none=True)


def _need_content(message: Mapping[str, Any]) -> None:
    for name in ("content", "tool_calls", "function_call", "refusal", "audio"):
        if message.get(name) is not None:
            return
    raise ValidationError({"content": ["is missing"]})


class AssistantMessageSchema(MessageSchema):
    object_rules = (_need_content,)

    refusal = String(allow_none=True, text=TEXT)
    audio = Object(SpokenSchema, allow_none=True)
    function_call = Object(CalledFunctionSchema, allow_none=True, description="An older form of `tool_calls`.")
    tool_calls = Array(TOOL_CALL, allow_none=True)
    content = OneOf(by_type=CONTENT, allow_none=True)


_ROLES: Final[dict[str | None, type[MessageSchema]]] = {
    **dict.fromkeys(("system", "developer", "user"), InputMessageSchema),
    "assistant": AssistantMessageSchema,
    "tool": ToolMessageSchema,
    "function": FunctionMessageSchema,
}


def _list_roles() -> dict[str | None, type[MessageSchema]]:
    return _ROLES


class PlainMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message with a text, a known role and nothing else."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str


_PLAIN_MESSAGES: Final = list[PlainMessage]


def are_plain(messages: list[Any]) -> bool:
    """Whether each message has a text, a known role and nothing else; most requests have only such."""
    try:
        convert(messages, _PLAIN_MESSAGES)
    except DecodeError:
        return False
    return bool(messages)


MESSAGE: Final = Variants(MessageSchema, _list_roles, name="role")
MESSAGES: Final = Array(
    MESSAGE,
    least=1,
    most=MAX_MESSAGES,
    are_plain=are_plain,
    plain_item=PlainMessage,
    required=True,
    description="The conversation.",
)
