"""The turns of ``contents``: what a client kept of a stream is one turn again. Pure.

The vendor's SDKs store a streamed response as one content for each chunk, each with a piece of a text or of a thought; only the
last piece of a thought has the signature. Other vendors accept a thought only as it was, with its signature. A text with a
signature stays as it is: the vendor forbids to join it with others.

Source: google-genai 3.4, chats.py (send_message_stream and record_history).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tornado_gate_gemini.wire.generate.json_values import read_objects, select_unknown

_CONTENT_MEMBERS: Final = ("parts", "role")
_PIECE_MEMBERS: Final = frozenset(("text", "thought"))
_SIGNATURE: Final = "thoughtSignature"


class PlacedPart(NamedTuple):
    """A part, and its path below ``contents``: the numbers of its content and of its first piece there."""

    content: int
    part: int
    value: Mapping[str, Any]


class ContentTurn(NamedTuple):
    """Adjacent contents of the model, or one content of the user.

    `place` is the number of its first content, `extra` has the unknown members of its contents.
    """

    is_models: bool
    place: int
    parts: Sequence[PlacedPart]
    extra: Mapping[str, Any]


def group_contents(contents: Any) -> list[ContentTurn]:
    """The turns of a validated ``contents``: an array of contents, or a single one."""
    turns: list[ContentTurn] = []
    for index, content in enumerate([contents] if isinstance(contents, dict) else read_objects(contents)):
        parts = [PlacedPart(index, number, value) for number, value in enumerate(_get_parts(content))]
        is_models = _is_models(content, parts)
        extra = select_unknown_members(content)
        if not is_models:
            turns.append(ContentTurn(is_models, index, parts, extra))
        elif turns and turns[-1].is_models:
            last = turns[-1]
            turns[-1] = ContentTurn(is_models, last.place, _join_pieces([*last.parts, *parts]), {**last.extra, **extra})
        else:
            turns.append(ContentTurn(is_models, index, _join_pieces(parts), extra))
    return turns


def select_unknown_members(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members of a content that this format does not know."""
    return select_unknown(content, *_CONTENT_MEMBERS)


def _get_parts(content: Mapping[str, Any]) -> list[Any]:
    parts = content.get("parts")
    return [parts] if isinstance(parts, dict) else read_objects(parts)


def _is_models(content: Mapping[str, Any], parts: Sequence[PlacedPart]) -> bool:
    role = content.get("role")
    return role == "model" or (not role and any("functionCall" in part.value for part in parts))


def _join_pieces(parts: Sequence[PlacedPart]) -> Sequence[PlacedPart]:
    """`parts` with adjacent pieces of one text, or of one thought, joined. A signature ends a thought."""
    joined: list[PlacedPart] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and _is_continued(last.value, part.value):
            joined[-1] = last._replace(value={**part.value, "text": last.value["text"] + part.value["text"]})
        else:
            joined.append(part)
    return joined


def _is_continued(piece: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
    thought = bool(piece.get("thought"))
    return (
        piece.keys() <= _PIECE_MEMBERS
        and following.keys() <= (_PIECE_MEMBERS | {_SIGNATURE} if thought else _PIECE_MEMBERS)
        and isinstance(piece.get("text"), str)
        and isinstance(following.get("text"), str)
        and thought == bool(following.get("thought"))
    )
