"""What a scenario is: one conversation of a caller with a model, and what of it must arrive at the upstream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Caller = Literal["chat", "responses", "messages", "generate"]
Place = str | Callable[[Mapping[str, Any]], bool] | None
"""Where something arrives: the path in the upstream's body, a condition on this body, or None if it cannot arrive."""

MARK: Final = re.compile(r"mark-[a-z]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Need:
    """A field of the caller that must arrive, or be named in ``x-gate-loss``. `name`: its path in the caller's body; `value`: as
    it must arrive, by default unchanged. `anthropic` and `gemini`: where.
    """

    name: str
    anthropic: Place = None
    gemini: Place = None
    value: Any = ...


@dataclass(frozen=True, slots=True)
class Turn:
    """The caller's next turn: results of all calls of the last answer, or a question. `plan` selects the next answer;
    `edits` are members of the body that change, as clients do that put the time into their system prompt.
    """

    plan: str = "plan-text"
    results: bool = True
    image: bool = False
    model: str = ""
    edits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A part of a request of one caller. `shows`: the caller asked to see thinking. `models`: only for these. `refused`: by
    vendor, the field that the gateway refuses with a 400, before it sends anything.
    """

    name: str
    body: Mapping[str, Any]
    needs: tuple[Need, ...] = ()
    shows: bool = False
    models: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    forgets: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One conversation. `forgets`: the client sends answers back without thinking and signatures, as most do."""

    feature: Feature
    caller: Caller
    model: str
    stream: bool

    @property
    def name(self) -> str:
        kind = "streamed" if self.stream else "whole"
        return f"{self.caller}/{self.feature.name}/{self.model}/{kind}"


def find(value: Any, path: str) -> Any:
    """The member at a dotted path, or None."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, Sequence) and not isinstance(value, str) and step.lstrip("-").isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value


def list_marks(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, mark) of each mark in the values of a body."""
    if isinstance(value, str):
        yield from ((path, mark) for mark in MARK.findall(value))
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from list_marks(member, f"{path}.{name}" if path else name)
    elif isinstance(value, Sequence):
        for number, item in enumerate(value):
            yield from list_marks(item, f"{path}.{number}")


def list_thinking(value: Any, path: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """(path, its texts and signatures) of each thought in a body of any caller; of the pieces of a stream only of the first."""
    if isinstance(value, Mapping):
        if value.get("type") in ("thinking", "redacted_thinking", "reasoning") or value.get("thought") is True:
            yield path, tuple(_list_texts(value))
        elif value.get("reasoning_content"):
            yield f"{path}.reasoning_content", (value["reasoning_content"],)
        else:
            for name, member in value.items():
                yield from list_thinking(member, f"{path}.{name}" if path else name)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, item in enumerate(value):
            before = value[number - 1] if number else None
            if not (isinstance(before, Mapping) and before.get("thought") is True and item.get("thought") is True):
                yield from list_thinking(item, f"{path}.{number}")


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            if name not in ("type", "status", "id"):
                yield from _list_texts(member)
    elif isinstance(value, str):
        yield from (value,) if value else ()
    elif isinstance(value, Sequence):
        for item in value:
            yield from _list_texts(item)
