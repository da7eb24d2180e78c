"""Detection of a caller's dialect from the handshake and from its first event. No I/O.

Clients get the beta dialect of the service's contract by default. The vendor's SDKs get the current dialect, unless they
request beta with the header ``OpenAI-Beta: realtime=v1`` or, in a browser, the subprotocol ``openai-beta.realtime-v1``. In a
browser the vendor's agents library is detected by the subprotocol ``openai-agents-sdk.<version>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tornado_gate.types import RealtimeDialect

BETA_PROTOCOL: Final = "openai-beta.realtime-v1"

_AGENTS_PROTOCOL: Final = "openai-agents-sdk."
_STAINLESS_PREFIX: Final = "x-stainless-"
_SDK_USER_AGENT: Final = re.compile(r"(?:^|[\s(])(?:(?:async)?(?:azure)?openai|agents)/", re.IGNORECASE)

_CURRENT_MEMBERS: Final = ("type", "audio", "output_modalities", "max_output_tokens")
_BETA_MEMBERS: Final = (
    "modalities",
    "input_audio_format",
    "output_audio_format",
    "input_audio_transcription",
    "input_audio_noise_reduction",
    "max_response_output_tokens",
    "turn_detection",
    "temperature",
    "voice",
    "speed",
)


def detect_dialect(headers: Mapping[str, str], query: Mapping[str, str], protocols: Iterable[str]) -> RealtimeDialect:
    """Return the dialect of a handshake. Names in `headers` are lower-case; `protocols` are the offered subprotocols.

    An ``api-version`` query parameter that ends with ``-preview`` (Azure) selects the beta dialect.
    """
    offered = [protocol.strip() for protocol in protocols]
    betas = [word.strip().lower() for word in headers.get("openai-beta", "").split(",")]
    if BETA_PROTOCOL in offered or "realtime=v1" in betas or query.get("api-version", "").endswith("-preview"):
        return "beta"
    if any(protocol.startswith(_AGENTS_PROTOCOL) for protocol in offered) or _is_sdk(headers):
        return "current"
    return "beta"


def detect_session_update_dialect(event: Mapping[str, Any]) -> RealtimeDialect | None:
    """Return the dialect of a ``session.update``; None if it is the same in both dialects, and for other events."""
    if event.get("type") == "transcription_session.update":
        return "beta"
    session = event.get("session")
    if event.get("type") != "session.update" or not isinstance(session, Mapping):
        return None
    if any(name in session for name in _CURRENT_MEMBERS):
        return "current"
    return "beta" if any(name in session for name in _BETA_MEMBERS) else None


def _is_sdk(headers: Mapping[str, str]) -> bool:
    return any(name.startswith(_STAINLESS_PREFIX) for name in headers) or bool(
        _SDK_USER_AGENT.search(headers.get("user-agent", ""))
    )
