"""The content of a conversation: messages and their parts.

`extra` holds fields of the caller's wire format that have no field in the vocabulary, under their wire names. A renderer of
the same wire format writes them back; other renderers report them as dropped. `Opaque` values belong to the provider that
issued them and are returned to it unchanged: a `signature` comes with a part of a response, and the next turn returns it to the
upstream in the same part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.citations import Citation
from tornado_gate.types.server_tools import ServerToolUse
from tornado_gate.types.tools import Extra, Tool, VendorTool
from tornado_gate.types.value import Value, field

Role = Literal["system", "developer", "user", "assistant", "tool"]


class Opaque(Value, frozen=True, kw_only=True):
    """A provider's own `value` (a thinking signature, encrypted reasoning; any JSON) that only `issuer` can read.

    `issuer` is the name of the provider entry. Plugins set it to "": the core fills it in.
    """

    issuer: str
    value: Any


class Data(Value, frozen=True, kw_only=True):
    """Bytes inside the request, in `base64` as the caller sent them, with the declared `media_type` (``image/png``)."""

    media_type: str
    base64: str


class Link(Value, frozen=True, kw_only=True):
    """A `url` from a client. Only the core's fetcher may open it. `media_type` is the caller's declaration, "" without one."""

    url: str
    media_type: str = ""


class FileReference(Value, frozen=True, kw_only=True):
    """A file that the caller uploaded to an upstream earlier; `id` is that upstream's file id."""

    id: str


Source = Data | Link | FileReference


class Text(Value, frozen=True, kw_only=True):
    """A `text`. `citations` are the sources of text in a response; citations in a caller's history stay in `extra`."""

    text: str
    signature: Opaque | None = None
    citations: tuple[Citation, ...] = ()
    extra: Extra = field(default_factory=dict)


class Refusal(Value, frozen=True, kw_only=True):
    """The `text` with which the model refuses the request."""

    text: str
    extra: Extra = field(default_factory=dict)


class Image(Value, frozen=True, kw_only=True):
    """An image: its bytes, URL or file id in `source`. `detail` is the resolution to process it with: low, high, auto, or None
    for the upstream's default.
    """

    source: Source
    detail: str | None = None
    extra: Extra = field(default_factory=dict)


class Audio(Value, frozen=True, kw_only=True):
    """Audio. `source` holds input audio; `reference` is the id of audio that the model produced in an earlier turn.

    `transcript` is the text that is spoken, if known.
    """

    source: Source | None = None
    reference: str | None = None
    transcript: str | None = None
    extra: Extra = field(default_factory=dict)


class File(Value, frozen=True, kw_only=True):
    """A document: its bytes, URL or file id in `source`; `name` is its file name if the caller sent one."""

    source: Source
    name: str | None = None
    extra: Extra = field(default_factory=dict)


class ToolCall(Value, frozen=True, kw_only=True):
    """A call of the tool `name`. `id` connects it with its `ToolResult`.

    The ids come from the upstream or from the provider plugin. `arguments` is the JSON text as the model wrote it; `kind` is
    "function", or "custom" for free text.
    """

    id: str
    name: str
    arguments: str
    kind: str = "function"
    signature: Opaque | None = None
    extra: Extra = field(default_factory=dict)


class ToolResult(Value, frozen=True, kw_only=True):
    """The result of the tool call `call_id`: `parts` of text, images or files.

    `name` is the tool's name, if the wire format has it. `is_error`: the tool failed, and the parts give the reason.
    """

    call_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    is_error: bool = False
    extra: Extra = field(default_factory=dict)


class Thinking(Value, frozen=True, kw_only=True):
    """The model's reasoning, or a summary of it, in `text`. `redacted` thinking has no text, only its signature."""

    text: str = ""
    signature: Opaque | None = None
    redacted: bool = False
    extra: Extra = field(default_factory=dict)


class VendorPart(Value, frozen=True, kw_only=True):
    """A part that only `wire_format` defines: `value` is unchanged.

    `server` is set if it is about a tool that several vendors run; renderers of other formats then use it. `value` is empty if
    the upstream has no part for it, only metadata of the response. `restored` are the target's own parts about the same use,
    which its renderer writes instead; () for the second part of one use, None without such parts. `tools` are the tools that
    the part declares. `text` is what the part says, which renderers of other formats write instead of it; None if it has no
    plain text.
    """

    wire_format: str
    value: Mapping[str, Any]
    server: ServerToolUse | None = None
    restored: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Tool | VendorTool, ...] = ()
    text: Text | None = None


Part = Text | Refusal | Image | Audio | File | ToolCall | ToolResult | Thinking | VendorPart


class Message(Value, frozen=True, kw_only=True):
    """One turn: the speaker (`role`) and the content (`parts`). Tool results are messages of role "tool" with ToolResult parts.

    `name` distinguishes several participants of one role. `plain`: the content was a plain string on the wire, not an array of
    parts. A renderer of that format uses it if the two forms have different meanings.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    plain: bool = True
    extra: Extra = field(default_factory=dict)
