"""Cache affinity: requests of one conversation go to the same target and key, where the upstream's prompt cache has their prompt.

The place of a conversation is computed, not stored (rendezvous hashing): every process and node finds the same one, and a target
that is added or removed moves only its own share. Only conversations that had to move, because their target failed, are
remembered, in this process, so that they do not go back to a cache that has forgotten them.

One conversation, or a prompt that many share, can have more requests than its target should get. So a target whose requests in
flight exceed its share by a factor comes last, which moves no conversation: its next requests go to their place again.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998); with weights: Schindelhauer and
Schomaker, "Weighted distributed hash tables" (2005); Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded
loads" (2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar

import orjson
from cachetools import FIFOCache

from tornado_gate.config.model import ATTRIBUTION_HEADERS
from tornado_gate.config.routing import SESSION_HEADERS
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.targets.routing import ModelTable
from tornado_gate.types import Call, Target, WireRequest
from tornado_gate.types.value import State

AGENT_HEADERS: Final = (*ATTRIBUTION_HEADERS["session"], "conversation_id", "conversation-id")
"""The headers with which coding agents name their session."""
MAX_SOURCE_LENGTH: Final = 1000
MAX_PREFIX_BYTES: Final = 256 * 1024
MAX_PREFIX_VALUES: Final = 5000
"""How much of a prompt's prefix is hashed, which the event loop does."""
MAX_MOVED: Final = 10_000
LEAST_FULL: Final = 8
"""A target with fewer requests in flight is never full: below that, their number says nothing."""

Place = tuple[str, str]
"""A provider entry and an upstream model."""


class Session(State):
    """The conversation of a request: its `digest`, `source` (what it was found by) and for how long it stays where it moved to.

    `home` is the first target of its order, when that is known. `full` are the targets that have too many requests now.
    """

    digest: bytes
    source: str
    ttl: float
    home: Place = ("", "")
    full: frozenset[Place] = frozenset()


def find_session(models: ModelTable, call: Call, wire: WireRequest) -> Session | None:
    """The conversation of a request; None if nothing in it tells, or if the model's entry has no affinity.

    What a client says of its session is joined with its account: no account can send others to a target.
    """
    found = models.find(call.model)
    affinity = found.entry.affinity if found is not None else None
    if affinity is None:
        return None
    for source in affinity.sources:
        value = _find_value(source, call.headers, wire.json)
        if value:
            return Session(_digest(call.caller.account, source, value), source, affinity.ttl)
    if affinity.otherwise == "none" or wire.route.prompt_prefix is None:
        return None
    prefix = wire.route.prompt_prefix(wire.json)
    if not prefix:
        return None
    return Session(_digest_prefix(call.model, prefix, len(wire.raw)), "prefix", affinity.ttl)


def _find_value(source: str, headers: Mapping[str, str], body: Any) -> str:
    if source == SESSION_HEADERS:
        found: Any = next((headers[name] for name in AGENT_HEADERS if name in headers), "")
    elif (header := headers.get(source.lower())) is not None:
        found = header
    else:
        found = body
        for name in source.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
    return found[:MAX_SOURCE_LENGTH] if isinstance(found, str) else ""


def _digest(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _digest_prefix(model: str, prefix: Iterable[Any], size: int) -> bytes:
    hashed = blake2b(model.encode("utf-8", "surrogatepass"), digest_size=16)
    if size <= MAX_PREFIX_BYTES:
        for piece in prefix:
            hashed.update(orjson.dumps(piece))
        return hashed.digest()
    left, values, waiting = MAX_PREFIX_BYTES, MAX_PREFIX_VALUES, list(prefix)[::-1]
    while waiting and left > 0 and values > 0:
        values -= 1
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [part for pair in list(value.items())[:values] for part in pair][::-1]
        elif isinstance(value, list):
            waiting += value[:values][::-1]
        else:
            data = str(value)[:left].encode("utf-8", "surrogatepass")
            hashed.update(data)
            left -= len(data)
    return hashed.digest()


class Offer(Protocol):
    @property
    def target(self) -> Target: ...
    @property
    def weight(self) -> float: ...


O = TypeVar("O", bound=Offer)  # noqa: E741


def order_offers(offers: Iterable[O], session: Session) -> list[O]:
    """The targets of a model, that of the conversation first, then the one it moves to when this one fails, and so on."""

    def rank(offer: O) -> float:
        target = offer.target
        return rank_name(session.digest, "\0".join(target.place), offer.weight)

    return sorted(offers, key=rank)


def put_full_last(ordered: list[O], session: Session, most_load: float, loads: TargetLoads) -> list[O]:
    """The targets with those last that have more than `most_load` times their share, by weight, of the requests in flight."""
    busy = [loads.find(offer.target).in_flight for offer in ordered]
    if max(busy) < LEAST_FULL:
        return ordered
    share = most_load * (sum(busy) + 1) / sum(offer.weight for offer in ordered)
    full = [
        offer.target.place
        for offer, count in zip(ordered, busy, strict=True)
        if count >= max(LEAST_FULL, math.ceil(share * offer.weight))
    ]
    if not full:
        return ordered
    session.full = frozenset(full)
    return sorted(ordered, key=lambda offer: offer.target.place in session.full)


def rank_name(digest: bytes, name: str, weight: float = 1.0) -> float:
    """The place of a target or key in the order of a conversation: each is first in proportion to its weight."""
    number = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), key=digest, digest_size=8).digest(), "big")
    return -math.log((number + 0.5) / 2**64) / weight


class MovedSessions:
    """Where conversations are that moved away from the first target of their order. Bounded; the time is a parameter."""

    def __init__(self) -> None:
        self._places: FIFOCache[bytes, tuple[Place, float]] = FIFOCache(MAX_MOVED)

    def __len__(self) -> int:
        return len(self._places)

    def find(self, session: Session, now: float) -> Place | None:
        found = self._places.get(session.digest)
        if found is None:
            return None
        if found[1] <= now:
            del self._places[session.digest]
            return None
        return found[0]

    def note(self, session: Session, place: Place, now: float, *, is_first: bool) -> None:
        """A conversation was served at `place`; `is_first`: at the first target of its order."""
        if not is_first:
            self._places[session.digest] = place, now + session.ttl
        elif self._places:
            self._places.pop(session.digest, None)
