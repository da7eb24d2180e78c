"""The leases of the tasks in the folder of a `FileTaskStore`, the slots of its providers, and the turns of its accounts.

The turns of a provider are the lines of ``slots/<provider>/turns``: the digests of accounts, the latest turn last. The file is
locked while a turn is taken, so the order is exact over all processes. After a crash of the machine it may be damaged or lost:
then some account has a turn too early. Blocks on the disk: call it in threads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.file_disk import Disk, Held
from tornado_gate.tasks.file_records import Records
from tornado_gate.tasks.file_sweep import find_marker_name, marker_name
from tornado_gate.tasks.store import ActiveTask, Turn, WaitingTasks

MAX_TURNS = 1000
"""The number of accounts whose turns are stored. An account with an older turn counts as an account without a turn."""

_PROVIDER = re.compile(r"[0-9A-Za-z]{8}", re.ASCII)
_TURN = re.compile(rb"([0-9a-f]{8})\n")


class Leases:
    """The right to run the tasks in `disk`."""

    def __init__(self, disk: Disk, records: Records) -> None:
        self._disk = disk
        self._records = records
        self._markers: dict[str, str] = {}  # task id to the name of its marker, as of the last look

    def note_active(self, active: Iterable[ActiveTask]) -> None:
        """Store the markers of these tasks, so that their leases can be acquired without reading their records first."""
        self._markers = {task.id: marker_name(task) for task in active}

    def acquire_lease(self, task_id: str) -> Held | None:
        held = None
        try:
            name = self._markers.get(task_id) or find_marker_name(self._records.read_blocking(task_id))
            held = self._disk.try_lock(self._disk.root / "active" / name, task_id=task_id)
            if held is not None:
                self._records.read_blocking(task_id)
        except NotFound:  # a process died while it created or deleted the task
            if held is not None:
                held.discard()
            return None
        except MediaUnavailable:
            if held is not None:
                held.unlock()
            return None
        except BaseException:
            if held is not None:
                held.unlock()
            raise
        return held

    def acquire_slot(self, provider: str, limit: int) -> Held | None:
        folder = self._slots(provider)
        slots = (self._disk.try_lock(folder / str(number), make=True) for number in range(limit))
        return next((held for held in slots if held is not None), None)

    def acquire_turn(self, provider: str, limit: int, waiting: WaitingTasks) -> Turn | None:
        slot = self.acquire_slot(provider, limit)
        if slot is None:
            return None
        turn = None
        try:
            turn = self._take_turn(provider, waiting, slot)
        finally:
            if turn is None:
                slot.unlock()
        return turn

    def _take_turn(self, provider: str, waiting: WaitingTasks, slot: Held) -> Turn | None:
        with self._disk.hold_lock(self._slots(provider) / "turns") as descriptor:
            served = [match[1].decode() for match in _TURN.finditer(os.pread(descriptor, 1 << 20, 0))]
            last_turns = {account: number for number, account in enumerate(served)}
            accounts = [account for account, tasks in waiting.items() if tasks]
            for account in sorted(accounts, key=lambda account: (last_turns.get(account, -1), waiting[account][0])):
                tasks = waiting[account]
                while tasks:
                    task = tasks.popleft()
                    lease = self.acquire_lease(task.id)
                    if lease is not None:
                        _write_turns(descriptor, [*(other for other in last_turns if other != account), account])
                        return Turn(task, lease, slot)
        return None

    def _slots(self, provider: str) -> Path:
        if not _PROVIDER.fullmatch(provider):
            raise ValueError(f"{provider!r} is not the digest of a provider")
        return self._disk.root / "slots" / provider


def _write_turns(descriptor: int, accounts: list[str]) -> None:
    data = "".join(f"{account}\n" for account in accounts[-MAX_TURNS:]).encode()
    os.pwrite(descriptor, data, 0)
    os.ftruncate(descriptor, len(data))
