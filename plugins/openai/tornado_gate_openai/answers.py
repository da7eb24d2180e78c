"""A whole answer of an upstream as JSON, without holding the event loop over a picture inside it.

A picture is megabytes of base64 in one string, which a JSON parser looks through byte for byte (3 ms for each megabyte). So
long strings of that kind are cut out first, and put back where they were.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from tornado_gate.types import Call, UpstreamResponse
from tornado_gate.types.wire import parse_json, require_object

LONG_BYTES: Final = 256 * 1024
"""Bytes of an answer that are parsed at once."""

_BASE64_START: Final = re.compile(rb'"b64_json"\s*:\s*"')


async def read_json_object(call: Call, incoming: UpstreamResponse) -> dict[str, Any]:
    """The answer's object. Raises UpstreamError for anything else."""
    raw, provider = await incoming.read(), call.target.provider
    body = parse_json(raw, provider) if len(raw) <= LONG_BYTES else await _parse_long_json(raw, provider)
    return require_object(body, provider)


async def _parse_long_json(raw: bytes, provider: str) -> Any:
    """As `parse_json`. Every ``b64_json`` without an escape in it is read apart from the rest."""
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
    body = parse_json(b"".join([*kept, raw[position:]]), provider)
    entries = body.get("data") if isinstance(body, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(text := entry.get("b64_json"), str):
            entry["b64_json"] = cut.get(text, text)
    return body
