"""The control of one process over nodes: it receives notices of changes, and announces itself.

Without PostgreSQL nothing of it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tornado_gate import __version__
from tornado_gate.config.stored import get_number
from tornado_gate.database.notifications import CONFIGURATION, EVERYTHING, KEYS, Listener
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.control.announcer import Announcer
from tornado_gate.server.process.configuration_state import ConfigurationState


class Control:
    """The control of one process of the node `node`. `on_configuration` is called when a version may be new."""

    def __init__(self, gate: Gate, configuration: ConfigurationState, node: str) -> None:
        self.node = node
        self.on_configuration: Callable[[], None] = lambda: None
        self._gate = gate
        self._configuration = configuration
        self._listener = Listener(gate.database, self._read_again)
        self._announcer = Announcer(gate, configuration, node)
        gate.readiness.notes.append(self.describe)

    def start(self) -> None:
        self._listener.start()
        self._announcer.start()

    async def close(self) -> None:
        await self._listener.close()
        await self._announcer.close()

    def describe(self) -> dict[str, Any]:
        """Return what /readyz says about the node. Faults are left out, because it needs no key."""
        number, refused = get_number(self._gate.snapshot.config.path), self._configuration.refused_version
        return {
            "node": self.node,
            "version": __version__,
            **({} if number is None else {"conf_version": number}),
            **({} if refused is None else {"refused_conf_version": refused}),
        }

    def _read_again(self, subject: str) -> None:
        if subject in (KEYS, EVERYTHING):
            self._gate.keys.request_check()
        if subject in (CONFIGURATION, EVERYTHING):
            self.on_configuration()
