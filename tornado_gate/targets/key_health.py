"""Which keys of provider entries are at rest: refused by the upstream, or limited until a time. No I/O; the time is a parameter.

A rest changes an order and refuses nothing: a key at rest is used when no other key and no other target is left. So a caller
whose requests make an upstream limit a key cannot take it from others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import GateError, UpstreamKeyRefused, UpstreamRateLimited
from tornado_gate.types import Target
from tornado_gate.types.value import Value

MAX_LIMITED_MODELS: Final = 200
"""The number of upstream models for which one key may be at rest: callers choose the names that match a wildcard."""
MAX_REST_SECONDS: Final = 3600.0


class KeyRest(Value, frozen=True):
    """One rest of a key: for an upstream model, or for all (""). `until` 0: the key works. `code` is that of the error."""

    provider: str
    key: str
    model: str
    until: float
    since: float
    code: str


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
        self.on_change: Callable[[KeyRest], None] = lambda _rest: None

    def get_wait(self, target: Target, key: str, now: float) -> float:
        """Seconds until a key may be used for the target's model; 0 if it may be used now."""
        rests = self.rests.get((target.provider, key))
        return 0.0 if rests is None else max(0.0, rests.get_end(target.place[1]) - now)

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
        model = target.place[1] if of_model else ""
        rest = KeyRest(target.provider, target.key, model, now + seconds, now, error.code)
        self._add(rest)
        self.on_change(rest)
        return seconds

    def _add(self, rest: KeyRest) -> None:
        rests = self.rests.setdefault((rest.provider, rest.key), KeyRests())
        if rest.model:
            rests.limit_model(rest.model, rest.until)
        else:
            rests.until = rest.until
        rests.since, rests.code = rest.since, rest.code

    def adopt(self, rest: KeyRest) -> None:
        """Another process has found that a key must rest, or that it works."""
        if rest.until:
            self._add(rest)
        else:
            self._remove(rest.provider, rest.key, rest.model)

    def note_success(self, target: Target) -> None:
        """The key of `target` works for its model."""
        rests = self.rests.get((target.provider, target.key))
        if rests is None:
            return
        ended = [""] if rests.until else []
        if target.place[1] in rests.models:
            ended.append(target.place[1])
        for model in ended:
            self._remove(target.provider, target.key, model)
            self.on_change(KeyRest(target.provider, target.key, model, 0.0, 0.0, ""))

    def _remove(self, provider: str, key: str, model: str) -> None:
        rests = self.rests.get((provider, key))
        if rests is None:
            return
        if model:
            rests.models.pop(model, None)
        else:
            rests.until = 0.0
        if not rests.models and not rests.until:
            del self.rests[provider, key]

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
