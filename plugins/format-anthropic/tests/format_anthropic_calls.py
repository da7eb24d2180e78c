"""Calls and wire requests as the core makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson

import tornado_gate_format_anthropic as plugin
from tornado_gate.codec import json_body
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Caller, Reply, WireRequest

QUESTION: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
ROUTES = {route.path: route for route in plugin.routes()}
VERSION = {"anthropic-version": "2023-06-01"}


def call_for(model: str = "m", operation: str = "chat") -> Call:
    return Call(
        id="req_1",
        operation=operation,
        format="format-anthropic",
        model=model,
        caller=Caller(id="c", account="a"),
    )


def wire_with(
    body: Any = None,
    path: str = "/v1/messages",
    headers: dict[str, str] = VERSION,
    query: dict[str, str] | None = None,
    **path_arguments: str,
) -> WireRequest:
    """`body` may be the JSON text itself."""
    raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    return WireRequest(
        route=ROUTES[path],
        path=path.format(**path_arguments),
        path_arguments=path_arguments,
        query=query or {},
        headers=headers,
        raw=raw,
        json=json_body.load_object(raw) if raw else {},
    )


async def aiter_of(items: Iterable[Any]) -> AsyncIterator[Any]:
    """The items; an exception among them is raised in its place."""
    for item in items:
        if isinstance(item, GateError):
            raise item
        yield item


def chunks_of(reply: Reply) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in reply.chunks]

    return asyncio.run(collect())


def text_of(reply: Reply) -> bytes:
    return b"".join(chunks_of(reply))
