"""The part of a conversation that stays the same: its instructions, its tools and its first message of a user.

Upstreams cache the beginning of prompts, so requests with an equal prefix should reach one target (`Route.prompt_prefix`).
Bodies are not checked yet, so any member may have any JSON value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

MAX_LEADING_ITEMS: Final = 20
"""The number of messages among which the first one of a user is looked for."""


def make_prefix_reader(*names: str, conversation: str) -> Callable[[Any], Sequence[Any]]:
    """Return a function for `Route.prompt_prefix`: the members `names`, then the messages of `conversation` up to the first
    message of a user.
    """

    def read_prefix(body: Any) -> Sequence[Any]:
        if not isinstance(body, Mapping):
            return ()
        return [*(body[name] for name in names if name in body), *_take_leading_items(body.get(conversation))]

    return read_prefix


def _take_leading_items(items: Any) -> list[Any]:
    if not isinstance(items, list):
        return [] if items is None else [items]
    leading: list[Any] = []
    for item in items[:MAX_LEADING_ITEMS]:
        leading.append(item)
        if not isinstance(item, Mapping) or item.get("role", "user") == "user":
            break
    return leading
