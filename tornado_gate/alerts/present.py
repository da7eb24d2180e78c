"""The present alerts, for the timer that sends them, for /admin/v1/alerts and for the console's home page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from tornado_gate.alerts import accounts, health
from tornado_gate.alerts.values import Alert
from tornado_gate.pipeline.gate import Gate

REFUSED_SECONDS: Final = 300.0
"""A budget counts as used up if it has refused a request within this time."""


async def list_present(gate: Gate, faults: Iterable[str], run: Callable[..., Awaitable[Any]]) -> list[Alert]:
    """Return all alerts of now, critical ones first. `run` runs a function that uses the database, and its errors pass."""
    alerts = find_process_alerts(gate, faults)
    alerts += await asyncio.to_thread(find_machine_alerts, gate)
    alerts += await run(find_account_alerts, gate, time.time() - REFUSED_SECONDS)
    return sorted({alert.cause: alert for alert in alerts}.values(), key=lambda alert: alert.severity)


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
