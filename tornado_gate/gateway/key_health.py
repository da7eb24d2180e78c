"""Which keys of provider entries are at rest: refused by the upstream, or limited until a time. No I/O; the time is a parameter.

A rest changes an order and refuses nothing: a key at rest is used when no other key and no other target is left. So a caller
whose requests make an upstream limit a key cannot take it from others.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import GateError, UpstreamKeyRefused, UpstreamRateLimited
from tornado_gate.types import Target

MAX_LIMITED_MODELS: Final = 200
"""The number of upstream models for which one key may be at rest: callers choose the names that match a wildcard."""
MAX_REST_SECONDS: Final = 3600.0


class KeyRests:
    """The rests of one key: of the key itself, and for single upstream models, for which vendors limit requests."""

    __slots__ = ("code", "models", "since", "until")

    def __init__(self) -> None:
        self.until = 0.0
        self.since = 0.0
        self.code = ""
        """Why the key rests: the error's code, and the upstream's status."""
        self.models: dict[str, float] = {}

    def get_end(self, upstream_model: str) -> float:
        """When the key may be used for a model, on the clock of `KeyHealth`."""
        return max(self.until, self.models.get(upstream_model, 0.0))

    def get_last_end(self) -> float:
        return max(self.until, *self.models.values()) if self.models else self.until

    def limit_model(self, upstream_model: str, until: float) -> None:
        self.models.pop(upstream_model, None)
        if len(self.models) >= MAX_LIMITED_MODELS:
            del self.models[next(iter(self.models))]
        self.models[upstream_model] = until


class KeyHealth:
    """The keys at rest, by provider entry and the key's fingerprint, which is "" for the only key of an entry."""

    def __init__(self) -> None:
        self.rests: dict[tuple[str, str], KeyRests] = {}
        """Empty while no key rests: whoever chooses a key looks here first."""

    def get_wait(self, target: Target, key: str, now: float) -> float:
        """Seconds until a key may be used for the target's model; 0 if it may be used now."""
        rests = self.rests.get((target.provider, key))
        return 0.0 if rests is None else max(0.0, rests.get_end(target.upstream_model) - now)

    def find(self, provider: str, key: str) -> KeyRests | None:
        return self.rests.get((provider, key))

    def note_failure(self, target: Target, error: GateError, now: float, rules: CircuitsConfig) -> float:
        """Let the key of `target` rest if `error` is about the key. Returns the seconds; 0 if it does not rest.

        The only key of an entry does not rest because it was refused: the circuit counts that, and finds sooner that it works.
        """
        if isinstance(error, UpstreamKeyRefused):
            seconds, of_model = (rules.refused_key_seconds if target.key else 0.0), error.upstream_status == 403
        elif isinstance(error, UpstreamRateLimited):
            wait = error.retry_after
            usual = rules.limited_key_seconds if target.key else 0.0
            seconds, of_model = (usual if wait is None else min(wait, MAX_REST_SECONDS)), True
        else:
            return 0.0
        if seconds <= 0:
            return 0.0
        self._forget_ended(now)
        rests = self.rests.setdefault((target.provider, target.key), KeyRests())
        if of_model:
            rests.limit_model(target.upstream_model, now + seconds)
        else:
            rests.until = now + seconds
        rests.since, rests.code = now, error.code
        return seconds

    def note_success(self, target: Target) -> None:
        """The key of `target` works for its model."""
        rests = self.rests.get((target.provider, target.key))
        if rests is not None:
            rests.until = 0.0
            rests.models.pop(target.upstream_model, None)
            if not rests.models:
                del self.rests[target.provider, target.key]

    def _forget_ended(self, now: float) -> None:
        for name in [name for name, rests in self.rests.items() if rests.get_last_end() <= now]:
            del self.rests[name]

    def forget(self, providers: Container[str]) -> None:
        """Forget the rests of provider entries, because their keys or addresses have changed."""
        self.rests = {name: rests for name, rests in self.rests.items() if name[0] not in providers}

    def keep(self, known: Iterable[tuple[str, str]]) -> None:
        """Forget keys that conf no longer has; `known` are (provider entry, fingerprint)."""
        remaining = set(known)
        self.rests = {name: rests for name, rests in self.rests.items() if name in remaining}
