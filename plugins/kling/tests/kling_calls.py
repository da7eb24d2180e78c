"""Calls to the provider, and the responses of its upstream."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from joserfc import jwt
from joserfc.jwk import OctKey

import tornado_gate_kling as plugin
from tests.support.upstream import Answer, answer
from tornado_gate import ProviderEntry
from tornado_gate.http.upstream import Pool
from tornado_gate.streams.events import OrderChecker, read_single_event
from tornado_gate.testing import call_to, load_provider, target_of
from tornado_gate.types import (
    Call,
    Data,
    Request,
    Timeouts,
    UpstreamRequest,
    VideoOperation,
    VideoPoll,
    VideoRequest,
    replace,
)

LANE = load_provider(plugin)
BASE = "https://upstream.test"
ACCESS = "access-key-of-the-test-0123456789"
SECRET = "secret-key-of-the-test-0123456789"
OURS = "video_5f0c"
THEIRS = "867283741759111202"
RUNNING = {"kind": "text2video", "task_id": THEIRS}


def read_claims(token: str) -> dict[str, Any]:
    """The claims of a token of this account; its signature is checked."""
    return jwt.decode(token, OctKey.import_key(SECRET), algorithms=["HS256"]).claims


def call_for(
    model: str = "kling-v2-6", *, base_url: str = BASE, headers: Any = None, strict: bool = False, api_key: str = ""
) -> Call:
    entry = ProviderEntry(name="kuaishou", base_url=base_url, api_key=api_key or f"{ACCESS}:{SECRET}")
    target = target_of(LANE, entry, plugin="kling", model="asked", upstream_model=model, headers=headers or {})
    return call_to(id="1", model="asked", target=target, operation="videos", strict=strict)


def make_request(**fields: Any) -> VideoRequest:
    return VideoRequest(**{"model": "asked", "prompt": "A cat", "task_id": OURS, **fields})


def poll(operation: Any = None) -> VideoPoll:
    return VideoPoll(model="asked", task_id=OURS, operation=operation)


def translate_request(request: Request, call: Call | None = None) -> UpstreamRequest:
    return asyncio.run(plugin.translate_request(call or call_for(), request))


def body(request: Request, call: Call | None = None) -> dict[str, Any]:
    """Return the body of the upstream request, without the fields that every body has."""
    outgoing = translate_request(request, call)
    assert isinstance(outgoing.json, dict)
    return {
        name: value for name, value in outgoing.json.items() if name not in ("model_name", "prompt", "external_task_id")
    }


def png(width: int, height: int, more: int = 0) -> bytes:
    """Return a picture of one colour, with `more` bytes in a chunk that no program reads."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(bytes(1 + (width + 7) // 8) for _ in range(height)))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"prVt", bytes(more)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def picture(width: int = 480, height: int = 480, more: int = 0) -> Data:
    return Data(media_type="image/png", base64=base64.b64encode(png(width, height, more)).decode())


def stands(status: str, **data: Any) -> dict[str, Any]:
    """Return the description of a task, as recorded from the vendor. `message` is the same for a failed task."""
    task = {
        "task_id": THEIRS,
        "task_status": status,
        "task_info": {"external_task_id": OURS},
        "created_at": 1774805076166,
        "updated_at": 1774805076166,
        **data,
    }
    return {"code": 0, "message": "SUCCEED", "request_id": "c0656403-1e6e-4b7e-b8f8-2cdd2595f2b9", "data": task}


def fault(code: int, message: str) -> dict[str, Any]:
    return {"code": code, "message": message, "request_id": "9984d27b-a408-4073-ae28-17ca6a13622d"}


def make_answer(value: Any, status: int = 200, path: str = "", **headers: str) -> Answer:
    kinds = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return answer(json.dumps(value), status=status, path=path, headers=kinds)


@asynccontextmanager
async def reaching(url: str, **rest: Any) -> AsyncIterator[Call]:
    """Return a call that reaches a real upstream."""
    pool = Pool(Timeouts(connect=2))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(pool.close)
        yield replace(call_for(base_url=url, **rest), pool=pool, closing=closing)


async def answered(call: Call, request: Request) -> VideoOperation:
    """Run all steps of a request, and check the order of events."""
    outgoing = await plugin.translate_request(call, request)
    incoming = await plugin.call_upstream(call, outgoing)
    checker = OrderChecker()

    async def checked() -> Any:
        async for event in plugin.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await read_single_event(checked(), VideoOperation)


def operation(url: str, request: Request, **rest: Any) -> VideoOperation:
    """Run all steps of a request, for a test without an event loop."""

    async def run() -> VideoOperation:
        async with reaching(url, **rest) as call:
            return await answered(call, request)

    return asyncio.run(run())
