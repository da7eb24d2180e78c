"""Ways through the chunks of a stream, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.streams.events import OrderError, check_events
from tornado_gate.streams.events import collect as collect_events
from tornado_gate.testing import iterate
from tornado_gate.types import ChatResult, StreamEvent
from tornado_gate_openai.wire.chat import parse_stream, render_stream


def blamed(error: OrderError, what: str) -> GateError:
    raise AssertionError(what) from error


def chunks_of(events: Iterable[StreamEvent], include_usage: bool = True) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        chunks = render_stream(iterate(events), id="chatcmpl-made", model="m", created=7, include_usage=include_usage)
        return [chunk async for chunk in chunks]

    return asyncio.run(collect())


def events_of(frames: Iterable[Any]) -> list[StreamEvent]:
    async def collect() -> list[StreamEvent]:
        return [event async for event in check_events(parse_stream(iterate(frames)), blamed)]

    return asyncio.run(collect())


def result_of(events: AsyncIterator[StreamEvent]) -> ChatResult:
    async def collect() -> ChatResult:
        return await collect_events(check_events(events, blamed))

    return asyncio.run(collect())


def parts_of(*deltas: dict[str, Any], finish: str = "stop") -> tuple[Any, ...]:
    """The parts of the only choice after these deltas."""
    frames = [chunk(delta) for delta in deltas]
    return result_of(parse_stream(iterate([*frames, chunk({}, finish_reason=finish)]))).choices[0].parts


def chunk(delta: Any, **choice: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}


def tool_delta(text: str | None = None, *, key: str = "function", **fields: Any) -> dict[str, Any]:
    inner = {name: fields.pop(name) for name in ("name",) if name in fields}
    if text is not None:
        inner["arguments"] = text
    return {"tool_calls": [{**fields, key: inner}]}
