"""Items of the responses API and their content parts, in requests, responses and conversations.

Unknown members of items, and unknown types of items and content parts, are accepted: the upstream may support them.

Source: openai-python 3.52, types/responses/response_input_item_param.py and the types that it refers to.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from marshmallow import ValidationError

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Declared,
    Object,
    OneOf,
    Reference,
    String,
    Unchecked,
    Variants,
    make_shape,
)
from tornado_gate.types import text_maps
from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    TEXT,
    WORD,
    Data,
    Derived,
    JsonText,
    Offset,
    Text,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.types.value import replace
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, ROLES
from tornado_gate_openai.fields.messages import are_plain
from tornado_gate_openai.fields.object_ids import OBJECT_IDS
from tornado_gate_openai.fields.response_tools import RESPONSE_TOOL
from tornado_gate_openai.fields.tools import NO_OBJECT
from tornado_gate_openai.wire.responses import get_item_type, has_made_id, is_self_contained
from tornado_gate_openai.wire.responses.parts import SUMMARY_PREFIX

MAX_ITEMS: Final = 10_000
_MESSAGE_ROLES: Final = ("user", "assistant", "system", "developer")
_NO_CONTENT: Final = {"null": "must be a string or an array, not null"}
_ITEM_KINDS: Final[dict[str, TextKind]] = {
    "message": "assistant",
    "reasoning": "reasoning",
    **dict.fromkeys(
        (
            "apply_patch_call", "code_interpreter_call", "computer_call", "custom_tool_call", "file_search_call",
            "function_call", "image_generation_call", "local_shell_call", "mcp_approval_request", "mcp_call", "program",
            "shell_call", "tool_search_call", "web_search_call",
        ),
        "tool_call",
    ),
    **dict.fromkeys(
        (
            "apply_patch_call_output", "computer_call_output", "custom_tool_call_output", "function_call_output",
            "local_shell_call_output", "mcp_approval_response", "program_output", "shell_call_output",
        ),
        "tool_result",
    ),
}  # fmt: skip
_PART_KINDS: Final[dict[str, TextKind]] = {
    "output_text": "assistant",
    "refusal": "assistant",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}
ANNOTATION: Final = text_maps.Object(
    kind="other",
    members={
        **words("type", "file_id", "container_id"),
        "start_index": Offset(of="^^text"),
        "end_index": Offset(of="^^text"),
    },
)
OUTCOME: Final = text_maps.Object(kind="other", members=words("id", "code"))
"""The outcome of a command, or a safety check."""


class PartSchema(BodySchema):
    """A content part of any type."""

    texts = text_maps.Object(
        members={
            **words("status"),
            "transcript": TEXT,
            "audio": DATA,
            "annotations": ANNOTATION,
            "logprobs": Derived(empty=[]),
        },
        kinds={"type": _PART_KINDS},
    )
    ids = OBJECT_IDS

    type = String(required=True, text=WORD)
    prompt_cache_breakpoint = Unchecked(text=CACHE_CONTROL)


class TextPartSchema(PartSchema):
    text = String(required=True, text=TEXT)


class RefusalPartSchema(PartSchema):
    refusal = String(required=True, text=TEXT)


def _need_image(part: Mapping[str, Any]) -> None:
    if part.get("image_url") is None and part.get("file_id") is None:
        raise ValidationError({"image_url": ["is missing"]})


class ImagePartSchema(PartSchema):
    object_rules = (_need_image,)

    image_url = String(allow_none=True, text=MEDIA)
    file_id = String(allow_none=True, text=WORD)
    detail = String(allow_none=True, text=WORD)


class FilePartSchema(PartSchema):
    file_data = String(allow_none=True, text=MEDIA)
    file_id = String(allow_none=True, text=WORD)
    file_url = String(allow_none=True)
    filename = String(allow_none=True)


class SoundSchema(BodySchema):
    texts = text_maps.Object()

    data = String(required=True, text=DATA)
    format = String(required=True, text=WORD)


class AudioPartSchema(PartSchema):
    input_audio = Object(SoundSchema, required=True)


_PARTS: Final[dict[str | None, type[PartSchema]]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), TextPartSchema),
    "refusal": RefusalPartSchema,
    "input_image": ImagePartSchema,
    "input_file": FilePartSchema,
    "input_audio": AudioPartSchema,
}
_PART: Final = Variants(PartSchema, lambda: _PARTS)
_CONTENT: Final[dict[type, Declared[Any]]] = {str: String(), list: Array(_PART)}


def _make_object_shape(field: Declared[Any]) -> text_maps.Object:
    shape = make_shape(field)
    assert isinstance(shape, text_maps.Object)
    return shape


PART_SHAPE: Final = _make_object_shape(_PART)
_OUTPUT: Final = text_maps.Object(kind="tool_result", members={**PART_SHAPE.members, "outcome": OUTCOME}, others=TEXT)


_ENCRYPTED: Final = Data(json_after=SUMMARY_PREFIX)


class _ItemReference(Reference, frozen=True, kw_only=True):
    """An item that an upstream would look up by its id. One that the gateway made is not sent: see `made_items`."""

    def is_in(self, value: Mapping[str, Any]) -> bool:
        return not is_self_contained(value) and (get_item_type(value) == "item_reference" or not has_made_id(value))


_ITEM_REFERENCE: Final = _ItemReference(kind="item")


class ItemSchema(BodySchema):
    """An item of any type, with members of types that are not checked."""

    texts = text_maps.Object(
        members={
            **words("object", "status", "namespace", "phase", "server_label", "execution"),
            **words("approval_request_id", "container_id", "created_by", "max_output_length"),
            "fingerprint": DATA,
            "code": Text(kind="tool_call"),
            "outputs": text_maps.Object(kind="tool_result", members={**words("type"), "url": MEDIA}, others=TEXT),
            "results": text_maps.Object(kind="tool_result", members=words("file_id"), others=TEXT),
            "action": text_maps.Object(members=words("type", "button"), others=TEXT),
            "operation": text_maps.Object(members=words("type"), others=TEXT),
            "environment": text_maps.Object(members=words("type", "container_id"), others=TEXT),
            **dict.fromkeys(("queries", "result", "stdout", "stderr"), TEXT),
            "caller": text_maps.Object(kind="other", members=words("type", "caller_id")),
            **dict.fromkeys(("pending_safety_checks", "acknowledged_safety_checks"), OUTCOME),
            "error": ERROR,
        },
        kinds={"role": ROLES, "type": _ITEM_KINDS},
    )
    ids = OBJECT_IDS

    type: Declared[Any] = String(allow_none=True, text=WORD)
    id: Declared[Any] = Unchecked(text=WORD, refers=_ITEM_REFERENCE)
    role: Declared[Any] = Unchecked(text=WORD)
    call_id: Declared[Any] = Unchecked(text=WORD)
    name: Declared[Any] = Unchecked(text=WORD)
    content: Declared[Any] = Unchecked(text=PART_SHAPE)
    summary: Declared[Any] = Unchecked(text=PART_SHAPE)
    output: Declared[Any] = Unchecked(text=_OUTPUT)
    encrypted_content: Declared[Any] = Unchecked(text=_ENCRYPTED)
    tools = Unchecked(lambda: RESPONSE_TOOL)


class UntypedItemSchema(ItemSchema):
    """An item without a type that is neither a message nor a reference."""

    type = String(required=True, text=WORD, error_messages={"null": "is missing"})


class AnyMessageItemSchema(ItemSchema):
    """A message of any role. If an upstream knows further roles, it also knows what their content is."""

    role = String(required=True, choices=_MESSAGE_ROLES, text=WORD)


class MessageItemSchema(AnyMessageItemSchema):
    content = OneOf(by_type=_CONTENT, required=True, text=PART_SHAPE, error_messages=_NO_CONTENT)


class FunctionCallSchema(ItemSchema):
    call_id = String(required=True, text=WORD)
    name = String(required=True, text=WORD)
    arguments = String(required=True, text=JsonText(kind="tool_call"))


class CustomCallSchema(ItemSchema):
    call_id = String(required=True, text=WORD)
    name = String(required=True, text=WORD)
    input = String(required=True, text=Text(kind="tool_call"))


def _need_call(item: Mapping[str, Any]) -> None:
    """Require `call_id`, unless there is a `name`: the vendor accepts that, too."""
    if item.get("name") is None and item.get("call_id") is None:
        raise ValidationError({"call_id": ["must not be null" if "call_id" in item else "is missing"]})


class CallOutputSchema(ItemSchema):
    object_rules = (_need_call,)

    name = String(allow_none=True, text=WORD)
    call_id = String(allow_none=True, text=WORD)
    output = OneOf(by_type=_CONTENT, required=True, text=_OUTPUT, error_messages=_NO_CONTENT)


class ThoughtSchema(BodySchema):
    text = String(required=True)


_THOUGHTS: Final = Array(Object(ThoughtSchema, error_messages=NO_OBJECT), allow_none=True, text=PART_SHAPE)


class ReasoningSchema(ItemSchema):
    encrypted_content = String(allow_none=True, text=_ENCRYPTED)
    summary = _THOUGHTS
    content = _THOUGHTS


class ItemReferenceSchema(ItemSchema):
    id = String(required=True, text=WORD, refers=_ITEM_REFERENCE)


class ImageCallSchema(ItemSchema):
    """A generated image: `result` is its base64."""

    texts = text_maps.Object(
        members={
            **ItemSchema.texts.members,
            **words("size", "quality", "background", "output_format", "action"),
            "result": DATA,
        },
        kind="tool_call",
    )


_OTHER_MESSAGE: Final = "message of an unknown role"
_ITEMS: Final[dict[str | None, type[ItemSchema]]] = {
    None: UntypedItemSchema,
    "message": MessageItemSchema,
    _OTHER_MESSAGE: AnyMessageItemSchema,
    "function_call": FunctionCallSchema,
    "custom_tool_call": CustomCallSchema,
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), CallOutputSchema),
    "reasoning": ReasoningSchema,
    "item_reference": ItemReferenceSchema,
    "image_generation_call": ImageCallSchema,
}


def _choose_item(item: Mapping[str, Any]) -> Any:
    """Return the type of an item. Messages and item references may omit it."""
    kind = item.get("type")
    if kind is None:
        kind = "message" if "role" in item else "item_reference" if "id" in item else None
    if kind == "message" and type(role := item.get("role")) is str and role not in _MESSAGE_ROLES:
        return _OTHER_MESSAGE
    return kind


ITEM: Final = Variants(ItemSchema, lambda: _ITEMS, choose=_choose_item)


@cache
def make_items_shape(kind: TextKind | None = None) -> text_maps.Events:
    """Return the shape of items, or of a string that is input of a kind."""
    shape = make_shape(ITEM)
    assert isinstance(shape, text_maps.Events)
    assert isinstance(shape.other, text_maps.Object)
    return shape if kind is None else replace(shape, other=replace(shape.other, kind=kind))


def make_input(**options: Any) -> OneOf:
    """Return the field of a text or items."""
    items = Array(ITEM, most=MAX_ITEMS, are_plain=are_plain)
    return OneOf(by_type={str: String(), list: items}, text=lambda: make_items_shape("user"), **options)
