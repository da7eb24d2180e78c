"""Shares open circuits and suspended keys between the processes of a machine, and lets one process probe.

Each process counts its own failures. The results, an opened or closed circuit and a suspended key, apply to every process within
INTERVAL_SECONDS. Only one request of the machine probes an open circuit.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from tornado_gate.targets.circuits import Circuit, CircuitBreakers, Name
from tornado_gate.targets.key_health import MAX_SUSPENSION_SECONDS, KeyHealth, KeySuspension
from tornado_gate.targets.shared_records import SharedRecords
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Target

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 0.25
CLOSED_SECONDS: Final = 60.0
"""The time for which other processes can read that a circuit has closed, or that a key works."""


class OpenCircuit(msgspec.Struct, frozen=True, tag="circuit"):
    """The state of a circuit in one process. `blocked` is None if it has closed."""

    name: Name
    labels: tuple[str, str]
    creator: str
    blocked: str | None
    until: float
    code: str


class SuspendedKey(msgspec.Struct, frozen=True, tag="key", rename={"suspension": "rest"}):
    """A key that is suspended until `suspension.until`, which is 0 if the key works."""

    suspension: KeySuspension


_DECODER: Final = msgspec.json.Decoder(OpenCircuit | SuspendedKey)


class SharedHealth:
    """Connects the circuits and keys of this process with the other processes. Call `start` inside the event loop."""

    def __init__(self, circuits: CircuitBreakers, keys: KeyHealth, metrics: Metrics, path: Path) -> None:
        self._circuits = circuits
        self._keys = keys
        self._metrics = metrics
        self._records = SharedRecords(path)
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        try:
            await asyncio.to_thread(self._records.open)
        except OSError as error:
            log.warning("open circuits and suspended keys are not shared between processes: %s", error)
            return
        self._circuits.probes = self
        self._keys.on_change = self._share_key
        self._read_again()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._circuits.probes = None
        self._records.close()

    def share_circuit(self, target: Target, circuit: Circuit) -> None:
        """Share a circuit that has opened, opened again or closed."""
        if circuit.blocked is not None:
            self.read()  # another process may have opened it for another account: then it is open for all
        now = self._circuits.clock()
        name = target.place
        code = circuit.last_failure[1] if circuit.last_failure else ""
        record = OpenCircuit(name, circuit.labels, circuit.creator, circuit.blocked, circuit.due_at, code)
        self._records.write(("circuit", *name), msgspec.json.encode(record), max(circuit.due_at, now) + CLOSED_SECONDS)

    def _share_key(self, suspension: KeySuspension) -> None:
        ends = max(suspension.until, self._circuits.clock() + CLOSED_SECONDS)
        name = "key", suspension.provider, suspension.key, suspension.model
        self._records.write(name, msgspec.json.encode(SuspendedKey(suspension)), ends)

    # The probe of a circuit

    def take_probe(self, name: Name, now: float, until: float) -> bool:
        return self._records.take_turn(("circuit", *name), now, until)

    def release_probe(self, name: Name) -> None:
        self._records.give_turn(("circuit", *name))

    # Changes of other processes

    def _read_again(self) -> None:
        if self._records.has_changes:
            self.read()
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._read_again)

    def read(self) -> None:
        """Adopt the changes of other processes."""
        self._records.flush()
        now = self._circuits.clock()
        for data in self._records.read_changes(now):
            try:
                record = _DECODER.decode(data)
            except msgspec.MsgspecError:  # its process was killed while it wrote
                continue
            if isinstance(record, OpenCircuit):
                self._adopt_circuit(record, now)
            else:
                until = min(record.suspension.until, now + MAX_SUSPENSION_SECONDS)
                self._keys.adopt(msgspec.structs.replace(record.suspension, until=until))

    def _adopt_circuit(self, record: OpenCircuit, now: float) -> None:
        circuits = self._circuits
        before = circuits.is_open(record.name)
        circuits.adopt(record.name, record.labels, record.creator, record.blocked, record.until, record.code, now)
        after = circuits.is_open(record.name)
        if after != before:
            self._metrics.targets.show_circuit_transition(*record.labels, is_open=after)
