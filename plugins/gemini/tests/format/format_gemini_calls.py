"""Calls and wire requests as the core makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

import tornado_gate_gemini.format as plugin
from tornado_gate.codec import json_body
from tornado_gate.codec.json_bounds import measure_json
from tornado_gate.config.model import LimitsConfig
from tornado_gate.targets.routing import RouteTable, ServedRoute
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Reply, WireRequest
from tornado_gate.types.call import NO_TARGET

QUESTION: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
GENERATE = "/v1beta/models/m:generateContent"
STREAM = "/v1beta/models/m:streamGenerateContent"
COUNT = "/v1beta/models/m:countTokens"
SDK = {"x-goog-api-client": "google-genai-sdk/3.4 gl-python/3.11"}

_TABLE = RouteTable([ServedRoute("format-gemini", route) for route in plugin.routes()])


def call_for(model: str = "m", operation: str = "chat", headers: Mapping[str, str] | None = None) -> Call:
    return call_to(
        id="1", operation=operation, format="format-gemini", model=model, target=NO_TARGET, headers=headers or {}
    )


def wire_to(path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **query: str) -> WireRequest:
    """`body` may be the JSON text itself; the route is found as the core finds it."""
    raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    matched = _TABLE.match("POST" if raw else "GET", path, headers or SDK, query)
    return WireRequest(
        route=matched.served.route,
        path=path,
        path_arguments=matched.arguments,
        query=query,
        headers=headers or {},
        raw=raw,
        json=json_body.load_measured_object(raw, measure_json(raw, LimitsConfig().body_values)) if raw else {},
    )


def chunks_of(reply: Reply) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [chunk async for chunk in reply.chunks]

    return asyncio.run(collect())


def text_of(reply: Reply) -> bytes:
    return b"".join(chunks_of(reply))


def frames(raw: bytes) -> list[Any]:
    lines = raw.replace(b"\r\n", b"\n").split(b"\n\n")
    return [orjson.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
