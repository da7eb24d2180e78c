"""The current turn of a conversation: what the answer is built from. Pure.

A turn is everything after the last assistant message. Earlier messages only count as input tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from tornado_gate.types import (
    Audio,
    ChatRequest,
    Data,
    File,
    FileReference,
    Image,
    Link,
    Message,
    Part,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from tornado_gate.types.value import Value

MAX_TEXT_LENGTH = 64_000  # of the user's text that can be echoed
MAX_RESULT_LENGTH = 8_000  # of one tool result that are repeated

Attachment = Image | Audio | File


class ToolAnswer(Value, frozen=True, kw_only=True):
    """The text of the result of the tool `name`."""

    name: str
    text: str
    is_error: bool = False


class LocalTurn(Value, frozen=True, kw_only=True):
    """`text` is the text of the last user message; `after_tools` says that the last message is a tool result."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    results: tuple[ToolAnswer, ...] = ()
    after_tools: bool = False


def read_turn(request: ChatRequest) -> LocalTurn:
    """The turn that needs an answer."""
    messages = _open_messages(request.messages)
    parts = [part for message in messages for part in _iterate_parts(message.parts)]
    return LocalTurn(
        text=_find_last_text(request.messages),
        attachments=tuple(part for part in parts if isinstance(part, (Image, Audio, File))),
        results=tuple(_iterate_results(messages, _map_call_names(request.messages))),
        after_tools=bool(messages) and messages[-1].role == "tool",
    )


def _open_messages(messages: tuple[Message, ...]) -> list[Message]:
    open_messages: list[Message] = []
    for message in reversed(messages):
        if message.role == "assistant" and open_messages:
            break
        if message.role in ("user", "tool"):
            open_messages.append(message)
    return open_messages[::-1]


def _iterate_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """All parts, including those inside tool results."""
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from part.parts


def _find_last_text(messages: tuple[Message, ...]) -> str:
    """The text of the last user message; without one, of the last message with another role."""
    for roles in (("user",), ("system", "developer"), ("assistant", "tool")):
        for message in reversed(messages):
            if message.role in roles and (text := _join_text(message.parts)):
                return text[:MAX_TEXT_LENGTH]
    return ""


def _join_text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text)).strip()


def _map_call_names(messages: tuple[Message, ...]) -> dict[str, str]:
    """Call id -> tool name, of the last assistant message."""
    for message in reversed(messages):
        if message.role == "assistant":
            return {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
    return {}


def _iterate_results(messages: Iterable[Message], names: dict[str, str]) -> Iterator[ToolAnswer]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                name = part.name or names.get(part.call_id, "")
                yield ToolAnswer(name=name, text=_join_text(part.parts)[:MAX_RESULT_LENGTH], is_error=part.is_error)


def describe_attachments(attachments: Iterable[Attachment]) -> str:
    """'I received 2 images (image/png, 68 bytes; a link to example.com, not opened).' Empty without attachments."""
    sorted_by_kind: dict[str, list[str]] = {}
    for attachment in attachments:
        kind, detail = _describe_attachment(attachment)
        sorted_by_kind.setdefault(kind, []).append(detail)
    counted = [
        f"{_format_count(kind, len(details))} ({'; '.join(details)})" for kind, details in sorted_by_kind.items()
    ]
    return f"I received {_format_list(counted)}." if counted else ""


def _describe_attachment(attachment: Attachment) -> tuple[str, str]:
    match attachment:
        case Image(source=source):
            return "image", _describe_source(source)
        case Audio(source=None):
            return "audio clip", "from an earlier turn"
        case Audio(source=source) if source is not None:
            return "audio clip", _describe_source(source)
        case File(source=source, name=name):
            return "file", f"{name}, {_describe_source(source)}" if name else _describe_source(source)
    raise AssertionError(f"an attachment cannot be of type {type(attachment).__name__}")


def _describe_source(source: Source) -> str:
    match source:
        case Data(media_type=media_type, base64=base64):
            return f"{media_type or 'unknown type'}, {compute_decoded_length(base64)} bytes"
        case Link(url=url):
            return f"a link to {_get_host(url)}, not opened"
        case FileReference(id=identifier):
            return f"stored as {identifier[:100]}, not opened"


def compute_decoded_length(base64: str) -> int:
    """The number of bytes that a base64 text decodes to, padded or not."""
    padding = 2 if base64.endswith("==") else int(base64.endswith("="))
    return (len(base64) - padding) * 3 // 4


def _get_host(url: str) -> str:
    """Only the host of a URL: its path and query may hold secrets."""
    try:
        return urlsplit(url[:2_000]).hostname or "an unknown host"
    except ValueError:
        return "an unknown host"


def _format_count(kind: str, number: int) -> str:
    return f"{number} {kind}{'' if number == 1 else 's'}"


def _format_list(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
