"""What all operations beyond chat share: the work itself, its losses, its refusals, and how much is done at a time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.types import Call, MediaRequest, StreamEvent
from tornado_gate_local.losses import HARMLESS
from tornado_gate_local.media.errors import MediaError
from tornado_gate_local.media.workers import POOL

Order = TypeVar("Order")
Made = TypeVar("Made")

FIELDS: Final = {
    "format": "output_format",
    "compression": "output_compression",
    "ratio": "aspect_ratio",
    "width": "size",
    "height": "size",
}
"""What a maker calls a thing, and what the vocabulary calls it where that is another name."""


class OperationWork(ABC):
    """A request that was checked, and the call that it belongs to."""

    @abstractmethod
    def events(self) -> AsyncIterator[StreamEvent]:
        """Do it. Raises GateError."""


def drop_unknown(call: Call, request: MediaRequest) -> None:
    """Report the fields that only a vendor knows. `user` is none of them: it changes nothing where no users are kept."""
    for name, value in request.extra.items():
        if value is not None and name not in HARMLESS:
            call.drop_field(name)


def make_field_error(request: MediaRequest, error: MediaError, fields: Mapping[str, str] = FIELDS) -> InvalidField:
    """A maker's refusal in the caller's words. "images.2" is the third of several."""
    ours, dot, number = error.param.partition(".")
    ours = fields.get(ours, ours)
    return InvalidField(make_path(request, ours, int(number)) if dot else request.field_name(ours), error.message)


def make_path(request: MediaRequest, ours: str, number: int, several: bool = True) -> str:
    """Where the caller wrote the `number`-th of a field's values."""
    known = request.names.get(f"{ours}.{number}")
    return known or (f"{request.field_name(ours)}.{number}" if several else request.field_name(ours))


async def make_all(
    maker: Callable[[Order], Made], orders: Sequence[Order], limit: Callable[[Made], None]
) -> list[Made]:
    """What `maker` makes of each order, in worker processes; no more at a time than there are of those.

    `limit` is shown each result as soon as it is there, and may raise. The first failure ends the rest.
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
    """How many callers may hold large files in memory at a time; the others wait in line, up to `most_waiting` of them."""

    def __init__(self, size: int, most_waiting: int) -> None:
        self.size = size
        self.most_waiting = most_waiting
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._waiting = 0

    @asynccontextmanager
    async def take_place(self) -> AsyncIterator[None]:
        """Raises UpstreamOverloaded when the line is too long."""
        free = self._free.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.size))
        if free.locked() and self._waiting >= self.most_waiting:
            raise UpstreamOverloaded(
                "Too many pictures are being edited. Try again shortly.", headers={"Retry-After": "5"}
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
