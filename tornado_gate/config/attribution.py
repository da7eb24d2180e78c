"""The headers by which a request is attributed in the ledger: tags, end users, and what applications say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

TAG_HEADERS = ("x-gate-tags", "x-litellm-tags")
"""Headers with tags for the ledger, separated by commas."""
USER_HEADERS = (
    "x-gate-user",
    "x-litellm-customer-id",
    "x-litellm-end-user-id",
    "x-openwebui-user-id",
    "helicone-user-id",
)
"""Headers that name the caller's user, if the body does not."""
ATTRIBUTION_HEADERS: Mapping[str, tuple[str, ...]] = {
    "session": (
        *("x-session-id", "x-claude-code-session-id", "session_id", "session-id", "x-litellm-session-id"),
        *("x-opencode-session", "helicone-session-id"),
    ),
    "application": ("x-title", "x-openrouter-title", "originator", "x-app"),
    "site": ("http-referer",),
    "agent": ("user-agent",),
}
"""Headers in which applications and coding agents describe themselves, by the member of the ledger's `attribution`."""
