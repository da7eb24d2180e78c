"""Usage and finish reasons of responses that the verbatim lane forwards unchanged. No I/O.

Most frames contain neither, so frames are searched with a pattern and parsed only if it matches. Quotation marks inside JSON
strings are escaped, so text written by a model cannot match a member's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.streams import sse
from tornado_gate.types import IssuedObjects, Meter
from tornado_gate.wire.schemas import wrong_format_error
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.usage import parse_finish_reason, parse_usage

_METERED_FRAME: Final = re.compile(
    rb'"(?:usage|error)"\s*+:\s*+(?!null)|"finish_reason"\s*+:\s*+"|"object"\s*+:\s*+"error"'
)
_AUDIO_ID: Final = re.compile(rb'"audio"\s*+:\s*+\{[^{}]*?"id"\s*+:\s*+"([^"\\]++)"')
_DONE_FRAME: Final = re.compile(rb"(?:^|\n|\r)data: *+\[DONE\]")


class ChatStreamMeter:
    """The meter of one stream's raw frames. It notes usage and finish reason on `meter`.

    `finished` is True after a finish reason, `done` after the last frame: ``[DONE]`` or an error.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.finished = False
        self.done = False

    def note(self, raw: bytes) -> bool:
        """Note one frame. Returns True for the chunk with usage and no choice, which exists only with ``include_usage``."""
        if b"[DONE]" in raw and _DONE_FRAME.search(raw) is not None:
            self.done = True
            return False
        if _METERED_FRAME.search(raw) is None:
            return False
        body = sse.parse_json(raw)
        if not isinstance(body, dict):
            return False
        if find_error(body) is not None:
            self.done = True
            return False
        self._note_finish(body)
        return note_usage(self._meter, body) and body.get("choices") == []

    def _note_finish(self, body: Mapping[str, Any]) -> None:
        if reason := finish_of(body):
            self.finished = True
            self._meter.record_finish(reason)


class ImageStreamMeter(ChatStreamMeter):
    """Also notes the number of pictures in the deltas."""

    def note(self, raw: bytes) -> bool:
        if b'"images"' in raw and isinstance(body := sse.parse_json(raw), dict):
            self._meter.add_images(count_images(body, "delta"))
        return super().note(raw)


class AudioStreamMeter(ChatStreamMeter):
    """Also notes the ids of generated audio on `issued`."""

    def __init__(self, meter: Meter, issued: IssuedObjects) -> None:
        super().__init__(meter)
        self._issued = issued
        self._noted: set[bytes] = set()

    def note(self, raw: bytes) -> bool:
        note_audio(self._issued, raw, self._noted)
        return super().note(raw)


def note_audio(issued: IssuedObjects, raw: bytes, noted: set[bytes]) -> None:
    """Note the ids of generated audio in a body or a frame, unless they are in `noted`, and add them to it."""
    for match in _AUDIO_ID.finditer(raw):
        if match[1] not in noted:
            noted.add(match[1])
            issued.ids.append(("audio", match[1].decode()))
            issued.due = True


def note_body(meter: Meter, body: Any) -> None:
    """Note usage and finish reason of a whole response. Raises the error in the body, or UpstreamError for a wrong shape."""
    if type(body) is not dict:
        raise wrong_format_error()
    if ("error" in body or body.get("object") == "error") and (error := find_error(body)) is not None:
        raise error
    choices, reason, has_images = body.get("choices"), "", False
    if type(choices) is not list:
        raise wrong_format_error()
    for choice in choices:  # one loop, because most bodies have one choice
        if type(choice) is not dict:
            raise wrong_format_error()
        if type(raw := choice.get("finish_reason")) is str:
            reason = raw or reason
        if type(message := choice.get("message")) is dict and "images" in message:
            has_images = True
    note_usage(meter, body)
    if has_images:
        meter.add_images(count_images(body, "message"))
    if reason:
        meter.record_finish(parse_finish_reason(reason))


def count_images(body: Mapping[str, Any], member: str) -> int:
    """The number of pictures in the messages or deltas of a body (OpenRouter's extension ``images``)."""
    total = 0
    choices = body.get("choices")
    for choice in choices if type(choices) is list else ():
        message = choice.get(member) if type(choice) is dict else None
        images = message.get("images") if type(message) is dict else None
        total += len(images) if type(images) is list else 0
    return total


def note_usage(meter: Meter, body: Mapping[str, Any]) -> bool:
    """Note the usage of a body or chunk. Returns False if there is no usage."""
    usage = parse_usage(body.get("usage"))
    if usage is None:
        return False
    meter.record_usage(usage)
    if (tier := body.get("service_tier")) is not None:
        meter.record_tier(tier)
    return True


def finish_of(body: Mapping[str, Any]) -> str:
    """Return the common finish reason of the last choice that has one, or ""."""
    choices = body.get("choices")
    if type(choices) is list:
        for choice in reversed(choices):
            if type(choice) is dict and "finish_reason" in choice:
                raw = choice["finish_reason"]
                if type(raw) is str and raw:
                    return parse_finish_reason(raw)
    return ""
