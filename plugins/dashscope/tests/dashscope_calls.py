"""Calls to the provider, and the responses of its upstream."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import tornado_gate_dashscope as plugin
from tests.support.upstream import Answer, answer
from tornado_gate import ProviderEntry
from tornado_gate.http.fetch import Fetcher, FetchRules
from tornado_gate.http.upstream import Pool
from tornado_gate.streams.events import OrderChecker, read_single_event
from tornado_gate.testing import KEY, call_to, load_provider, target_of
from tornado_gate.types import Call, ImageRequest, ImageResult, Timeouts, UpstreamRequest, replace
from tornado_gate_dashscope import tasks

LANE = load_provider(plugin)
BASE = "https://upstream.test"
TASK = "86ecf553-d340-4e21"
CREATED = {"output": {"task_status": "PENDING", "task_id": TASK}, "request_id": "r"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def call_for(
    model: str = "qwen-image-plus", *, base_url: str = BASE, headers: Any = None, strict: bool = False, **settings: Any
) -> Call:
    entry = ProviderEntry(name="tongyi", base_url=base_url, api_key=KEY, settings=settings)
    target = target_of(LANE, entry, plugin="dashscope", model="asked", upstream_model=model, headers=headers or {})
    return call_to(id="1", model="asked", target=target, operation="images", strict=strict)


def make_request(**fields: Any) -> ImageRequest:
    return ImageRequest(**{"model": "asked", "prompt": "A cat", "wire_format": "openai-images", **fields})


def translate_request(request: Any, call: Call | None = None) -> UpstreamRequest:
    return asyncio.run(plugin.translate_request(call or call_for(), request))


def make_answer(body: Any, status: int = 200, path: str = "") -> Answer:
    return answer(json.dumps(body), status=status, path=path)


def stands(status: str, **output: Any) -> Answer:
    """Return the description of a task."""
    return make_answer({"output": {"task_id": TASK, "task_status": status, **output}, "usage": {"image_count": 1}})


def picture(path: str) -> Answer:
    return answer(PNG, headers={"content-type": "image/png"}, path=path)


@asynccontextmanager
async def reaching(url: str, model: str = "wan2.2-t2i-flash", **rest: Any) -> AsyncIterator[Call]:
    """Return a call that reaches a real upstream, and may fetch from this machine. It ends after every cancellation."""
    pool = Pool(Timeouts(connect=2))
    fetcher = Fetcher(FetchRules(allow_private=True))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(fetcher.close)
        closing.push_async_callback(pool.close)
        closing.push_async_callback(_farewells)
        call = call_for(model, base_url=url, **{"poll_seconds": 0.01, **rest})
        yield replace(call, pool=pool, fetcher=fetcher, closing=closing)


async def _farewells() -> None:
    await asyncio.gather(*tasks._cancellations, return_exceptions=True)


async def made(call: Call, request: ImageRequest) -> ImageResult:
    """Run all steps of a request, and check the order of events."""
    lane = load_provider(plugin)
    outgoing = await lane.translate_request(call, request)
    incoming = await lane.call_upstream(call, outgoing)
    checker = OrderChecker()

    async def checked() -> Any:
        async for event in lane.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await read_single_event(checked(), ImageResult)
