"""A request that is sent in several parts: it is a hit if all of them are."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from tornado_gate import types
from tornado_gate.testing import call_to, chat
from tornado_gate_cache import Cache
from tornado_gate_cache.settings import CacheSettings


def send(cache: Cache, call: types.Call, *words: str) -> None:
    """Send the parts of one request, one after the other, as the core calls the hooks around a provider."""

    async def answer() -> types.UpstreamResponse:
        return types.UpstreamResponse(chunks=types.BufferedBody(b"{}"))

    async def run() -> None:
        for word in words:
            outgoing = types.UpstreamRequest(url="http://upstream.test/v1", body=word.encode())
            wrap(cache.translate_request(call, chat()), outgoing)
            await wrap(cache.call_upstream(call, outgoing), answer())

    asyncio.run(run())
    for tell in call.additions.observers or ():
        tell(types.RequestEnd(call=call, status=200, error_code="", outcome="complete", seconds=0.1))


def wrap(hook: Generator[None, Any, Any], result: Any) -> Any:
    """Return a wrapper's result for the result of a hook."""
    next(hook)
    try:
        hook.send(result)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("a wrapper yields once")


def test_a_request_is_a_hit_if_all_of_its_parts_are() -> None:
    cache = Cache(CacheSettings(caches={"chat": "all"}, max_entries=77))
    for words, expected in (("ab", "miss"), ("abc", "miss"), ("ca", "hit"), ("xa", "miss"), ("ay", "miss")):
        call = call_to()
        send(cache, call, *words)
        headers = call.additions.headers or {}
        assert headers["X-Gate-Cache"] == expected, words
        assert ("Age" in headers) is (expected == "hit")
        assert call.progress.cached is (expected == "hit")
