"""An upstream's answer: is it a stream; and a whole one as JSON, without holding the event loop over a picture inside it.

A picture is megabytes of base64 in one string, which a JSON parser looks through byte for byte (3 ms for each megabyte). So
long strings of that kind are cut out first, and put back where they were.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.types import Call, UpstreamResponse

LONG: Final = 256 * 1024
"""Bytes of an answer that are parsed at once."""

_BEGINS: Final = re.compile(rb'"b64_json"\s*:\s*"')


async def json_object(call: Call, incoming: UpstreamResponse) -> dict[str, Any]:
    """The answer's object. Raises UpstreamError for anything else."""
    raw = await incoming.read()
    try:
        body = orjson.loads(raw) if len(raw) <= LONG else await _loads_long(raw)
    except ValueError as error:
        raise UpstreamError(f"The provider '{call.target.provider}' sent an answer that is not JSON.") from error
    if not isinstance(body, dict):
        raise UpstreamError(f"The provider '{call.target.provider}' sent an answer that is no JSON object.")
    return body


def is_stream(incoming: UpstreamResponse, *, asked: bool) -> bool:
    """What the upstream says counts for more than what it was `asked` for: some answer a stream with a whole body."""
    content_type = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in ("text/event-stream", "application/json"):
        return content_type == "text/event-stream"
    return asked


async def _loads_long(raw: bytes) -> Any:
    """As `orjson.loads`. Every ``b64_json`` without an escape in it is read apart from the rest."""
    kept: list[bytes] = []
    cut: dict[str, str] = {}
    position = 0
    while begins := _BEGINS.search(raw, position):
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
    body = orjson.loads(b"".join([*kept, raw[position:]]))
    entries = body.get("data") if isinstance(body, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(text := entry.get("b64_json"), str):
            entry["b64_json"] = cut.get(text, text)
    return body
