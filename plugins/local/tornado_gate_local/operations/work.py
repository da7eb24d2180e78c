"""The base of all operations beyond chat, also of the media package: prepared work, dropped fields, field errors, limits."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.types import Call, MediaRequest, StreamEvent, UpstreamResponse
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.losses import HARMLESS
from tornado_gate_local.workers import POOL

Order = TypeVar("Order")
Made = TypeVar("Made")

FIELDS: Final = {
    "format": "output_format",
    "compression": "output_compression",
    "ratio": "aspect_ratio",
    "width": "size",
    "height": "size",
}
"""Argument names of the functions that compute results -> field names of the common types, where they differ."""


class OperationWork(ABC):
    """A request that was checked, and its call."""

    @abstractmethod
    def events(self) -> AsyncIterator[StreamEvent]:
        """Do the work and yield its events. Raises GateError."""


class DownloadWork(ABC):
    """The download of a file that an operation has made."""

    @abstractmethod
    async def make_response(self) -> UpstreamResponse:
        """Open the file. Raises UpstreamError and UpstreamRefused."""


def drop_unknown(call: Call, request: MediaRequest) -> None:
    """Report the unknown fields of a request. `user` is not one of them: no users are stored, so it changes nothing."""
    for name, value in request.extra.items():
        if value is not None and name not in HARMLESS:
            call.drop_field(name)


def make_field_error(request: MediaRequest, error: InvalidArgument, fields: Mapping[str, str] = FIELDS) -> InvalidField:
    """Convert an InvalidArgument to an InvalidField with the caller's field name. The param "images.2" means the third image."""
    ours, dot, number = error.param.partition(".")
    ours = fields.get(ours, ours)
    return InvalidField(make_path(request, ours, int(number)) if dot else request.field_name(ours), error.message)


def make_path(request: MediaRequest, ours: str, number: int, several: bool = True) -> str:
    """The caller's path of value `number` of the field `ours`."""
    known = request.names.get(f"{ours}.{number}")
    return known or (f"{request.field_name(ours)}.{number}" if several else request.field_name(ours))


async def make_all(
    maker: Callable[[Order], Made], orders: Sequence[Order], limit: Callable[[Made], None]
) -> list[Made]:
    """Run `maker` for each order in worker processes, at most `POOL.size` at a time; results in the order of `orders`.

    `limit` is called with each result and may raise. The first failure cancels the rest.
    """
    made: dict[int, Made] = {}
    waiting = iter(enumerate(orders))

    async def work() -> None:
        for number, order in waiting:
            made[number] = await POOL.run(maker, order)
            limit(made[number])

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(POOL.size, len(orders))):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [made[number] for number in range(len(orders))]


class ConcurrencyLimit:
    """At most `size` callers hold large files in memory at a time; up to `most_waiting` more wait for a slot."""

    def __init__(self, size: int, most_waiting: int) -> None:
        self.size = size
        self.most_waiting = most_waiting
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._waiting = 0

    @asynccontextmanager
    async def take_place(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Raises UpstreamOverloaded when too many are waiting."""
        free = self._free.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.size))
        if free.locked() and self._waiting >= self.most_waiting:
            raise UpstreamOverloaded(
                "The local provider's queue of image edits is full. Retry after 5 s.", headers={"Retry-After": "5"}
            )
        self._waiting += 1
        try:
            await free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            free.release()
