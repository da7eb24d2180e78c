"""Scenarios as data: what a caller sends, what must arrive at the vendor, and what x-gate-loss names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qa.imitations.openai.turns import Follow

AUTO = ("auto",)
BOTH = ("chat", "responses")
ALL = ("auto", "chat", "responses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One request and what follows it, at each of `models` behind each of the entries `apis`, whole and streamed.

    `arrives` maps dotted paths of the upstream's body to values, at either API; `chat` and `responses` only at the one. A value
    of None means that the path is absent. `lost` is all names in x-gate-loss; `later` those of the following turns, if others.
    `mapped` are patterns of paths whose value arrives in another form, as documented. `shows` are words that the caller must
    see or not: see `run`. With `verbatim` the body must arrive unchanged; with `wrapped` the vendor's answer is an object around
    what the caller sees. `refused` is the start of the vendor's own error, for requests that pass unchanged. `stopped` is the
    field that the gateway refuses before it sends anything. `absent` are members that the vendor says are null, and that the
    caller must not see.
    """

    name: str
    format: str
    body: Mapping[str, Any]
    models: tuple[str, ...]
    apis: tuple[str, ...] = AUTO
    arrives: Mapping[str, Any] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)
    responses: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    lost: tuple[str, ...] = ()
    later: tuple[str, ...] | None = None
    mapped: tuple[str, ...] = ()
    then: tuple[Follow, ...] = ()
    thinking: bool | None = None
    refused: str = ""
    stopped: str = ""
    absent: tuple[str, ...] = ()
    verbatim: bool = False
    wrapped: bool = False
