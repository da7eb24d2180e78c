"""Prompt caching in the wire formats: markers of a prompt's reusable prefix, and other hints. Pure.

A marker is a member of a content part, a message or a tool, kept in its `extra` under the wire name: ``cache_control``
(Anthropic; also sent in chat requests to upstreams that serve Claude) or ``prompt_cache_breakpoint`` (OpenAI, from GPT-5.6 on).
A marker that is not sent is reported as dropped, like every other field.

Sources, read 2026-11-22: anthropic-python 2.11, types/cache_control_ephemeral_param.py; openai-python 3.54,
types/chat/chat_completion_content_part_text_param.py (``PromptCacheBreakpoint``); docs.litellm.ai/docs/completion/prompt_caching
and openrouter.ai/docs/features/prompt-caching (``cache_control`` in chat requests).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

CacheMarkers = Literal["none", "breakpoints", "cache_control"]
"""The markers that an upstream with OpenAI's formats accepts: none, ``prompt_cache_breakpoint``, or ``cache_control``."""

CACHE_CONTROL: Final = "cache_control"
BREAKPOINT: Final = "prompt_cache_breakpoint"
OPTIONS: Final = "prompt_cache_options"
_MARKERS: Final = frozenset((CACHE_CONTROL, BREAKPOINT))
_FUNCTION: Final = "function"
_LONG_LIFETIME: Final = "12h"
_TTLS: Final = ("5m", "1h")


def select_losses(extra: Mapping[str, Any], *, marked: bool = False) -> Iterable[str]:
    """The names of members in `extra` that have a value.

    If `marked`, the markers are sent or reported elsewhere; of them only the members are lost that no upstream knows.
    """
    if not extra:
        return ()
    names = [name for name, value in extra.items() if value is not None]
    return [loss for name in names for loss in _list_unsent(name, extra[name])] if marked else names


def _list_unsent(name: str, value: Any) -> Iterable[str]:
    """What is lost of a member beside a sent marker: the member itself, or parts of a marker."""
    if name == _FUNCTION and isinstance(value, Mapping) and _MARKERS.issuperset(value):  # of a chat tool
        return [f"{name}.{loss}" for member in value for loss in _list_unsent(member, value[member])]
    if name not in _MARKERS:
        return (name,)
    if name == BREAKPOINT or not isinstance(value, Mapping):
        return ()
    unknown = [member for member in value if member not in ("type", "ttl")]
    lifetime = ["ttl"] if value.get("ttl") not in (None, *_TTLS) else []
    return [f"{name}.{member}" for member in (*lifetime, *unknown)]


def find_marker(extra: Mapping[str, Any]) -> str:
    """The name of the marker in `extra`, or ""."""
    for name in (CACHE_CONTROL, BREAKPOINT):
        if extra.get(name) is not None:
            return name
    return ""


def render_cache_control(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``cache_control`` for the marker in `extra`; None unless its type is valid.

    The lifetimes are ``5m``, the default, and ``1h``. A breakpoint's ``30m`` is OpenAI's default and becomes this default,
    ``12h`` becomes ``1h``.
    """
    mark, point = extra.get(CACHE_CONTROL), extra.get(BREAKPOINT)
    if isinstance(mark, Mapping) and mark.get("type") == "ephemeral":
        ttl = mark.get("ttl")
        return {"type": "ephemeral", "ttl": ttl} if ttl in _TTLS else {"type": "ephemeral"}
    if isinstance(point, Mapping):
        return {"type": "ephemeral"} | ({"ttl": "1h"} if point.get("ttl") == _LONG_LIFETIME else {})
    return None


def add_marker(value: dict[str, Any], extra: Mapping[str, Any], markers: CacheMarkers) -> bool:
    """Add the marker in `extra`, if any, to a content part of an OpenAI format. Returns whether `value` has changed.

    A ``cache_control`` becomes a breakpoint without ``ttl``: its lifetimes are below OpenAI's default, or near it.
    """
    if markers == "breakpoints":
        point = extra.get(BREAKPOINT)
        if isinstance(point, Mapping):
            value[BREAKPOINT] = dict(point)
        elif render_cache_control(extra) is not None:
            value[BREAKPOINT] = {"mode": "explicit"}
        return BREAKPOINT in value
    if markers == "cache_control" and (control := render_cache_control(extra)) is not None:
        value[CACHE_CONTROL] = control
        return True
    return False


def mark_content(
    content: str | list[dict[str, Any]], extra: Mapping[str, Any], markers: CacheMarkers, text_type: str = "text"
) -> str | list[dict[str, Any]]:
    """`content` of an OpenAI format with the marker in `extra`, if any, on its last part; a string becomes a part."""
    if not content or markers == "none" or not find_marker(extra):
        return content
    parts = [{"type": text_type, "text": content}] if isinstance(content, str) else content
    return parts if add_marker(parts[-1], extra, markers) else content


def refuses_caching(extra: Mapping[str, Any]) -> bool:
    """Return whether the ``prompt_cache_options`` of a request allow only explicit breakpoints."""
    options = extra.get(OPTIONS)
    return isinstance(options, Mapping) and options.get("mode") == "explicit"
