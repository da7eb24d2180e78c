"""The conversation of a session: bounded, ordered items, and their rendering in the current dialect.

Audio takes much memory, so only the newest audio is kept. The transcript and the length of older audio remain.

Source: openai-python 3.52, types/realtime/conversation_item.py and the realtime_conversation_item_*.py that it names.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from tornado_gate.codec import checks
from tornado_gate.errors import GateError, InvalidField, RequestError
from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types.value import State, field
from tornado_gate_openai.voice.audio import compute_bytes, compute_milliseconds
from tornado_gate_openai.wire.realtime import convert_item_to_current

Kind = Literal["message", "function_call", "function_call_output"]
Status = Literal["in_progress", "completed", "incomplete"]

MAX_KEPT: Final = 8 * 1024 * 1024
"""The maximum bytes of one audio part of a model. If it is longer, only the transcript and the length are kept."""
KINDS: Final = ("message", "function_call", "function_call_output")
ROLES: Final = ("user", "assistant", "system")
LONGEST_ID: Final = 64
ROOT_ITEM_ID: Final = "root"


class TextPart(State):
    """Text of an item; `output` is true for text of a model."""

    text: str
    output: bool = False

    def render(self, sound: bool) -> dict[str, Any]:
        return {"type": "output_text" if self.output else "input_text", "text": self.text}

    @property
    def size(self) -> int:
        return len(self.text)


class ImagePart(State):
    """An image, as the address or ``data:`` URL in the caller's event."""

    url: str
    detail: str | None = None

    def render(self, sound: bool) -> dict[str, Any]:
        shown = {"type": "input_image", "image_url": self.url}
        return shown if self.detail is None else {**shown, "detail": self.detail}

    @property
    def size(self) -> int:
        return len(self.url)


class AudioPart(State):
    """Audio of the caller, or of a model if `output` is true.

    `pcm` is None when the audio is no longer kept; `length` is its number of bytes in any case. `transcript` is None until the
    audio is transcribed; `heard` is the estimated transcript of truncated audio. `listening` is the transcription task,
    `trouble` its error, which is reported once.
    """

    pcm: bytearray | None
    length: int = 0
    transcript: str | None = None
    output: bool = False
    truncated: bool = False
    heard: str = ""
    done: bool = False
    transcription_task: asyncio.Task[None] | None = None
    transcription_error: GateError | None = None

    def render(self, sound: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {"type": "output_audio" if self.output else "input_audio"}
        if sound and self.pcm is not None:
            shown["audio"] = base64.b64encode(self.pcm).decode()
        return {**shown, "transcript": self.transcript}

    @property
    def size(self) -> int:
        return len(self.transcript or "")

    @property
    def kept_bytes(self) -> int:
        return 0 if self.pcm is None else len(self.pcm)

    @property
    def seconds(self) -> float:
        return compute_milliseconds(self.length) / 1000

    @property
    def heard_words(self) -> str:
        """Return the words of the audio, as far as the caller can have heard them."""
        return self.heard if self.truncated else self.transcript or ""

    def add(self, pcm: bytes) -> None:
        self.length += len(pcm)
        if self.pcm is not None and len(self.pcm) + len(pcm) <= MAX_KEPT:
            self.pcm += pcm
        else:
            self.pcm = None

    def truncate(self, ms: int) -> None:
        """Truncate the audio to `ms`. The transcript is removed; a proportional share of it is kept in `heard` for the model."""
        length = compute_bytes(ms)
        words = self.heard_words
        share = length / self.length if self.length else 0
        self.heard = words if share >= 1 else words[: int(len(words) * share)].rpartition(" ")[0]
        self.truncated, self.transcript, self.length = True, "", length
        if self.pcm is not None:
            del self.pcm[length:]


Part = TextPart | ImagePart | AudioPart


class Item(State, kw_only=True):
    """One item of a conversation: a message, a function call, or the result of a call (`output`)."""

    id: str
    kind: Kind = "message"
    status: Status = "completed"
    role: str = "user"
    parts: list[Part] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""

    def render(self, *, sound: bool = False) -> dict[str, Any]:
        """Return the item as JSON values; with `sound` including the audio that is kept."""
        shown: dict[str, Any] = {"id": self.id, "object": "realtime.item", "type": self.kind, "status": self.status}
        match self.kind:
            case "message":
                return {**shown, "role": self.role, "content": [part.render(sound) for part in self.parts]}
            case "function_call":
                return {**shown, "name": self.name, "call_id": self.call_id, "arguments": self.arguments}
            case _:
                return {**shown, "call_id": self.call_id, "output": self.output}

    @property
    def size(self) -> int:
        """Return the number of characters of the item, without audio."""
        own = len(self.name) + len(self.arguments) + len(self.output)
        return own + sum(part.size for part in self.parts)

    def iterate_audio_parts(self) -> Iterator[tuple[int, AudioPart]]:
        """Yield the audio parts, each with its index."""
        for index, part in enumerate(self.parts):
            if isinstance(part, AudioPart):
                yield index, part


class Conversation:
    """Items in order. An item that exceeds a limit is rejected; when audio exceeds its limit, the oldest audio is dropped."""

    def __init__(self, *, most_items: int, most_characters: int, most_sound: int) -> None:
        self._most_items = most_items
        self._most_characters = most_characters
        self._most_sound = most_sound
        self._items: list[Item] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def find(self, item_id: str) -> Item | None:
        return next((item for item in self._items if item.id == item_id), None)

    def get_previous_id(self, item: Item) -> str | None:
        """Return the id of the item before this one."""
        position = next((number for number, other in enumerate(self._items) if other is item), 0)
        return self._items[position - 1].id if position else None

    def get_last_id(self) -> str | None:
        return self._items[-1].id if self._items else None

    def check_room(self, size: int = 0) -> None:
        """Raise RequestError when there is no room for one more item of `size` characters."""
        if len(self._items) >= self._most_items or self._count_characters() + size > self._most_characters:
            raise RequestError(
                f"The conversation is full (limits: {self._most_items:,} items, {self._most_characters:,} characters). "
                "Delete items, or open a new session.",
                code="conversation_full",
            )

    def insert(self, item: Item, after: str | None = None) -> None:
        """Insert an item at the end, after the item `after`, or at the beginning for "root". Raises RequestError."""
        self.check_room(item.size)
        if self.find(item.id) is not None:
            raise InvalidField(
                "item.id",
                f"The conversation already has an item '{item.id}'. Use another id.",
                code="item_create_duplicate_id",
            )
        self._items.insert(self._find_position(after), item)
        self.forget_sound()

    def _find_position(self, after: str | None) -> int:
        if after is None:
            return len(self._items)
        if after == ROOT_ITEM_ID:
            return 0
        for position, item in enumerate(self._items, 1):
            if item.id == after:
                return position
        message = f"The conversation has no item '{after[:LONGEST_ID]}' to insert the new item after. Check 'previous_item_id'."
        raise InvalidField("previous_item_id", message, code="item_create_invalid_previous_item_id")

    def remove(self, item: Item) -> None:
        self._items = [other for other in self._items if other is not item]

    def forget_sound(self) -> None:
        """Drop the oldest audio until the limit is met, transcribed or not; the newest audio is never dropped."""
        sounds = [sound for item in self._items for _, sound in item.iterate_audio_parts() if sound.pcm is not None]
        excess = sum(sound.kept_bytes for sound in sounds) - self._most_sound
        for sound in sounds[:-1]:
            if excess <= 0:
                return
            excess -= sound.kept_bytes
            sound.pcm = None

    def _count_characters(self) -> int:
        return sum(item.size for item in self._items)


def parse_item(value: Mapping[str, Any], path: str, new_id: str) -> Item:
    """Parse a caller's item that `check_item` has checked; its audio stays in the session's format.

    Raises InvalidField, with a path below `path`, for values that only the vendor's own models support.
    """
    value = convert_item_to_current(value)
    kind = checks.choice_member(value, "type", path, KINDS)
    item = Item(id=_parse_id(value, path) or new_id)
    match kind:
        case "message":
            item.role = checks.choice_member(value, "role", path, ROLES)
            content = checks.need_array(checks.need_member(value, "content", path), f"{path}.content")
            for index, part in enumerate(content):
                item_path = f"{path}.content.{index}"
                item.parts.append(_parse_part(checks.need_object(part, item_path), item_path, item.role))
        case "function_call":
            item.kind = "function_call"
            item.name = checks.string_member(value, "name", path)
            item.arguments = checks.string_member(value, "arguments", path)
            item.call_id = checks.string_member(value, "call_id", path) if value.get("call_id") else item.id
        case _:
            item.kind = "function_call_output"
            item.call_id = checks.string_member(value, "call_id", path)
            item.output = checks.string_member(value, "output", path)
    return item


def _parse_id(value: Mapping[str, Any], path: str) -> str | None:
    checks.optional_string(value, "id", path)
    own: str | None = value.get("id")
    if own is not None and (not 0 < len(own) <= LONGEST_ID or own == ROOT_ITEM_ID):
        checks.raise_invalid(f"{path}.id", f"must have 1 to {LONGEST_ID} characters, and not be '{ROOT_ITEM_ID}'")
    return own


_KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio"),
    "system": ("input_text",),
}


def _parse_part(value: Mapping[str, Any], path: str, role: str) -> Part:
    kind = checks.choice_member(value, "type", path, _KINDS_OF[role])
    checks.optional_string(value, "transcript", path)
    match kind:
        case "input_text" | "output_text":
            return TextPart(checks.string_member(value, "text", path), output=kind == "output_text")
        case "input_image":
            checks.optional_string(value, "detail", path)
            url = checks.string_member(value, "image_url", path)
            parse_image_source(url, f"{path}.image_url")
            return ImagePart(url, value.get("detail"))
        case "output_audio":
            if value.get("audio") is not None:
                checks.raise_invalid(
                    f"{path}.audio", "is not supported in items of the role 'assistant'; send the transcript"
                )
            return AudioPart(None, transcript=value.get("transcript") or "", output=True, done=True)
    sound = bytearray(base64.b64decode(checks.string_member(value, "audio", path)))
    return AudioPart(sound, len(sound), transcript=value.get("transcript"), done=value.get("transcript") is not None)
