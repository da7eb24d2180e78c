"""What a mock upstream reads from a request, and what it answers, independent of the vendor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class RefusedError(Exception):
    """The request is one that the vendor refuses with 400; the text is the reason."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. `arguments` is an object, or a text for a custom tool."""

    id: str
    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool result that came back: its texts, joined, and the bytes of its images."""

    call_id: str
    text: str
    images: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Round:
    """One assistant turn with tool calls, and the results that answer it.

    `thinking` has the opaque parts that came back with it, in order: signatures, encrypted reasoning or reasoning texts. `asks`
    counts the user's prompts before it.
    """

    calls: list[ToolCall]
    thinking: list[str]
    asks: int
    results: list[ToolResult] = field(default_factory=list)


@dataclass(slots=True)
class Conversation:
    """A request: the names of its tools, whether each is a custom tool, its tool rounds, and what the user sent."""

    tools: dict[str, bool]
    rounds: list[Round] = field(default_factory=list)
    user_texts: list[str] = field(default_factory=list)
    user_images: list[bytes] = field(default_factory=list)
    schema: dict[str, Any] | None = None
    """The JSON schema that the answer must have, `{}` for any JSON, None for text."""
    wants_thinking: bool = True

    @property
    def asks(self) -> int:
        return len(self.user_texts)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model answers: opaque thinking for each part of the turn, a text, tool calls."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thinking: tuple[tuple[str, str], ...] = ()
    """(visible text, opaque signature) pairs before the calls, one for each block."""
    between: str = ""
    """A text between the first and the second block of thinking (interleaved thinking)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A parsed request: the model, whether the answer is streamed, and the conversation."""

    model: str
    stream: bool
    conversation: Conversation
