"""Calls and wire requests as the core makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

import tornado_gate_openai.format as plugin
from tornado_gate.testing import call_to, target_of, wire_request
from tornado_gate.types import Call, Reply, ValueGroup, WireRequest

QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ROUTES = {(route.method, route.path): route for route in plugin.routes()}


class FakeMemory:
    """One account's memory, in a dict. `reads` has the names of each read."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []
        self.values: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}

    async def get(self, name: str) -> Any | None:
        return (await self.get_many([name])).get(name)

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        self.reads.append(list(names))
        return {name: orjson.loads(self.values[name]) for name in self.reads[-1] if name in self.values}

    async def find_many(self, names: Iterable[str]) -> dict[str, Any]:
        return await self.get_many(names)

    async def put(self, name: str, value: Any, seconds: float) -> None:
        self.values[name] = orjson.dumps(value)
        self.seconds[name] = seconds

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        for name, value in values.items():
            await self.put(name, value, seconds)

    async def delete(self, name: str) -> bool:
        return self.values.pop(name, None) is not None

    async def read_group(self, head: str) -> ValueGroup:
        names = sorted(name for name in self.values if name == head or name.startswith(f"{head}:"))
        return ValueGroup(await self.get_many(names), sum(len(self.values[name]) for name in names))

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        if not new and head not in self.values:
            return False
        await self.put_many(values, seconds)
        return True

    async def delete_group(self, head: str) -> bool:
        names = [name for name in self.values if name == head or name.startswith(f"{head}:")]
        return bool([await self.delete(name) for name in names])


def call_for(model: str = "m", operation: str = "chat", key: str = "", **fields: Any) -> Call:
    """`key` is the target's."""
    target = target_of(provider="p", plugin="openai", model=model, upstream_model="up", api_key=key)
    return call_to(id="1", operation=operation, format="format-openai", model=model, target=target, **fields)


def wire_with(
    body: Any = None,
    path: str = "/v1/chat/completions",
    query: Mapping[str, str] | None = None,
    *,
    method: str = "",
    **path_arguments: str,
) -> WireRequest:
    """`body` may be the JSON text itself; without one the method is GET unless said."""
    route = ROUTES[method or ("GET" if body is None else "POST"), path]
    return wire_request(route, body, query=query or {}, path_arguments=path_arguments)


def chunks_of(reply: Reply) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in reply.chunks]

    return asyncio.run(collect())


def text_of(reply: Reply) -> bytes:
    return b"".join(chunks_of(reply))
