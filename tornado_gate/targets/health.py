"""The health of all targets of a process: circuits, suspended keys, and conversations that have moved to another target."""

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
    """The health of targets. A process has one. `shared` shares `circuits` and `keys` with other processes.

    `key_turns` is the number of the key that is used next, by provider entry. `key_warnings` is the time from which the next
    warning about a key may be logged, by provider entry and fingerprint. `moved_sessions` are the conversations that have moved
    to another target. `providers` are the provider entries of the current configuration.
    """

    def __init__(self, metrics: Metrics, folder: Path) -> None:
        self.metrics = metrics
        self.circuits = CircuitBreakers()
        self.circuits.on_forget = self._count_removed_circuit
        self.keys = KeyHealth()
        self.shared = SharedHealth(self.circuits, self.keys, metrics, folder / "shared")
        self.key_turns: dict[str, int] = {}
        self.key_warnings: dict[tuple[str, str], float] = {}
        self.moved_sessions = MovedSessions()
        self.providers: Mapping[str, ConfiguredProvider] = {}

    def apply(self, rules: CircuitsConfig, providers: Mapping[str, ConfiguredProvider]) -> None:
        """Adopt the rules and the provider entries of a configuration."""
        self.circuits.rules = rules
        self.keys.remove_providers(_list_changed_providers(self.providers, providers))
        self.providers = providers
        known = {
            (name, fingerprint)
            for name, provider in providers.items()
            for fingerprint in ("", *(key.fingerprint for key in provider.keys))
        }
        self.keys.remove_others(known)
        self.key_warnings = {name: time for name, time in self.key_warnings.items() if name in known}
        self.key_turns = {name: turn for name, turn in self.key_turns.items() if name in providers}

    def _count_removed_circuit(self, circuit: Circuit) -> None:
        if circuit.blocked is not None:
            self.metrics.targets.count_circuit_transition(*circuit.labels, is_open=False)


def _list_changed_providers(old: Mapping[str, ConfiguredProvider], new: Mapping[str, ConfiguredProvider]) -> set[str]:
    """Return the provider entries whose keys, addresses, headers or timeouts have changed."""
    return {name for name, provider in new.items() if name not in old or old[name].identity != provider.identity}
