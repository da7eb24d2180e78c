"""Checks of the additional models in a request, such as a tool's model: the caller's key must allow each of them.

`Route.other_models` lists their places. The search runs only for keys that are limited to certain models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from tornado_gate.accounts.permissions import may_use_model
from tornado_gate.errors import NotAllowed
from tornado_gate.targets.routing import MAX_NAME_LENGTH
from tornado_gate.types import Caller

EACH: Final = "*"
MAX_CACHED_ROUTES: Final = 256
MAX_UNDERSCORES: Final = 8
"""The maximum number of underscores that the search ignores in a member's name."""

Places = dict[str, Any]
"""The places of one route as a tree, by member's name. An empty tree is the place of a model's name."""


def check_other_models(caller: Caller, paths: Sequence[str], body: Any) -> None:
    """Raise NotAllowed, with the place as its `param`, when the key does not allow a model that the body names."""
    if not caller.models:
        return
    for param, model in find_other_models(paths, body):
        if len(model) > MAX_NAME_LENGTH or not may_use_model(caller, model):
            message = f"This API key does not allow the model '{model[:100]}' that '{param}' names. Omit it, or use another key."
            raise NotAllowed(message, param=param, code="model_not_allowed")


def check_message(caller: Caller, paths: Sequence[str], message: str) -> None:
    """Run `check_other_models` for a message of a realtime session. Messages that are not JSON are rejected elsewhere."""
    try:
        body = orjson.loads(message)
    except orjson.JSONDecodeError:
        return
    check_other_models(caller, paths, body)


def find_other_models(paths: Sequence[str], body: Any) -> Iterator[tuple[str, str]]:
    """Yield the (path, name) of each model at one of the places. Ignore case in members' names, as some upstreams do."""
    return _find_names(body, _make_tree(tuple(paths)), "")


@lru_cache(MAX_CACHED_ROUTES)
def _make_tree(paths: tuple[str, ...]) -> Places:
    tree: Places = {}
    for path in paths:
        places = tree
        for name in path.split("."):
            places = places.setdefault(name, {})
    return tree


def _find_names(value: Any, places: Places, path: str) -> Iterator[tuple[str, str]]:
    """Walk a body once for all places together, because it may have many members."""
    if isinstance(value, str):
        if not places:
            yield path, value
    elif isinstance(value, list):
        below = places.get(EACH) if places else places
        if below is not None:
            for number, member in enumerate(value):
                yield from _find_names(member, below, f"{path}.{number}")
    elif places and isinstance(value, Mapping):
        longest = max(map(len, places)) + MAX_UNDERSCORES
        for name, member in value.items():
            below = places.get(name)
            if below is None and len(name) <= longest:
                below = places.get(name.casefold().replace("_", ""))
            if below is not None:
                yield from _find_names(member, below, f"{path}.{name}" if path else name)
