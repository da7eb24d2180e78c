"""Calls to the provider and answers of its upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tornado_gate_gemini.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.streams.events import OrderChecker, collect
from tornado_gate.testing import KEY, call_to, chat, chunks_of, load_provider, target_of
from tornado_gate.types import (
    Call,
    ChatResult,
    Request,
    UpstreamRequest,
    UpstreamResponse,
)

FIXTURES = Path(__file__).parent / "fixtures"
LANE = load_provider(plugin)
BASE = "https://upstream.test/v1beta"
JSON = "application/json; charset=UTF-8"
EVENTS = "text/event-stream"


def call_for(model: str = "gemini-3-flash", api_key: str = KEY, headers: Any = None, **settings: Any) -> Call:
    entry = ProviderEntry(name="google", base_url=BASE, api_key=api_key, settings=settings)
    target = target_of(LANE, entry, plugin="gemini", model="asked", upstream_model=model, headers=headers or {})
    return call_to(id="1", model="asked", target=target, operation="chat")


def translate_request(request: Request, call: Call | None = None) -> UpstreamRequest:
    translated = plugin.translate_request(call or call_for(), request)
    return translated if isinstance(translated, UpstreamRequest) else asyncio.run(translated)


def answer(pieces: Iterable[bytes], content_type: str = JSON) -> UpstreamResponse:
    return UpstreamResponse(chunks=chunks_of(pieces), headers={"content-type": content_type} if content_type else {})


def result_of(incoming: UpstreamResponse, request: Request | None = None) -> ChatResult:
    """Return the result that the events make up. Their order is checked."""

    async def read() -> ChatResult:
        checker = OrderChecker()

        async def checked() -> Any:
            async for event in plugin.translate_response(call_for(), request or chat(stream=True), incoming):
                checker.check(event)
                yield event
            assert checker.is_complete()

        return await collect(checked())

    return asyncio.run(read())
