"""Messages and their blocks, in requests and responses.

Unknown members of messages and blocks, and blocks of unknown types, are accepted: the upstream may support them.

A signature is computed by the vendor from the whole thinking, of which the text is a summary. It stays when a guard
replaces characters of the summary in a response, because the vendor requires it in the next turn. In a request, signed
text is fixed.

Source: anthropic-python 2.11, types/message_param.py, types/content_block_param.py and types/beta/.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

from tornado_gate.codec.fields import (
    Array,
    BodySchema,
    Boolean,
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
from tornado_gate.types.text_maps import DATA, MEDIA, TEXT, WORD, Text, words
from tornado_gate.types.texts import TextKind
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, ROLES
from tornado_gate_anthropic.fields.tools import ToolSchema

MAX_MESSAGES: Final = 100_000

_RESULTS: Final = (
    "tool_result", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
    "advisor_tool_result",
)  # fmt: skip
BLOCK_KINDS: Final[dict[str, TextKind]] = {
    **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), "tool_call"),
    **dict.fromkeys(_RESULTS, "tool_result"),
    "thinking": "reasoning",
}
CITATION: Final = text_maps.Object(kind="other", members={**words("type", "file_id"), "encrypted_index": DATA})
THINKING: Final = Text(kind="reasoning", signed_by="signature")
PLAIN_TEXT: Final = Text()
"""The text of a block; its kind is that of the block or of the message around it."""
_MODEL: Final = text_maps.Object(kind="other", members=words("model"))


def _list_blocks() -> dict[str | None, type[BlockSchema]]:
    return _BLOCKS


def _list_sources() -> dict[str | None, type[SourceSchema]]:
    return _SOURCES


class BlockSchema(BodySchema):
    """A block of any type: what blocks have in common, and members of types that are not checked."""

    texts = text_maps.Object(
        members={
            **words("server_name", "media_type", "error_code", "stop_reason", "file_type", "tool_name"),
            **words("mcp_server_name", "role", "retrieved_at"),
            **dict.fromkeys(("encrypted_content", "encrypted_stdout", "encrypted_index"), DATA),
            "trigger": ERROR,
            "from": _MODEL,
            "to": _MODEL,
        },
        others=TEXT,
        kinds={"type": BLOCK_KINDS},
    )

    type = String(
        required=True,
        text=WORD,
        description="`text`, `image`, `document`, `tool_use`, `tool_result`, `thinking`, …; other types go upstream.",
    )
    cache_control = Unchecked(text=CACHE_CONTROL)
    citations = Unchecked(text=CITATION)
    file_id = Unchecked(
        text=WORD, refers=Reference(kind="file", when={"type": ("file", "container_upload")}, anywhere=True)
    )
    toolset_name = Unchecked(text=WORD)
    caller = Unchecked(text=text_maps.Object(kind="other", members=words("type", "tool_id")))
    tools = Unchecked(lambda: Object(ToolSchema))
    tool = Unchecked(lambda: Object(ToolSchema))
    tool_changes = Unchecked(lambda: Object(ToolSchema))
    tool_references = Unchecked(lambda: BLOCK)


BLOCK: Final[Variants] = Variants(BlockSchema, _list_blocks)
CONTENT: Final[dict[type, Declared[Any]]] = {str: String(), list: Array(BLOCK)}
"""The fields of ``content``, by the type of its value."""


class TextBlockSchema(BlockSchema):
    text = String(required=True, text=PLAIN_TEXT)


class ThinkingBlockSchema(BlockSchema):
    thinking = String(required=True, text=THINKING)
    signature = String(allow_none=True, text=DATA)


class RedactedThinkingBlockSchema(BlockSchema):
    data = String(required=True, text=DATA)


class ToolUseBlockSchema(BlockSchema):
    id = String(required=True, filled=True, text=WORD)
    name = String(required=True, filled=True, text=WORD)
    input = Object(required=True, opaque=True, text=Text(kind="tool_call"), description="Data of the caller's tool.")


class CompactionBlockSchema(BlockSchema):
    """A summary of earlier turns, which the vendor signs. Its content is no list of blocks."""

    texts = text_maps.Object(others=TEXT)

    content = Unchecked(text=Text(kind="assistant", signed_by="signature"))


class ToolResultBlockSchema(BlockSchema):
    tool_use_id = String(required=True, text=WORD)
    content = OneOf(by_type=CONTENT, allow_none=True)
    is_error = Boolean(allow_none=True)


class SourceSchema(BodySchema):
    """The source of an image or document. Sources of other types are not checked."""

    texts = text_maps.Object(members=words("media_type"), others=TEXT)

    type = String(required=True, text=WORD)


class Base64SourceSchema(SourceSchema):
    media_type = String(required=True, text=WORD)
    data = String(required=True, text=MEDIA)


class TextSourceSchema(SourceSchema):
    data = String(required=True, text=MEDIA)


class UrlSourceSchema(SourceSchema):
    url = String(required=True)


class FileSourceSchema(SourceSchema):
    file_id = String(required=True, text=WORD)


class ContentSourceSchema(SourceSchema):
    content = OneOf(by_type=CONTENT, required=True)


class MediumBlockSchema(BlockSchema):
    """An image or a document."""

    title = String(allow_none=True)
    source = Variants(SourceSchema, _list_sources, required=True)


_SOURCES: Final[dict[str | None, type[SourceSchema]]] = {
    "base64": Base64SourceSchema,
    "text": TextSourceSchema,
    "url": UrlSourceSchema,
    "file": FileSourceSchema,
    "content": ContentSourceSchema,
}
_BLOCKS: Final[dict[str | None, type[BlockSchema]]] = {
    "text": TextBlockSchema,
    "image": MediumBlockSchema,
    "document": MediumBlockSchema,
    "thinking": ThinkingBlockSchema,
    "redacted_thinking": RedactedThinkingBlockSchema,
    "tool_use": ToolUseBlockSchema,
    "tool_result": ToolResultBlockSchema,
    "compaction": CompactionBlockSchema,
}


class MessageSchema(BodySchema):
    """A message. If an upstream knows further roles, it also knows what their content is."""

    texts = text_maps.Object(kinds={"role": ROLES})

    role = String(required=True, choices=("user", "assistant", "system"), text=WORD)
    content: Declared[Any] = Unchecked(lambda: OneOf(by_type=CONTENT))


class TurnSchema(MessageSchema):
    """A message of a known role."""

    content = OneOf(by_type=CONTENT, required=True, error_messages={"null": "must be a string or an array, not null"})


def _list_turns() -> dict[str | None, type[MessageSchema]]:
    return dict.fromkeys(("user", "assistant", "system"), TurnSchema)


class _PlainMessage(Struct, forbid_unknown_fields=True, gc=False):
    """A message that is certainly valid."""

    role: Literal["user", "assistant", "system"]
    content: str


MESSAGES: Final = Array(
    Variants(MessageSchema, _list_turns, name="role"),
    plain_item=_PlainMessage,
    least=1,
    most=MAX_MESSAGES,
    required=True,
    description="The turns of the conversation.",
)


def list_block_members() -> dict[str, text_maps.Shape]:
    """Return the shapes of the members of blocks of all types but compactions."""
    shape = make_shape(BLOCK)
    assert isinstance(shape, text_maps.Events)
    assert isinstance(shape.other, text_maps.Object)
    return shape.other.members
