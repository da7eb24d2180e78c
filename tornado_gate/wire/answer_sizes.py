"""The members of each wire format that limit the length of a response, and the marks of bodies with signatures.

Names of members for `Route.answer_limits`, `Route.answer_counts` and `Route.signature_marks`.
"""

from __future__ import annotations

from typing import Any, Final

_SIGNATURES: Final = {"signature_marks": (b"ignature", b"encrypted_content")}
CHAT: Final[dict[str, Any]] = {
    "answer_limits": ("max_tokens", "max_completion_tokens"),
    "answer_counts": ("n", "best_of"),
    **_SIGNATURES,
}
COMPLETIONS: Final[dict[str, Any]] = {"answer_limits": ("max_tokens",), "answer_counts": ("n", "best_of")}
RESPONSES: Final[dict[str, Any]] = {"answer_limits": ("max_output_tokens",), **_SIGNATURES}
MESSAGES: Final[dict[str, Any]] = {"answer_limits": ("max_tokens",), **_SIGNATURES}
_CONFIGS: Final = ("generationConfig", "generation_config")
GENERATE: Final[dict[str, Any]] = {
    "answer_limits": tuple(
        f"{config}.{name}" for config in _CONFIGS for name in ("maxOutputTokens", "max_output_tokens")
    ),
    "answer_counts": tuple(f"{config}.{name}" for config in _CONFIGS for name in ("candidateCount", "candidate_count")),
    **_SIGNATURES,
}
