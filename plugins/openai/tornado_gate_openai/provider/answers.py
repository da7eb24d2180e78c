"""Parses a whole response as JSON without blocking the event loop on large images.

An image is megabytes of base64 in one string; a JSON parser scans it at 3 ms per megabyte. So long ``b64_json`` strings are
cut out before parsing and inserted afterwards.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from tornado_gate.codec.byte_search import find_in_slices
from tornado_gate.codec.large_json import load_upstream_json
from tornado_gate.types import Call, UpstreamResponse
from tornado_gate.types.wire import parse_json, require_object

LONG_BYTES: Final = 256 * 1024
"""Longer responses are parsed without their ``b64_json`` strings."""

_BASE64_START: Final = re.compile(rb'"b64_json"\s*:\s*"')


async def read_json_object(call: Call, incoming: UpstreamResponse) -> dict[str, Any]:
    """The JSON object of a response. Raises UpstreamError for any other body."""
    raw, provider = await incoming.read(), call.target.provider
    body = parse_json(raw, provider) if len(raw) <= LONG_BYTES else await _parse_long_json(incoming, raw, provider)
    return require_object(body, provider)


async def _parse_long_json(incoming: UpstreamResponse, raw: bytes, provider: str) -> Any:
    """Like `parse_json`, in a thread. Each ``b64_json`` string without an escape is read separately."""
    if find_in_slices(raw, b'"b64_json"') < 0:
        return await incoming.run(load_upstream_json, raw, provider)
    kept: list[bytes] = []
    cut: dict[str, str] = {}
    position = 0
    while begins := _BASE64_START.search(raw, position):
        end = raw.find(b'"', begins.end())
        inside = raw[begins.end() : end]
        if end < 0 or b"\\" in inside or not inside.isascii():
            kept.append(raw[position : begins.end()])
            position = begins.end()
            continue
        mark = f"picture {len(cut)}"
        kept += (raw[position : begins.end()], mark.encode())
        cut[mark] = inside.decode("ascii")
        position = end
        await asyncio.sleep(0)
    body = await incoming.run(load_upstream_json, b"".join([*kept, raw[position:]]), provider)
    entries = body.get("data") if isinstance(body, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(text := entry.get("b64_json"), str):
            entry["b64_json"] = cut.get(text, text)
    return body
