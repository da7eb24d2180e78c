"""Convert the chunks of a stream to stream events: the client half, which is lenient. No I/O.

A part ends when a part of another kind starts, so that formats with content blocks can render it immediately. Tool calls and
audio, whose deltas may interleave with others, stay open until the choice ends; a tool call also ends when another part
starts and its arguments are complete. Deltas after the end of a choice are ignored. ``logprobs`` of tokens outside texts and
refusals are dropped.

Source: openai-python 3.52, types/chat/chat_completion_chunk.py.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder

from tornado_gate.codec.counts import read_count
from tornado_gate.errors import UpstreamError
from tornado_gate.streams import sse, stages
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    Usage,
    UsageReport,
)
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire.chat.citations import parse_annotations
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.legacy_functions import LEGACY_CALL
from tornado_gate_openai.wire.chat.parts import WIRE_FORMAT, select_unknown
from tornado_gate_openai.wire.chat.response import decode_sound, parse_images, read_content, read_string
from tornado_gate_openai.wire.chat.tool_deltas import ToolCallDeltas
from tornado_gate_openai.wire.chat.usage import parse_finish_reason, parse_usage

_TEXT_MEMBERS: Final[Mapping[str, PartKind]] = {
    "content": "text",
    "reasoning_content": "thinking",
    "reasoning": "thinking",
    "refusal": "refusal",
}
"""Text members of a delta, and the kind of part that they belong to."""

_LIST_MEMBERS: Final[Mapping[str, PartKind]] = {"annotations": "text", "reasoning_details": "thinking"}
"""Array members of a delta that are added to the end of a part of this kind; annotations as its citations."""


def parse_stream(
    frames: AsyncIterator[Any], *, audio_media_type: str = "", provider: str = ""
) -> AsyncIterator[StreamEvent]:
    """Yield the events of a stream. `frames` are its chunks: their bytes from `sse.read_data`, or parsed ones.

    `audio_media_type` is the media type of the requested audio, `provider` the name for the error message about bytes that are
    not JSON. Raises UpstreamError for a chunk that is not an object. If the stream breaks off, there is no `Finish` event, and
    the core reports an error.
    """
    return stages.add_step(frames, _ChatStreamParser(audio_media_type, provider))


class _TextDelta(Struct, forbid_unknown_fields=True, gc=False):
    """A delta that has text and nothing else. Some upstreams send the role with each, and null for absent members."""

    content: Annotated[str, Meta(min_length=1)]
    role: Any = None
    refusal: Literal["", None] = None
    tool_calls: None = None
    function_call: None = None
    reasoning_content: Literal["", None] = None
    reasoning: Literal["", None] = None


class _TextEntry(Struct, gc=False):
    index: Literal[0]
    delta: _TextDelta
    finish_reason: Literal["", None] = None
    logprobs: None = None
    usage: None = None


class _TextChunk(Struct, gc=False):
    """A chunk that adds text to the only choice, as nearly all do. Other members of a chunk do not matter there.

    They must be JSON in UTF-8. A number above the range of a double is no error in them, because nothing reads or forwards it.
    """

    choices: tuple[_TextEntry]
    usage: None = None
    error: None = None
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


_decode_text: Final = Decoder(_TextChunk).decode
_get_choices: Final = attrgetter("choices")
_get_content: Final = attrgetter("delta.content")


class _ChatStreamParser(stages.Step[Any, StreamEvent]):
    """The parser state of one stream."""

    takes_large = True

    def __init__(self, audio_media_type: str, provider: str = "") -> None:
        self._audio_media_type = audio_media_type
        self._provider = provider
        self._has_texts = True  # the last chunks of an open text had text alone
        self._started = False
        self._extra: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._choices: dict[int, _ChoiceParser] = {}
        self._next_part = itertools.count().__next__

    def take(self, items: list[Any], out: list[StreamEvent]) -> bool:
        place, count = 0, len(items)
        while place < count:
            if self._has_texts:
                place += self._take_texts(items[place:] if place else items, out)
                if place == count:
                    break
            frame = items[place]
            place += 1
            if type(frame) is bytes:
                frame = sse.load_data(frame, self._provider)
                if frame is sse.DONE:
                    return True
            if (delta := self.continue_text(frame)) is not None:
                out.append(delta)
                continue
            if (error := find_error(frame)) is not None:
                out.append(StreamError(error=error))
                return True
            if not isinstance(frame, dict):
                raise UpstreamError("The upstream sent a stream chunk that is not an object. Retry the request.")
            out.extend(self.read(frame))  # keeps the events before an exception
        return False

    def _take_texts(self, items: list[bytes], out: list[StreamEvent]) -> int:
        """Append the events of the first chunks, as many as only add text to an open text. Return their number.

        After none, `_has_texts` is false: the upstream adds other members to its chunks. Parsed chunks are left to `read`.
        """
        choice = self._choices.get(0)
        part = None if choice is None or len(self._choices) != 1 else choice.get_open_text()
        if part is None:
            return 0
        chunks: list[_TextChunk] = []
        try:
            chunks += map(_decode_text, items)  # keeps the chunks before an exception
        except (MsgspecError, RecursionError, TypeError, ValueError):
            self._has_texts = bool(chunks)
        texts = map(_get_content, itertools.chain.from_iterable(map(_get_choices, chunks)))
        out += map(PartDelta, itertools.repeat(part), texts)
        return len(chunks)

    def continue_text(self, frame: Any) -> PartDelta | None:
        """Return the event of a parsed chunk that only adds text to the open part, as nearly all chunks do.

        Returns None for any other chunk; use `read` for it.
        """
        if type(frame) is not dict:
            return None
        get = frame.get
        choices = get("choices")
        if type(choices) is not list or len(choices) != 1 or get("usage") or get("error") or get("object") == "error":
            return None
        entry = choices[0]
        number = entry.get("index") if type(entry) is dict else None
        choice = self._choices.get(number) if type(number) is int else None
        return None if choice is None else choice.continue_text(entry)

    def read(self, frame: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one chunk."""
        choices = frame.get("choices")
        choices = choices if isinstance(choices, list) else []
        if not self._started:
            unknown = select_unknown(frame, *_CHUNK_MEMBERS)
            self._extra |= {name: value for name, value in unknown.items() if value is not None}
            if not (choices or frame.get("model") or frame.get("usage")):
                return  # Azure's first chunk has only the prompt's content filter results
            self._started = True
            yield self._start_response(frame)
        for value in choices:
            if isinstance(value, dict):
                yield from self._read_choice(value)
                yield from self._read_usage(value.get("usage"))
        yield from self._read_usage(frame.get("usage"))

    def _start_response(self, frame: Mapping[str, Any]) -> ResponseStart:
        created = frame.get("created")
        return ResponseStart(
            model=read_string(frame.get("model")),
            id=read_string(frame.get("id")) or None,
            created=read_count(created) or None,
            extra=self._extra,
        )

    def _read_choice(self, value: Mapping[str, Any]) -> Iterator[StreamEvent]:
        number = value.get("index")
        number = number if isinstance(number, int) else 0
        choice = self._choices.get(number)
        if choice is None:
            choice = self._choices[number] = _ChoiceParser(number, self._next_part, self._audio_media_type)
        return choice.read(value)

    def _read_usage(self, value: Any) -> Iterator[StreamEvent]:
        usage = parse_usage(value)
        if usage is not None and usage != self._usage:
            self._usage = usage
            yield UsageReport(usage=usage)


_CHUNK_MEMBERS: Final = ("id", "object", "created", "model", "choices", "usage", "obfuscation")
_CHOICE_MEMBERS: Final = ("index", "delta", "message", "finish_reason", "logprobs", "usage")


class _AudioState(State):
    """The audio part of a choice: its part index, its id, and in `rest` the base64 characters of an incomplete group of four."""

    part: int
    id: str
    rest: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


class _ChoiceParser:
    """The parser state of one choice. `_open` is the kind and index of the open text part."""

    def __init__(self, number: int, next_part: Callable[[], int], audio_media_type: str) -> None:
        self._number = number
        self._next_part = next_part
        self._audio_media_type = audio_media_type
        self._open: tuple[PartKind, int] | None = None
        self._lists: dict[str, list[Any]] = {}
        self._sound: _AudioState | None = None
        self._calls = ToolCallDeltas(number, next_part)
        self._finished = False

    def get_open_text(self) -> int | None:
        """Return the index of the open text, or None."""
        return self._open[1] if self._open is not None and self._open[0] == "text" else None

    def continue_text(self, value: Mapping[str, Any]) -> PartDelta | None:
        """Return the event of an entry that only adds text to the open part; None for any other entry."""
        get = value.get
        delta = get("delta")
        if self._open is None or type(delta) is not dict or get("logprobs") or get("finish_reason") or get("usage"):
            return None
        kind, part = self._open
        text = delta.get("content")
        if kind == "text" and text and len(delta) == 1 and type(text) is str:  # nearly all
            return PartDelta(index=part, data=text)
        word, text = "", ""
        for name, member in delta.items():
            if name == "role" or member is None or member == "":
                continue
            if word or type(member) is not str:
                return None
            word, text = name, member
        return PartDelta(index=part, data=text) if _TEXT_MEMBERS.get(word) == kind else None

    def read(self, value: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one entry of ``choices``."""
        if self._finished:
            return
        delta = value.get("delta") or value.get("message")
        delta = delta if isinstance(delta, dict) else {}
        yield from self._read_words(delta, value.get("logprobs"))
        audio = delta.get("audio")
        if isinstance(audio, dict):
            yield from self._read_audio(audio)
        for image in parse_images(delta):
            yield from self._close_open()
            part = self._next_part()
            yield PartStart(index=part, kind="image", choice=self._number, part=image)
            yield PartEnd(index=part)
        yield from self._read_calls(delta)
        if reason := read_string(value.get("finish_reason")):
            yield from self._finish_choice(reason, value)

    def _read_words(self, delta: Mapping[str, Any], logprobs: Any) -> Iterator[StreamEvent]:
        thinking, text, refusal = read_content(delta)
        for name in _LIST_MEMBERS:
            if isinstance(entries := delta.get(name), list):
                self._lists.setdefault(name, []).extend(entries)
        if thinking or delta.get("reasoning_details"):
            yield from self._append_text("thinking", thinking)
        entries = _read_logprobs(logprobs, "content")
        if text or (entries and self._may_say("text", delta.get("content"))):
            yield from self._append_text("text", text, entries)
        entries = _read_logprobs(logprobs, "refusal")
        if refusal or (entries and self._may_say("refusal", delta.get("refusal"))):
            yield from self._append_text("refusal", refusal, entries)

    def _may_say(self, kind: PartKind, delta_text: Any) -> bool:
        """Return whether log probabilities without text belong to a part of this kind."""
        return isinstance(delta_text, str) or (self._open is not None and self._open[0] == kind)

    def _append_text(
        self, kind: PartKind, text: str, logprobs: tuple[Mapping[str, Any], ...] | None = None
    ) -> Iterator[StreamEvent]:
        if self._open is None or self._open[0] != kind:
            yield from self._close_open()
            self._open = (kind, self._next_part())
            yield PartStart(index=self._open[1], kind=kind, choice=self._number)
        if text or logprobs:
            yield PartDelta(index=self._open[1], data=text, logprobs=logprobs)

    def _read_audio(self, audio: Mapping[str, Any]) -> Iterator[StreamEvent]:
        named = read_string(audio.get("id"))
        sound = self._sound
        if sound is None or (named and sound.id and named != sound.id):
            yield from self._close_sound()
            yield from self._close_open()
            sound = self._sound = _AudioState(self._next_part(), named)
            yield PartStart(
                index=sound.part,
                kind="audio",
                choice=self._number,
                id=named,
                media_type=self._audio_media_type,
            )
        sound.extra |= select_unknown(audio, "id", "data", "transcript")
        text = sound.rest + read_string(audio.get("data"))
        whole = len(text) - len(text) % 4
        sound.rest = text[whole:]
        transcript = read_string(audio.get("transcript"))
        if whole or transcript:
            yield PartDelta(index=sound.part, data=decode_sound(text[:whole]), transcript=transcript)

    def _read_calls(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        calls = delta.get("tool_calls")
        values = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        legacy = delta.get(LEGACY_CALL)
        if isinstance(legacy, dict):
            values.append({"index": -1, "function": legacy, LEGACY_CALL: True})
        if values:
            yield from self._close_words()
        for value in values:
            yield from self._calls.take(value)

    def _close_open(self) -> Iterator[StreamEvent]:
        """Close complete tool calls and the open text part, because another part starts."""
        yield from self._calls.close_complete()
        yield from self._close_words()

    def _close_words(self) -> Iterator[StreamEvent]:
        if self._open is not None:
            kind, part = self._open
            self._open = None
            names = [name for name, owner in _LIST_MEMBERS.items() if owner == kind and name in self._lists]
            extra = {name: self._lists.pop(name) for name in names}
            yield PartEnd(
                index=part, citations=parse_annotations(extra.pop("annotations", None), WIRE_FORMAT), extra=extra
            )

    def _close_sound(self) -> Iterator[StreamEvent]:
        if self._sound is not None:
            sound, self._sound = self._sound, None
            if sound.rest:
                padded = sound.rest + "=" * (4 - len(sound.rest))
                yield PartDelta(index=sound.part, data=decode_sound(padded))
            yield PartEnd(index=sound.part, extra=sound.extra)

    def _finish_choice(self, raw: str, value: Mapping[str, Any]) -> Iterator[StreamEvent]:
        yield from self._close_open()
        yield from self._close_sound()
        yield from self._calls.close_all()
        self._finished = True
        extra = select_unknown(value, *_CHOICE_MEMBERS)
        yield Finish(
            reason=parse_finish_reason(raw, bool(self._calls)),
            raw=raw,
            choice=self._number,
            stop_sequence=read_string(value.get("stop_reason")) or None,  # vLLM's name
            extra={name: member for name, member in extra.items() if member is not None},
        )


def _read_logprobs(logprobs: Any, kind: str) -> tuple[Mapping[str, Any], ...] | None:
    entries = logprobs.get(kind) if isinstance(logprobs, dict) else None
    return tuple(entries) if isinstance(entries, list) and entries else None
