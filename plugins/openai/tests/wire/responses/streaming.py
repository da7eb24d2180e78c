"""Ways through the events of a stream, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.streams.events import OrderError, check_events
from tornado_gate.streams.events import collect as collect_events
from tornado_gate.testing import iterate
from tornado_gate.types import ChatResult, StreamEvent
from tornado_gate_openai.wire.responses import parse_stream, render_stream

RESPONSE_ID = "resp_" + "0" * 32


def blamed(error: OrderError, what: str) -> GateError:
    raise AssertionError(what) from error


def written(events: Iterable[StreamEvent], **asked: Any) -> list[dict[str, Any]]:
    """The events that a caller gets."""

    async def collect() -> list[dict[str, Any]]:
        rendered = render_stream(iterate(events), id=RESPONSE_ID, model="m", created=7, asked=asked)
        return [event async for event in rendered]

    return asyncio.run(collect())


def read(frames: Iterable[Any]) -> list[StreamEvent]:
    """The vocabulary's events of an upstream's, their order checked."""

    async def collect() -> list[StreamEvent]:
        return [event async for event in check_events(parse_stream(iterate(frames)), blamed)]

    return asyncio.run(collect())


def result_of(frames: Iterable[Any]) -> ChatResult:
    async def collect() -> ChatResult:
        return await collect_events(check_events(parse_stream(iterate(frames)), blamed))

    return asyncio.run(collect())


def collected(events: Iterable[StreamEvent]) -> ChatResult:
    return asyncio.run(collect_events(iterate(events)))
