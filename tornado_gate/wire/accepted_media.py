"""Files in a request, fitted to the media types that a model accepts. Pure.

A vendor's types are the fact `media_types` of its models. A file of a type that is not accepted is an error if the model
accepts other types of its kind: the caller can convert it, and the gateway has no library for this. If the model accepts no
file of a kind, such as sound, the provider leaves the file out and reports it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from tornado_gate.codec.media_types import normalize_media_type, sniff
from tornado_gate.codec.text_files import is_text_type
from tornado_gate.errors import InvalidField
from tornado_gate.types import Audio, Call, Data, File, Image
from tornado_gate.types.media_type import media_type as without_parameters
from tornado_gate.types.value import replace

_HEAD_CHARACTERS: Final = 128
"""Base64 characters that are decoded to find the real type: 96 bytes."""
_PLAIN_TEXT: Final = "text/plain"

Medium = TypeVar("Medium", bound=Image | Audio | File)


def fit_medium(call: Call, part: Medium, accepted: tuple[str, ...] | None, path: Callable[[], str]) -> Medium | None:
    """`part` with a media type that is in `accepted`, which has patterns; None if no type of its kind is accepted.

    With `accepted` None, everything is. Raises InvalidField at `path` if only other types of its kind are accepted.
    """
    source = part.source
    if accepted is None or not isinstance(source, Data) or not source.media_type:
        return part
    declared, real = without_parameters(source.media_type), find_media_type(source)
    names = (declared, real) if normalize_media_type(declared) == real else (real,)
    kinds = [pattern for pattern in accepted if not isinstance(part, Image) or pattern.startswith("image/")]
    media_type = next((name for name in names if _matches(name, kinds)), None)
    if media_type is None and isinstance(part, File) and is_text_type(declared) and _matches(_PLAIN_TEXT, kinds):
        media_type = _PLAIN_TEXT
    if media_type is not None:
        return part if media_type == declared else replace(part, source=replace(source, media_type=media_type))
    same = [pattern for pattern in kinds if isinstance(part, Image) or _get_kind(pattern) == _get_kind(real)]
    if not same:
        return None
    param = path()
    raise InvalidField(
        param,
        f"'{param}' is a file of the type '{real[:100]}', which the model '{call.model}' does not accept. Convert it to one of "
        f"these types: {', '.join(same)}.",
    )


def find_media_type(source: Data) -> str:
    """The media type of pictures and PDF files by their first bytes, else the declared one in its usual spelling."""
    declared = normalize_media_type(source.media_type)
    if declared.startswith("text/"):
        return declared
    try:
        seen = sniff(base64.b64decode(source.base64[:_HEAD_CHARACTERS]))
    except (binascii.Error, ValueError):
        return declared
    return seen if seen.startswith("image/") or seen == "application/pdf" else declared


def _matches(media_type: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(media_type, pattern) for pattern in patterns)


def _get_kind(media_type: str) -> str:
    """image, audio, video or document."""
    kind = media_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"
