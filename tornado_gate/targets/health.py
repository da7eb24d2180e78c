"""The health of all targets of a process: circuits, keys at rest, and where requests went before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.targets.affinity import MovedSessions
from tornado_gate.targets.circuits import Circuit, CircuitBreakers
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.key_health import KeyHealth
from tornado_gate.targets.shared_health import SharedHealth
from tornado_gate.telemetry.metrics import Metrics


class TargetHealth:
    """One for each process. `circuits` and `keys` are shared with other processes by `shared`.

    `key_turns` has which of several keys is used next, by provider entry. `key_warnings` has when the next warning about the key
    of a provider entry may be logged, by entry and the key's fingerprint. `moved_sessions` has where conversations moved to.
    `providers` are those of the current configuration.
    """

    def __init__(self, metrics: Metrics, folder: Path) -> None:
        self.metrics = metrics
        self.circuits = CircuitBreakers()
        self.circuits.on_forget = self._count_forgotten_circuit
        self.keys = KeyHealth()
        self.shared = SharedHealth(self.circuits, self.keys, metrics, folder / "shared")
        self.key_turns: dict[str, int] = {}
        self.key_warnings: dict[tuple[str, str], float] = {}
        self.moved_sessions = MovedSessions()
        self.providers: Mapping[str, ConfiguredProvider] = {}

    def apply(self, rules: CircuitsConfig, providers: Mapping[str, ConfiguredProvider]) -> None:
        """Adopt the rules and the provider entries of a configuration."""
        self.circuits.rules = rules
        self.keys.forget(_list_changed_providers(self.providers, providers))
        self.providers = providers
        known = {
            (name, key)
            for name, provider in providers.items()
            for key in ("", *(each.fingerprint for each in provider.keys))
        }
        self.keys.keep(known)
        self.key_warnings = {name: when for name, when in self.key_warnings.items() if name in known}
        self.key_turns = {name: turn for name, turn in self.key_turns.items() if name in providers}

    def _count_forgotten_circuit(self, circuit: Circuit) -> None:
        if circuit.blocked is not None:
            self.metrics.targets.count_circuit_transition(*circuit.labels, is_open=False)


def _list_changed_providers(old: Mapping[str, ConfiguredProvider], new: Mapping[str, ConfiguredProvider]) -> set[str]:
    """The provider entries with other keys, addresses, headers or timeouts than before."""
    return {name for name, provider in new.items() if name not in old or old[name].identity != provider.identity}
