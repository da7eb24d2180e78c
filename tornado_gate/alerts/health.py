"""Causes that a process sees in its own state. No I/O, except for the size of the spool."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from tornado_gate.alerts.values import Alert
from tornado_gate.errors import UpstreamKeyRefused
from tornado_gate.ledger.spool import FOLDER as SPOOL_FOLDER
from tornado_gate.targets.circuits import EVERYBODY, Circuit
from tornado_gate.targets.health import TargetHealth

REFUSED_SECONDS: Final = 600.0
"""The time for which one refusal of a key counts, unless the circuit is open."""
FULL_SHARE: Final = 0.8
"""The share of ledger.spool_bytes from which the spool counts as full."""
SHOWN_FAULTS: Final = 5


def find_open_circuits(health: TargetHealth) -> list[Alert]:
    """Return an alert for each provider entry and model of conf with an open circuit, and for each entry that is down."""
    alerts = {name: _describe_down(name) for name in health.circuits.down}
    for circuit in health.circuits.list_all().values():
        if circuit.blocked is not None and not _is_refused(circuit):
            alert = _describe_circuit(circuit)
            alerts[alert.cause] = alert
    return list(alerts.values())


def _describe_down(provider: str) -> Alert:
    return Alert(
        kind="circuit",
        cause=f"circuit:down:{provider}",
        severity="critical",
        title=f"The provider '{provider}' fails its health checks",
        message="Its targets get requests only if nothing else is left. See Providers in the console, and the status page of "
        "the vendor.",
        lasting=True,
    )


def _describe_circuit(circuit: Circuit) -> Alert:
    provider, model = circuit.labels
    code = circuit.last_failure[1] if circuit.last_failure else ""
    is_for_all = circuit.blocked == EVERYBODY
    concerned = "all accounts" if is_for_all else "one account, whose requests failed"
    return Alert(
        kind="circuit",
        cause=f"circuit:{provider}:{model}",
        severity="critical" if is_for_all else "warning",
        title=f"The circuit of '{model}' at the provider '{provider}' is open",
        message=f"Several requests have failed, the last one with {code or 'an error'}. The target is skipped for {concerned} "
        "until a request succeeds. See Models and Requests in the console.",
        lasting=True,
    )


def _is_refused(circuit: Circuit) -> bool:
    return circuit.last_failure is not None and circuit.last_failure[1] == UpstreamKeyRefused.code


def find_refused_keys(health: TargetHealth) -> list[Alert]:
    """Return an alert for each provider entry whose key, or one of whose keys, the upstream refuses."""
    now, refused = health.circuits.clock(), dict[str, str]()
    for circuit in health.circuits.list_all().values():
        if not circuit.is_failing or circuit.last_failure is None or not _is_refused(circuit):
            continue
        if circuit.blocked is not None or now - circuit.last_failure[0] < REFUSED_SECONDS:
            refused[circuit.labels[0]] = "The upstream refuses the key of this entry"
    for (provider, _), suspensions in health.keys.suspensions.items():
        if suspensions.code == UpstreamKeyRefused.code and suspensions.get_last_end() > now:
            refused.setdefault(provider, "The upstream refuses one of the keys of this entry")
    return [
        Alert(
            kind="provider_key",
            cause=f"provider_key:{name}",
            severity="critical",
            title=f"The key of the provider '{name}' is refused",
            message=f"{words} (status 401, 402 or 403). Check the key and the credit of the account at the vendor, then "
            "replace api_key of the entry.",
            lasting=True,
        )
        for name, words in refused.items()
    ]


def find_rejected_configuration(faults: tuple[str, ...]) -> list[Alert]:
    """Return an alert if a newer configuration is rejected, with its first faults."""
    if not faults:
        return []
    more = f"\n… and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
    shown = "\n".join(faults[:SHOWN_FAULTS])
    return [
        Alert(
            kind="configuration",
            cause=f"configuration:{socket.gethostname()}",
            severity="critical",
            title=f"A new configuration is rejected on {socket.gethostname()}",
            message=f"The old configuration stays in force. Faults:\n{shown}{more}",
            lasting=True,
        )
    ]


def find_full_spool(data_dir: Path, most_bytes: int) -> list[Alert]:
    """Return an alert if the spool of the ledger is nearly full on this machine. Reads the sizes of files."""
    used = _measure_folder(data_dir / SPOOL_FOLDER)
    if used < FULL_SHARE * most_bytes:
        return []
    return [
        Alert(
            kind="spool",
            cause=f"spool:{socket.gethostname()}",
            severity="critical",
            title=f"The spool of the usage ledger is nearly full on {socket.gethostname()}",
            message=f"It has {used} of {most_bytes} bytes (ledger.spool_bytes), because the database cannot be written. "
            "When it is full, rows of usage are lost. Check the database and the log.",
            lasting=True,
        )
    ]


def _measure_folder(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".rows"))
    except OSError:
        return 0
