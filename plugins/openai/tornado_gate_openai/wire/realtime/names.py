"""Event names that differ between the dialects, and ids in the vendor's format. No I/O.

Source: openai-python 3.52, types/realtime (the current dialect) and types/beta/realtime (the beta one).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from tornado_gate_openai.wire import formats

WIRE_FORMAT: Final = formats.OPENAI_REALTIME

CURRENT_NAMES: Final[Mapping[str, str]] = {
    "response.audio.delta": "response.output_audio.delta",
    "response.audio.done": "response.output_audio.done",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
    "response.audio_transcript.done": "response.output_audio_transcript.done",
    "response.text.delta": "response.output_text.delta",
    "response.text.done": "response.output_text.done",
}
"""Server events that differ between the dialects only in their name: beta name to current name."""

BETA_NAMES: Final[Mapping[str, str]] = {current: beta for beta, current in CURRENT_NAMES.items()}

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_CHARACTER_OF_BYTE: Final = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_ID_LENGTH: Final = 21


def make_id(prefix: str) -> str:
    """Return an id in the vendor's format: `prefix` (event, item, resp, sess, conv), ``_`` and 21 letters and digits."""
    return f"{prefix}_{secrets.token_bytes(_ID_LENGTH).translate(_CHARACTER_OF_BYTE).decode()}"
