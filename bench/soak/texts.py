"""Callers who ask for text: whole answers, streams, slow readers, callers who leave, and the vendors' SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from bench.soak.callers import Callers, Left, ask
from bench.soak.formats import (
    SDK_HEADERS,
    ErrorAnswer,
    StreamText,
    check_error,
    check_text,
    iterate_events,
    make_request,
    parse_json,
    read_whole,
)
from bench.soak.records import Mismatch, Request
from bench.soak.sdks import SDKS
from bench.soak.words import make_prompt

WAYS = ("chat", "messages", "generate", "responses")
SLOW_EVENTS = 100
"""A slow reader waits after so many events; a stream that does not end is read on at once."""


async def read_text(callers: Callers, request: Request) -> None:
    """A whole answer in a random format."""
    way, count = callers.random.choice(WAYS), callers.random.randint(3, 40)
    path, body = make_request(way, request.model, request.nonce, count, stream=False)
    text = read_whole(way, await ask(callers, request, way, path, body))
    check_text(request.nonce, count, text)


async def read_stream(callers: Callers, request: Request) -> None:
    await _read_stream(callers, request)


async def read_slowly(callers: Callers, request: Request) -> None:
    """A reader that takes a few events, then waits."""
    await _read_stream(callers, request, pause=0.05)


async def leave_stream(callers: Callers, request: Request) -> None:
    """A caller who closes the connection in the middle of a stream."""
    await _read_stream(callers, request, leave=callers.random.randint(1, 8))


async def _read_stream(callers: Callers, request: Request, *, pause: float = 0.0, leave: int = 0) -> None:
    way, count = callers.random.choice(WAYS), callers.random.randint(10, 60)
    path, body = make_request(way, request.model, request.nonce, count, stream=True)
    if way == "generate" and callers.random.random() < 0.3:
        return await _read_array(callers, request, path.partition("?")[0], body, count)
    async with callers.send(request, "POST", path, body, **SDK_HEADERS[way]) as answer:
        request.status = answer.status
        if answer.status != 200:
            raise check_error(way, answer.status, answer.headers.get("content-type", ""), await answer.read())
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            raise Mismatch(f"a stream of {answer.headers.get('content-type')}")
        reader = StreamText(way)
        try:
            await _read_events(answer.content.iter_any(), reader, pause, leave)
        except (ErrorAnswer, Left, aiohttp.ClientError, ConnectionError):
            check_text(request.nonce, count, reader.text, is_cut=True, faults=await callers.find_faults(request.nonce))
            if leave and reader.text:
                answer.close()
            raise
    if not reader.is_ended:
        raise Mismatch(f"the stream ended without its normal end, after {reader.text[-60:]!r}")
    try:
        check_text(request.nonce, count, reader.text)
    except Mismatch:
        check_text(request.nonce, count, reader.text, faults=await callers.find_faults(request.nonce))


async def _read_array(callers: Callers, request: Request, path: str, body: Any, count: int) -> None:
    """A stream of format G as one JSON array."""
    reader = StreamText("generate")
    try:
        for element in parse_json(await ask(callers, request, "generate", path, body)):
            reader.feed(json.dumps(element))
    except ErrorAnswer as error:
        faults = await callers.find_faults(request.nonce)
        check_text(request.nonce, count, reader.text, is_cut=True, faults=faults)
        raise error
    if not reader.is_ended:
        raise Mismatch(f"the array ended without its normal end, after {reader.text[-60:]!r}")
    check_text(request.nonce, count, reader.text, faults=await callers.find_faults(request.nonce))


async def _read_events(chunks: AsyncIterator[bytes], reader: StreamText, pause: float, leave: int) -> None:
    number = 0
    async for _, data in iterate_events(chunks):
        reader.feed(data)
        number += 1
        if number == leave:
            raise Left
        if pause and number < SLOW_EVENTS:
            await asyncio.sleep(pause)


async def use_sdk(callers: Callers, request: Request) -> None:
    """A whole answer or a stream, by a vendor's SDK."""
    way, count = callers.random.choice(sorted(SDKS)), callers.random.randint(3, 40)
    is_stream, pieces = callers.random.random() < 0.5, list[str]()
    try:
        await SDKS[way](callers.sdks, request, make_prompt(request.nonce, count), is_stream, pieces)
    except ErrorAnswer:
        faults = await callers.find_faults(request.nonce)
        check_text(request.nonce, count, "".join(pieces), is_cut=True, faults=faults)
        raise
    try:
        check_text(request.nonce, count, "".join(pieces))
    except Mismatch:
        check_text(request.nonce, count, "".join(pieces), faults=await callers.find_faults(request.nonce))


async def leave_whole(callers: Callers, request: Request) -> None:
    """A caller who gives up before the answer."""
    request.recorded = False  # whether it had been read is unknown
    way = callers.random.choice(WAYS)
    path, body = make_request(way, request.model, request.nonce, 10, stream=False)
    try:
        async with asyncio.timeout(callers.random.choice((0.002, 0.01, 0.05))):
            check_text(request.nonce, 10, read_whole(way, await ask(callers, request, way, path, body)))
    except TimeoutError:
        raise Left from None
