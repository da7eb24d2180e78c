"""The present alerts, for the timer that sends them and for /admin/v1/alerts."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tornado_gate.alerts import accounts, health
from tornado_gate.alerts.values import Alert
from tornado_gate.pipeline.gate import Gate


def find_process_alerts(gate: Gate, faults: Iterable[str]) -> list[Alert]:
    """Return what this process sees itself. `faults` are those of a newer configuration that was rejected."""
    return [
        *health.find_open_circuits(gate.health),
        *health.find_refused_keys(gate.health),
        *health.find_rejected_configuration(tuple(faults)),
    ]


def find_machine_alerts(gate: Gate) -> list[Alert]:
    """Return what each machine has for itself. Reads the sizes of files."""
    return health.find_full_spool(gate.snapshot.config.server.data_dir, gate.ledger.rules.spool_bytes)


def find_account_alerts(gate: Gate, refused_since: float) -> list[Alert]:
    """Return what is in the database: budgets and keys. Synchronous; raises DatabaseError."""
    now, config = time.time(), gate.snapshot.config
    budgets = accounts.find_budgets(gate.database, config, gate.admission.list_bounds, now, refused_since)
    return budgets + accounts.find_expiring_keys(gate.database, now)
