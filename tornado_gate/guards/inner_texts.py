"""The texts of requests in the common vocabulary, for guards: of a request that a model of the gateway sends to another one.

As in the bodies of callers, every string is a text unless it is known to be none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from tornado_gate.codec.text_files import UnreadableFile, read_base64
from tornado_gate.types import (
    Data,
    FileReference,
    GuardedText,
    Message,
    Opaque,
    Span,
    TextKind,
    Thinking,
    ToolCall,
    ToolResult,
)
from tornado_gate.types.value import Value, replace

_WORDS: Final = frozenset(
    {
        *("audio", "background", "call_id", "detail", "effort", "format", "id", "input_fidelity", "kind", "language"),
        *(
            "media_type",
            "modalities",
            "mode",
            "model",
            "moderation",
            "names",
            "output_format",
            "quality",
            "reply_state",
        ),
        *("resolution", "role", "size", "style", "summary", "task_id", "timestamps", "user", "voice", "wire_format"),
    }
)
"""Fields whose strings are ids or words of the gateway and of vendors."""
_UNSEEN: Final = (FileReference, Opaque)
_KIND_OF_ROLE: Final[Mapping[str, TextKind]] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool_result",
}  # fmt: skip
_KIND_OF_PART: Final[Mapping[type, TextKind]] = {
    Thinking: "reasoning", ToolCall: "tool_call", ToolResult: "tool_result",
}  # fmt: skip

Path = tuple[str | int, ...]


class RequestTexts:
    """The texts of a common request. `apply` returns the request with replaced texts."""

    def __init__(self, request: Value) -> None:
        self._request = request
        self._paths: list[Path] = []
        self.texts: list[GuardedText] = []
        self.unread: list[tuple[str, str]] = []
        """The paths of files that cannot be read, each with the reason."""
        self._find_texts(request, (), "other")

    def apply(self, spans: Iterable[Span]) -> Any:
        """Return the request with the spans replaced. Spans must not overlap."""
        request: Any = self._request
        for number, text_spans in groupby(sorted(spans), key=attrgetter("text")):
            request = _replace_text(request, self._paths[number], replace_spans(self.texts[number].text, text_spans))
        return request

    def _find_texts(self, value: Any, path: Path, kind: TextKind) -> None:
        if isinstance(value, str):
            if value:
                self._paths.append(path)
                self.texts.append(GuardedText(kind=kind, path=".".join(map(str, path)), text=value))
        elif isinstance(value, _UNSEEN):
            return
        elif isinstance(value, Data):
            self._find_in_file(value, ".".join(map(str, path)), kind)
        elif isinstance(value, Value):
            kind = _KIND_OF_ROLE.get(value.role, kind) if isinstance(value, Message) else kind
            kind = _KIND_OF_PART.get(type(value), kind)
            for name in value.__struct_fields__:
                if name not in _WORDS:
                    self._find_texts(getattr(value, name), (*path, name), kind)
        elif isinstance(value, Mapping):
            for name, member in value.items():
                self._find_texts(member, (*path, name), kind)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                self._find_texts(item, (*path, index), kind)

    def _find_in_file(self, value: Data, path: str, kind: TextKind) -> None:
        try:
            file = read_base64(value.base64, [value.media_type])
        except UnreadableFile as fault:
            self.unread.append((path, fault.reason))
            return
        for text in (file.text, *file.others) if file is not None else ():
            self._paths.append(())
            self.texts.append(GuardedText(kind=kind, path=path, text=text, is_fixed=True))


def replace_spans(text: str, spans: Iterable[Span]) -> str:
    """Return the text with the spans replaced. Spans must be in order."""
    out: list[str] = []
    position = 0
    for span in spans:
        out += (text[position : span.start], span.replacement)
        position = span.end
    return "".join((*out, text[position:]))


def _replace_text(value: Any, path: Path, text: str) -> Any:
    """Return a copy of a value with the text at `path`."""
    if not path:
        return text
    key, rest = path[0], path[1:]
    if isinstance(value, Value):
        return replace(value, **{str(key): _replace_text(getattr(value, str(key)), rest, text)})
    if isinstance(value, Mapping):
        return {**value, key: _replace_text(value[key], rest, text)}
    copied = list(value)
    copied[int(key)] = _replace_text(copied[int(key)], rest, text)
    return type(value)(copied)
