"""Faults of targets that people should know, found in the state of a process. Alerts and the console's home page use them."""

from __future__ import annotations

from typing import Final

from tornado_gate.errors import UpstreamKeyRefused
from tornado_gate.targets.circuits import Circuit
from tornado_gate.targets.health import TargetHealth

REFUSED_SECONDS: Final = 600.0
"""The time for which one refusal of a key counts, unless the circuit is open."""


def find_open_circuits(health: TargetHealth) -> dict[tuple[str, str], Circuit]:
    """Return the open circuits by provider entry and upstream model, without those of refused keys."""
    circuits = health.circuits.list_all().items()
    return {name: circuit for name, circuit in circuits if circuit.blocked is not None and not _is_refused(circuit)}


def find_refused_keys(health: TargetHealth) -> dict[str, bool]:
    """Return the provider entries whose key the upstream refuses, and whether it is only one of several keys."""
    now, refused = health.circuits.clock(), dict[str, bool]()
    for circuit in health.circuits.list_all().values():
        if not circuit.is_failing or circuit.last_failure is None or not _is_refused(circuit):
            continue
        if circuit.blocked is not None or now - circuit.last_failure[0] < REFUSED_SECONDS:
            refused[circuit.labels[0]] = False
    for (provider, _), suspensions in health.keys.suspensions.items():
        if suspensions.code == UpstreamKeyRefused.code and suspensions.get_last_end() > now:
            refused.setdefault(provider, True)
    return refused


def _is_refused(circuit: Circuit) -> bool:
    return circuit.last_failure is not None and circuit.last_failure[1] == UpstreamKeyRefused.code
