"""Causes that a process sees in its own state. No I/O, except for the size of the spool."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from tornado_gate.alerts.values import Alert, Words
from tornado_gate.ledger.spool import FULL_SHARE, measure_spool
from tornado_gate.targets import causes
from tornado_gate.targets.circuits import EVERYBODY, Circuit
from tornado_gate.targets.health import TargetHealth

SHOWN_FAULTS: Final = 5


def find_open_circuits(health: TargetHealth) -> list[Alert]:
    """Return an alert for each provider entry and model of conf with an open circuit, and for each entry that is down."""
    alerts = {name: _describe_down(name) for name in health.circuits.down}
    for circuit in causes.find_open_circuits(health).values():
        alert = _describe_circuit(circuit)
        alerts[alert.cause] = alert
    return list(alerts.values())


def _describe_down(provider: str) -> Alert:
    return Alert(
        kind="circuit",
        cause=f"circuit:down:{provider}",
        severity="critical",
        heading=Words("The provider '{provider}' fails its health checks", {"provider": provider}),
        explanation=Words(
            "Its targets get requests only if nothing else is left. See Providers in the console, and the status page of "
            "the vendor."
        ),
        subject=("provider", provider),
        lasting=True,
    )


def _describe_circuit(circuit: Circuit) -> Alert:
    provider, model = circuit.labels
    code = circuit.last_failure[1] if circuit.last_failure else ""
    is_for_all = circuit.blocked == EVERYBODY
    return Alert(
        kind="circuit",
        cause=f"circuit:{provider}:{model}",
        severity="critical" if is_for_all else "warning",
        heading=Words(
            "The circuit of '{model}' at the provider '{provider}' is open", {"model": model, "provider": provider}
        ),
        explanation=Words(
            "Several requests have failed, the last one with {code}. The target is skipped for all accounts until a request "
            "succeeds. See Models and Requests in the console."
            if is_for_all
            else "Several requests have failed, the last one with {code}. The target is skipped for one account, whose "
            "requests failed, until a request succeeds. See Models and Requests in the console.",
            {"code": code or "an error"},
        ),
        subject=("provider", provider),
        lasting=True,
    )


def find_refused_keys(health: TargetHealth) -> list[Alert]:
    """Return an alert for each provider entry whose key, or one of whose keys, the upstream refuses."""
    return [
        Alert(
            kind="provider_key",
            cause=f"provider_key:{name}",
            severity="critical",
            heading=Words("The key of the provider '{provider}' is refused", {"provider": name}),
            explanation=Words(
                "The upstream refuses one of the keys of this entry (status 401, 402 or 403). Check the key and the credit of "
                "the account at the vendor, then replace api_key of the entry."
                if is_one_of_several
                else "The upstream refuses the key of this entry (status 401, 402 or 403). Check the key and the credit of "
                "the account at the vendor, then replace api_key of the entry."
            ),
            subject=("provider", name),
            lasting=True,
        )
        for name, is_one_of_several in causes.find_refused_keys(health).items()
    ]


def find_rejected_configuration(faults: tuple[str, ...]) -> list[Alert]:
    """Return an alert if a newer configuration is rejected, with its first faults."""
    if not faults:
        return []
    more = f"\n… and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
    shown, host = "\n".join(faults[:SHOWN_FAULTS]), socket.gethostname()
    return [
        Alert(
            kind="configuration",
            cause=f"configuration:{host}",
            severity="critical",
            heading=Words("A new configuration is rejected on {host}", {"host": host}),
            explanation=Words("The old configuration stays in force. Faults:\n{faults}", {"faults": f"{shown}{more}"}),
            lasting=True,
        )
    ]


def find_full_spool(data_dir: Path, most_bytes: int) -> list[Alert]:
    """Return an alert if the spool of the ledger is nearly full on this machine. Reads the sizes of files."""
    used = measure_spool(data_dir)
    if used < FULL_SHARE * most_bytes:
        return []
    host = socket.gethostname()
    return [
        Alert(
            kind="spool",
            cause=f"spool:{host}",
            severity="critical",
            heading=Words("The spool of the usage ledger is nearly full on {host}", {"host": host}),
            explanation=Words(
                "It has {used} of {limit} bytes (ledger.spool_bytes), because the database cannot be written. When it is "
                "full, rows of usage are lost. Check the database and the log.",
                {"used": str(used), "limit": str(most_bytes)},
            ),
            lasting=True,
        )
    ]
