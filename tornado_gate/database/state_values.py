"""Conversation state in the PostgreSQL database, which all nodes share: `state: {store: database}`.

It is a `StateStore`, as the file of one machine is. Nothing is cached, because another node may change or delete a value.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy.engine import Connection

from tornado_gate.config.model import StateConfig
from tornado_gate.database import state_rows as rows
from tornado_gate.database.calls import CALL_SECONDS
from tornado_gate.database.state_calls import StateCalls
from tornado_gate.storage.conversation_state import AccountMemory, encode_values
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.types import ValueGroup

log = logging.getLogger(__name__)

MAX_BYTES = StateConfig().max_bytes
WRITES_BETWEEN_PRUNES = 2000
BYTES_BETWEEN_PRUNES = 64 * 1024 * 1024


class DatabaseState:
    """The values of all nodes. One object per process.

    All values have `max_bytes`. Beyond it the largest account loses the values that expire soonest. `on_size` is called with
    the space of all values, which each process measures when it prunes.
    """

    def __init__(
        self, calls: StateCalls, max_bytes: int = MAX_BYTES, on_size: Callable[[int], None] = lambda _: None
    ) -> None:
        self._calls = calls
        self.max_bytes = max_bytes
        self._on_size = on_size
        self._writes = self._written_bytes = 0
        self._pruning: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Wait a limited time until pruning has ended, and close the connections."""
        if self._pruning is not None:
            await asyncio.wait([self._pruning], timeout=CALL_SECONDS)
        await self._calls.close()

    async def finish_pruning(self) -> None:
        """Wait until pruning that has begun has ended."""
        if self._pruning is not None:
            await self._pruning

    def get_account_memory(self, account: str) -> AccountMemory:
        return AccountMemory(self, account)

    async def get(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names. Raises MediaUnavailable."""
        encoded = [raw for raw in map(_encode_name, names) if len(raw) <= rows.LONGEST_NAME]
        if not encoded:
            return {}
        return await self._calls.read(_read_values, account, encoded)

    async def find(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names; none while the database is away."""
        try:
            return await self.get(account, names)
        except MediaUnavailable:
            return {}

    async def put(self, account: str, values: Mapping[str, Any], seconds: float) -> None:
        """Store values. A failure is logged and counted: it fails no request that has its response already."""
        raw = {_encode_name(name): value for name, value in encode_values(values).items()}
        raw = {name: value for name, value in raw.items() if len(name) <= rows.LONGEST_NAME}
        try:
            await self._calls.write(rows.write_values, account, raw, seconds)
        except MediaUnavailable:
            return
        self._note_write(raw)

    async def read_group(self, account: str, head: str) -> ValueGroup:
        return await self._calls.read(_read_group, account, _encode_name(head))

    async def extend_group(self, account: str, head: str, values: Mapping[str, Any], seconds: float, new: bool) -> bool:
        raw = {_encode_name(name): orjson.dumps(value) for name, value in values.items()}
        stored = await self._calls.write(rows.extend_group, account, _encode_name(head), raw, seconds, new)
        self._note_write(raw)
        return stored

    async def delete_group(self, account: str, head: str) -> bool:
        return await self._calls.write(rows.delete_group, account, _encode_name(head))

    async def delete(self, account: str, name: str) -> bool:
        return await self._calls.write(rows.delete_value, account, _encode_name(name))

    def _note_write(self, values: Mapping[bytes, bytes]) -> None:
        """Prune in the background, at the first write and then after many."""
        self._writes += 1
        self._written_bytes += sum(rows.count_bytes(name, value) for name, value in values.items())
        is_due = self._writes % WRITES_BETWEEN_PRUNES == 1 or self._written_bytes > BYTES_BETWEEN_PRUNES
        if is_due and (self._pruning is None or self._pruning.done()):
            self._written_bytes = 0
            self._pruning = asyncio.ensure_future(self._prune())

    async def _prune(self) -> None:
        try:
            size = await self._calls.write_slowly(rows.prune_values, self.max_bytes)
        except MediaUnavailable:
            log.warning("could not delete expired conversation state, will retry")
        else:
            if size is not None:
                self._on_size(size)


def _encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def _read_values(connection: Connection, account: str, names: list[bytes]) -> dict[str, Any]:
    """Return the values as `rows.read_values` does, parsed: a hundred turns of a conversation would hold the event loop."""
    raw = rows.read_values(connection, account, names)
    return {_decode_name(name): orjson.loads(value) for name, value in raw.items()}


def _read_group(connection: Connection, account: str, head: bytes) -> ValueGroup:
    raw, size = rows.read_group(connection, account, head)
    return ValueGroup({_decode_name(name): orjson.loads(value) for name, value in raw.items()}, size)
