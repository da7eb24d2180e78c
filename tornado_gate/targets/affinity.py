"""Cache affinity: requests of one conversation go to the same target and key, where the upstream's prompt cache has their prompt.

The target of a conversation is computed, not stored (rendezvous hashing): every process and node computes the same one. A target
that is added or removed moves only its own share of the conversations. If a target fails, its conversations move to another one.
This process stores these moves, so that a conversation does not return to a cache that no longer has its prompt.

One conversation, or a prompt that many share, can have more requests than its target should get. So a target whose requests in
flight exceed its share by a factor is tried last. That does not move the conversation: later requests use its target again.

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

from tornado_gate.config.attribution import ATTRIBUTION_HEADERS
from tornado_gate.config.routing import SESSION_HEADERS, Affinity
from tornado_gate.targets.loads import TargetLoads
from tornado_gate.targets.routing import ModelTable
from tornado_gate.types import Call, Route, Target, WireRequest
from tornado_gate.types.value import State

AGENT_HEADERS: Final = (*ATTRIBUTION_HEADERS["session"], "conversation_id", "conversation-id")
"""The headers with which coding agents name their session."""
MAX_SOURCE_LENGTH: Final = 1000
MAX_PREFIX_BYTES: Final = 256 * 1024
MAX_PREFIX_VALUES: Final = 5000
"""The number of values of a long prefix that are hashed. The event loop hashes them, so the work is limited."""
MAX_MOVED: Final = 10_000
LEAST_FULL: Final = 8
"""A target with fewer requests in flight is never full, because small numbers vary by chance."""

TargetName = tuple[str, str]
"""A provider entry and an upstream model."""


class Session(State):
    """The conversation of a request. `source` names the header or member that identifies it, or is "prefix".

    `ttl` is the time in seconds for which it stays at the target to which it has moved. `home` is the first target of its order,
    once that is known. `full` are the targets that have too many requests now.
    """

    digest: bytes
    source: str
    ttl: float
    home: TargetName = ("", "")
    full: frozenset[TargetName] = frozenset()


def find_session(models: ModelTable, call: Call, wire: WireRequest) -> Session | None:
    """Return the conversation of a request; None if nothing in it identifies one, or if the model's entry has no affinity.

    The client's name of a session is hashed together with the account, so no account can choose the target of others.
    """
    match = models.find_model(call.model)
    affinity = match.entry.affinity if match is not None else None
    if affinity is None:
        return None
    size = len(wire.raw)
    return identify_session(affinity, call.model, call.caller.account, call.headers, wire.route, wire.json, size)


def identify_session(
    affinity: Affinity,
    model: str,
    account: str,
    headers: Mapping[str, str],
    route: Route,
    body: Mapping[str, Any],
    body_bytes: int,
) -> Session | None:
    """Return the conversation of a request like `find_session`, for an entry with `affinity`."""
    for source in affinity.sources:
        value = _find_value(source, headers, body)
        if value:
            return Session(_digest(account, source, value), source, affinity.ttl)
    if affinity.otherwise == "none" or route.prompt_prefix is None:
        return None
    prefix = route.prompt_prefix(body)
    if not prefix:
        return None
    return Session(_digest_prefix(model, prefix, body_bytes), "prefix", affinity.ttl)


def _find_value(source: str, headers: Mapping[str, str], body: Any) -> str:
    if source == SESSION_HEADERS:
        value: Any = next((headers[name] for name in AGENT_HEADERS if name in headers), "")
    elif (header := headers.get(source.lower())) is not None:
        value = header
    else:
        value = body
        for name in source.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    return value[:MAX_SOURCE_LENGTH] if isinstance(value, str) else ""


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
    """Return the targets of a model in the order of a conversation: each is used when those before it fail."""

    def rank(offer: O) -> float:
        target = offer.target
        return rank_name(session.digest, "\0".join(target.place), offer.weight)

    return sorted(offers, key=rank)


def put_full_last(ordered: list[O], session: Session, most_load: float, loads: TargetLoads) -> list[O]:
    """Return the targets with the full ones last.

    A target is full if it has more than `most_load` times its share, by weight, of the requests in flight.
    """
    busy = [loads.find_load(offer.target).in_flight for offer in ordered]
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
    """Return the rank of a target or key in the order of a conversation. Each is first in proportion to its weight."""
    number = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), key=digest, digest_size=8).digest(), "big")
    return -math.log((number + 0.5) / 2**64) / weight


class MovedSessions:
    """The targets of conversations that moved away from the first target of their order. Limited; the time is a parameter."""

    def __init__(self) -> None:
        self._targets: FIFOCache[bytes, tuple[TargetName, float]] = FIFOCache(MAX_MOVED)

    def __len__(self) -> int:
        return len(self._targets)

    def find_target(self, session: Session, now: float) -> TargetName | None:
        """Return the target to which a conversation has moved; None if it has not."""
        move = self._targets.get(session.digest)
        if move is None:
            return None
        target, ends_at = move
        if ends_at <= now:
            del self._targets[session.digest]
            return None
        return target

    def record(self, session: Session, target: TargetName, now: float, *, is_first: bool) -> None:
        """Record that `target` served a conversation. `is_first`: it is the first target of its order."""
        if not is_first:
            self._targets[session.digest] = target, now + session.ttl
        elif self._targets:
            self._targets.pop(session.digest, None)
