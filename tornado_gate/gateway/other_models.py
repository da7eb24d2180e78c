"""Checks the models that a request names beside its own, such as that of a tool: the caller's key must allow each of them.

`Route.other_models` says where they are. Only keys that are limited to certain models pay for the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from tornado_gate.errors import NotAllowed
from tornado_gate.gateway.auth import may_use_model
from tornado_gate.types import Caller

EACH: Final = "*"
MAX_CACHED_PATHS: Final = 256


def check_other_models(caller: Caller, paths: Sequence[str], body: Any) -> None:
    """Raises NotAllowed, with the place as its `param`, when the key does not allow a model that the body names."""
    if not caller.models:
        return
    for param, model in find_other_models(paths, body):
        if not may_use_model(caller, model):
            message = f"This API key does not allow the model '{model[:100]}' that '{param}' names. Omit it, or use another key."
            raise NotAllowed(message, param=param, code="model_not_allowed")


def check_message(caller: Caller, paths: Sequence[str], message: str) -> None:
    """As `check_other_models`, for a message of a realtime session. A message that is no JSON is refused elsewhere."""
    try:
        body = orjson.loads(message)
    except orjson.JSONDecodeError:
        return
    check_other_models(caller, paths, body)


def find_other_models(paths: Iterable[str], body: Any) -> Iterator[tuple[str, str]]:
    """The (path, name) of each model that a body names at one of the places. Some upstreams ignore case in members' names."""
    for path in paths:
        yield from _find_names(body, _split_path(path), "")


@lru_cache(MAX_CACHED_PATHS)
def _split_path(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _find_names(value: Any, segments: tuple[str, ...], place: str) -> Iterator[tuple[str, str]]:
    if not segments:
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, list):
            yield from ((f"{place}.{number}", name) for number, name in enumerate(value) if isinstance(name, str))
        return
    first, rest = segments[0], segments[1:]
    if isinstance(value, Mapping):
        for name, member in value.items():
            if name == first or name.casefold().replace("_", "") == first:
                yield from _find_names(member, rest, f"{place}.{name}" if place else name)
    elif first == EACH and isinstance(value, list):
        for number, member in enumerate(value):
            if isinstance(member, Mapping):
                yield from _find_names(member, rest, f"{place}.{number}")
