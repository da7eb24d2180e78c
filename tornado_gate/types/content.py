"""What a conversation is made of: parts, and messages that hold them.

`extra` carries fields of the caller's wire format that the vocabulary has no word for, under their wire names; a renderer
of the same wire format puts them back, every other one reports them lost. `Opaque` values belong to the provider that
issued them and go back to it verbatim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.value import Value, field

Extra = Mapping[str, Any]
Role = Literal["system", "developer", "user", "assistant", "tool"]


class Opaque(Value, frozen=True, kw_only=True):
    """A provider's own value (a thinking signature, encrypted reasoning) that only `issuer` can read."""

    issuer: str
    value: Any


class Data(Value, frozen=True, kw_only=True):
    """Bytes that came with the request, in base64 as the caller sent them."""

    media_type: str
    base64: str


class Link(Value, frozen=True, kw_only=True):
    """An address given by a client. Nothing but the core's fetcher may open it."""

    url: str
    media_type: str = ""


class FileReference(Value, frozen=True, kw_only=True):
    """A file that the caller stored at an upstream before; `id` is that upstream's."""

    id: str


Source = Data | Link | FileReference


class Text(Value, frozen=True, kw_only=True):
    text: str
    signature: Opaque | None = None
    extra: Extra = field(default_factory=dict)


class Refusal(Value, frozen=True, kw_only=True):
    """The model's words for declining."""

    text: str
    extra: Extra = field(default_factory=dict)


class Image(Value, frozen=True, kw_only=True):
    """`detail` is how closely to look: low, high, auto, or None for the upstream's default."""

    source: Source
    detail: str | None = None
    extra: Extra = field(default_factory=dict)


class Audio(Value, frozen=True, kw_only=True):
    """`source` is Data for audio given; `reference` names audio the model itself produced in an earlier turn."""

    source: Source | None = None
    reference: str | None = None
    transcript: str | None = None
    extra: Extra = field(default_factory=dict)


class File(Value, frozen=True, kw_only=True):
    """A document; `name` is its file name when the caller gave one."""

    source: Source
    name: str | None = None
    extra: Extra = field(default_factory=dict)


class ToolCall(Value, frozen=True, kw_only=True):
    """`arguments` is the JSON text exactly as the model wrote it; `kind` is "function", or "custom" for free text."""

    id: str
    name: str
    arguments: str
    kind: str = "function"
    signature: Opaque | None = None
    extra: Extra = field(default_factory=dict)


class ToolResult(Value, frozen=True, kw_only=True):
    """The answer to the call `call_id`. `name` is the tool's, when the wire format says it."""

    call_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    is_error: bool = False
    extra: Extra = field(default_factory=dict)


class Thinking(Value, frozen=True, kw_only=True):
    """The model's reasoning. `redacted` thinking has no text, only its signature."""

    text: str = ""
    signature: Opaque | None = None
    redacted: bool = False
    extra: Extra = field(default_factory=dict)


class VendorPart(Value, frozen=True, kw_only=True):
    """A part of `wire_format` that the vocabulary has no word for: `value` as it came."""

    wire_format: str
    value: Mapping[str, Any]


Part = Text | Refusal | Image | Audio | File | ToolCall | ToolResult | Thinking | VendorPart


class Message(Value, frozen=True, kw_only=True):
    """One turn. Results of tools are messages of role "tool" that hold ToolResult parts.

    `plain` remembers that the content was one bare string on the wire, where the two spellings are not the same to a
    renderer of that format.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    plain: bool = True
    extra: Extra = field(default_factory=dict)
