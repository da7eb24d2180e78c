"""Calls and wire requests as the core makes them."""

from __future__ import annotations

import asyncio
from typing import Any

import tornado_gate_anthropic.format as plugin
from tornado_gate.testing import call_to, wire_request
from tornado_gate.types import Call, Reply, WireRequest
from tornado_gate.types.call import NO_TARGET

QUESTION: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
ROUTES = {route.path: route for route in plugin.routes()}
VERSION = {"anthropic-version": "2023-06-01"}


def call_for(model: str = "m", operation: str = "chat") -> Call:
    return call_to(id="req_1", operation=operation, format="format-anthropic", model=model, target=NO_TARGET)


def wire_with(
    body: Any = None,
    path: str = "/v1/messages",
    headers: dict[str, str] = VERSION,
    query: dict[str, str] | None = None,
    **path_arguments: str,
) -> WireRequest:
    """`body` may be the JSON text itself."""
    return wire_request(ROUTES[path], body, headers=headers, query=query or {}, path_arguments=path_arguments)


def chunks_of(reply: Reply) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in reply.chunks]

    return asyncio.run(collect())


def text_of(reply: Reply) -> bytes:
    return b"".join(chunks_of(reply))
