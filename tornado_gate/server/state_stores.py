"""The stores of short-lived state that conf selects: conversation state and client secrets. Only their modules are imported."""

from __future__ import annotations

from typing import NamedTuple

from tornado_gate.config.model import Config
from tornado_gate.storage.client_secrets import ClientSecretFile, ClientSecretStore
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory, StateStore
from tornado_gate.telemetry.metrics import Metrics


class StateStores(NamedTuple):
    memory: StateStore
    secrets: ClientSecretStore


def make_state_stores(config: Config, metrics: Metrics) -> StateStores:
    """Return the stores of conf. The tables of the database exist: the accounts are in the same one, which is open."""
    data_dir = config.server.data_dir
    if config.state.store == "file":
        return StateStores(SharedMemory(MemoryStore(data_dir)), ClientSecretFile(data_dir))
    from tornado_gate.database.engine import Database
    from tornado_gate.database.state_calls import StateCalls
    from tornado_gate.database.state_secrets import DatabaseClientSecretStore
    from tornado_gate.database.state_values import DatabaseState

    series = metrics.add_state_metrics()
    calls = StateCalls(Database(data_dir, config.database), series.count_failure)
    return StateStores(DatabaseState(calls, config.state.max_bytes, series.set_bytes), DatabaseClientSecretStore(calls))
