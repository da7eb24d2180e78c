"""Find the texts of a response in any wire format whose bodies or frames are JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tornado_gate.types import PartDelta, PartStart, SpeechChunk, StreamEvent

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}")


def read_values(body: bytes) -> list[Any]:
    """Return the JSON values of a body: the frames of server-sent events or of lines, or the body itself."""
    try:
        return [json.loads(body)]
    except ValueError:
        return list(_read_frames(body))


def _read_frames(body: bytes) -> Iterator[Any]:
    for line in body.decode("utf-8", "replace").splitlines():
        text = line.removeprefix("data:").strip()
        if text.startswith(("{", "[")):
            try:
                yield json.loads(text)
            except ValueError:
                continue


def join_texts(body: bytes) -> list[str]:
    """Return the strings at each path of the values, joined over all values and all items of arrays.

    A path consists of names. Values with different ``type`` are separate. So the parts of a text that a stream sends in
    many frames become one string.
    """
    return ["".join(pieces) for pieces in _collect_pieces(body).values()]


def find_main_text(body: bytes) -> str:
    """Return the main text of a response: the text at the path with the most different strings; of several, the longest."""
    longest: list[str] = max(_collect_pieces(body).values(), key=_weigh_pieces, default=[])
    return "".join(longest)


def _weigh_pieces(pieces: list[str]) -> tuple[int, int]:
    return len(set(pieces)), sum(map(len, pieces))


def _collect_pieces(body: bytes) -> dict[tuple[str, ...], list[str]]:
    pieces: dict[tuple[str, ...], list[str]] = {}
    for value in read_values(body):
        kind = value.get("type") if isinstance(value, dict) else ""
        for path, text in _walk_value(value, (str(kind),)):
            pieces.setdefault(path, []).append(text)
    return pieces


def _walk_value(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _walk_value(member, (*path, name))
    elif isinstance(value, list):
        for item in value:
            yield from _walk_value(item, path)


def contains_text(body: bytes, text: str) -> bool:
    """Return whether a response has a text at one path, or within opaque base64, as in compacted conversations."""
    joined = join_texts(body)
    return any(text in candidate for candidate in joined) or any(
        text in decoded for candidate in joined for decoded in _decode_texts(candidate)
    )


def _decode_texts(text: str) -> Iterator[str]:
    """Yield the texts inside base64 in `text`: the strings of JSON values."""
    for token in _BASE64.findall(text):
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_" if {"-", "_"} & set(token) else None)
        except ValueError:
            continue
        yield from join_texts(raw) if raw[:1] in (b"{", b"[") else ()


def find_missing(events: Sequence[StreamEvent], body: bytes) -> list[str]:
    """Return the texts of `events` that the caller's response does not contain; [] if it is complete."""
    return [text for text in join_parts(events) if text and not contains_text(body, text)]


def join_parts(events: Sequence[StreamEvent]) -> list[str]:
    """Return the texts of the parts with words: one string for each part."""
    kinds: dict[int, str] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, PartStart):
            kinds[event.index] = event.kind
        elif isinstance(event, PartDelta) and isinstance(event.data, str) and kinds.get(event.index) == "text":
            texts[event.index] = texts.get(event.index, "") + event.data
    return list(texts.values())


def join_sound_bytes(events: Sequence[StreamEvent]) -> bytes:
    """Return the sound of all `SpeechChunk`s."""
    return b"".join(event.data for event in events if isinstance(event, SpeechChunk))


def has_error(body: bytes) -> bool:
    """Return whether the last frames of a stream contain an error of a format, and not only words about an error."""
    return any(
        isinstance(value, dict)
        and ("error" in value or value.get("type") in ("error", "response.failed") or value.get("status") == "failed")
        for value in _flatten_values(read_values(body))
    )


def _flatten_values(values: list[object]) -> list[object]:
    flat: list[object] = []
    for value in values:
        flat += value if isinstance(value, list) else [value]
    return flat
