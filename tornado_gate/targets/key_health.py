"""Suspended keys of provider entries: refused by the upstream, or limited until a time. No I/O; the time is a parameter.

A suspension changes only the order: a suspended key is used if no other key and no other target is left. So a caller whose
requests make an upstream limit a key cannot take the key from others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import GateError, UpstreamKeyRefused, UpstreamRateLimited
from tornado_gate.types import Target
from tornado_gate.types.value import Value

MAX_LIMITED_MODELS: Final = 200
"""The number of upstream models for which one key may be suspended: callers choose the names that match a wildcard."""
MAX_SUSPENSION_SECONDS: Final = 3600.0


class KeySuspension(Value, frozen=True):
    """One suspension of a key: for an upstream model, or for all (""). `until` is 0 if the key works. `code` is the error's."""

    provider: str
    key: str
    model: str
    until: float
    since: float
    code: str


class KeySuspensions:
    """The suspensions of one key: for all models, and for single upstream models, because vendors limit each model."""

    __slots__ = ("code", "models", "since", "until")

    def __init__(self) -> None:
        self.until = 0.0
        self.since = 0.0
        self.code = ""
        """The code of the error for which the key is suspended."""
        self.models: dict[str, float] = {}

    def get_end(self, upstream_model: str) -> float:
        """Return the time from which the key may be used for a model."""
        return max(self.until, self.models.get(upstream_model, 0.0))

    def get_last_end(self) -> float:
        return max(self.until, *self.models.values()) if self.models else self.until

    def limit_model(self, upstream_model: str, until: float) -> None:
        self.models.pop(upstream_model, None)
        if len(self.models) >= MAX_LIMITED_MODELS:
            del self.models[next(iter(self.models))]
        self.models[upstream_model] = until


class KeyHealth:
    """The suspended keys, by provider entry and the key's fingerprint, which is "" for the only key of an entry."""

    def __init__(self) -> None:
        self.suspensions: dict[tuple[str, str], KeySuspensions] = {}
        """Empty while no key is suspended, so callers check it before they compute waits."""
        self.on_change: Callable[[KeySuspension], None] = lambda _suspension: None

    def get_wait(self, target: Target, key: str, now: float) -> float:
        """Return the seconds until a key may be used for the target's model; 0 if it may be used now."""
        suspensions = self.suspensions.get((target.provider, key))
        return 0.0 if suspensions is None else max(0.0, suspensions.get_end(target.place[1]) - now)

    def get_suspensions(self, provider: str, key: str) -> KeySuspensions | None:
        return self.suspensions.get((provider, key))

    def note_failure(self, target: Target, error: GateError, now: float, rules: CircuitsConfig) -> float:
        """Suspend the key of `target` if `error` is about the key. Return the seconds; 0 if it is not suspended.

        The only key of an entry is not suspended if the upstream refused it: its circuit opens, and its probe finds sooner that
        the key works.
        """
        if isinstance(error, UpstreamKeyRefused):
            seconds = rules.refused_key_seconds if target.key else 0.0
            is_for_model = error.upstream_status == 403
        elif isinstance(error, UpstreamRateLimited):
            retry_after = error.retry_after
            default = rules.limited_key_seconds if target.key else 0.0
            seconds = default if retry_after is None else min(retry_after, MAX_SUSPENSION_SECONDS)
            is_for_model = True
        else:
            return 0.0
        if seconds <= 0:
            return 0.0
        self._remove_ended(now)
        model = target.place[1] if is_for_model else ""
        suspension = KeySuspension(target.provider, target.key, model, now + seconds, now, error.code)
        self._add(suspension)
        self.on_change(suspension)
        return seconds

    def _add(self, suspension: KeySuspension) -> None:
        suspensions = self.suspensions.setdefault((suspension.provider, suspension.key), KeySuspensions())
        if suspension.model:
            suspensions.limit_model(suspension.model, suspension.until)
        else:
            suspensions.until = suspension.until
        suspensions.since, suspensions.code = suspension.since, suspension.code

    def adopt(self, suspension: KeySuspension) -> None:
        """Suspend a key, or end its suspension (`until` 0), as another process has done."""
        if suspension.until:
            self._add(suspension)
        else:
            self._remove(suspension.provider, suspension.key, suspension.model)

    def note_success(self, target: Target) -> None:
        """End the suspensions of the key of `target`, because it works for the target's model."""
        suspensions = self.suspensions.get((target.provider, target.key))
        if suspensions is None:
            return
        ended = [""] if suspensions.until else []
        if target.place[1] in suspensions.models:
            ended.append(target.place[1])
        for model in ended:
            self._remove(target.provider, target.key, model)
            self.on_change(KeySuspension(target.provider, target.key, model, 0.0, 0.0, ""))

    def _remove(self, provider: str, key: str, model: str) -> None:
        suspensions = self.suspensions.get((provider, key))
        if suspensions is None:
            return
        if model:
            suspensions.models.pop(model, None)
        else:
            suspensions.until = 0.0
        if not suspensions.models and not suspensions.until:
            del self.suspensions[provider, key]

    def _remove_ended(self, now: float) -> None:
        for name in [name for name, key in self.suspensions.items() if key.get_last_end() <= now]:
            del self.suspensions[name]

    def remove_providers(self, providers: Container[str]) -> None:
        """Remove the suspensions of provider entries, because their keys or addresses have changed."""
        self.suspensions = {name: key for name, key in self.suspensions.items() if name[0] not in providers}

    def remove_others(self, known: Iterable[tuple[str, str]]) -> None:
        """Remove the suspensions of keys that conf no longer has. `known` are (provider entry, fingerprint)."""
        remaining = set(known)
        self.suspensions = {name: key for name, key in self.suspensions.items() if name in remaining}
