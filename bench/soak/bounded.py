"""Requests of keys with limits, and whether the limits were exact: never more admitted than a bound, none refused below it.

When a request was admitted is known only to lie between its start and its end, so each check takes the side that is certain.
While Valkey is away the machine counts by itself, and a Valkey that was killed begins anew: more is admitted then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

import aiohttp

from bench.soak.callers import Callers
from bench.soak.formats import SDK_HEADERS, check_error, make_request, read_whole
from bench.soak.records import Disruption, Journal, Mismatch, Request
from bench.soak.site import NARROW_KEY, OPEN_LIMIT, PACED_KEY, RATE_LIMIT

PACED, SESSION = "limited by rate", "limited by concurrency"
BURST = 6
WINDOW_SECONDS = 60.0
BUCKET_SECONDS = 0.6
"""A request leaves the window up to half a second late."""
RELEASE_SECONDS = 3.0
"""The sessions of a killed process count for two seconds in Valkey, and a closed one until the gateway has noticed it."""
HOLD_SECONDS = 0.3


async def send_paced(callers: Callers, request: Request) -> None:
    """A burst of chats of a key with requests per minute."""
    await _burst(callers, request, PACED, _send_paced)


async def hold_sessions(callers: Callers, request: Request) -> None:
    """A burst of realtime sessions of a key with concurrent requests."""
    request.model = "voice"
    await _burst(callers, request, SESSION, _hold_session)


async def _burst(
    callers: Callers, first: Request, kind: str, act: Callable[[Callers, Request], Awaitable[None]]
) -> None:
    calls = [callers.call(kind, first.model, act) for _ in range(BURST - 1)]
    first.kind = kind
    await asyncio.gather(act(callers, first), *calls)


async def _send_paced(callers: Callers, request: Request) -> None:
    path, body = make_request("chat", request.model, request.nonce, 3, stream=False)
    headers = {**SDK_HEADERS["chat"], "Authorization": f"Bearer {PACED_KEY}"}
    async with callers.send(request, "POST", path, body, **headers) as answer:
        request.status, data = answer.status, await answer.read()
    if request.status == 429:
        check_error("chat", 429, answer.headers.get("content-type", ""), data)
    elif request.status != 200 or request.nonce not in read_whole("chat", data):
        raise Mismatch(f"status {request.status}: {data[:200]!r}")


async def _hold_session(callers: Callers, request: Request) -> None:
    """Open a session for a moment. One that the gateway ends earlier does not say how long it was counted."""
    try:
        async with callers.connect(request, "/v1/realtime?model=voice", NARROW_KEY) as socket:
            request.status, opened = 101, time.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HOLD_SECONDS):
                    async for _ in socket:
                        pass
            if not socket.closed:
                request.held = (opened, time.time())
    except aiohttp.WSServerHandshakeError as error:
        request.status = error.status
        if error.status != 429:
            raise Mismatch(f"status {error.status} of a session") from error


def check_limits(journal: Journal) -> list[str]:
    """What was admitted beyond a bound, or refused below it."""
    paced = sorted((one for one in journal.requests if one.kind == PACED), key=lambda one: one.started)
    sessions = sorted((one for one in journal.requests if one.kind == SESSION), key=lambda one: one.started)
    outages = [one for one in journal.disruptions if one.moves_limits]
    return [*_check_rate(paced, outages), *_check_open(sessions, outages, journal)]


def _check_rate(requests: Sequence[Request], outages: Sequence[Disruption]) -> list[str]:
    faults = []
    admitted = [one for one in requests if one.status == 200]
    possible = [one for one in requests if one.status != 429 or _is_hit(one, outages)]
    for index, first in enumerate(admitted):
        end = first.started + WINDOW_SECONDS
        count = sum(one.ended <= end for one in admitted[index:] if one.started < end)
        hit = [one for one in outages if one.touches(first.started, end)]
        bound = RATE_LIMIT * (1 + bool(hit) + sum(one.moves_limits == "lost" for one in hit))
        if count > bound:
            faults.append(
                f"{count} requests of a key were admitted in 60 s from {first.started:.2f}, the bound is {bound}"
            )
    for one in requests:
        if one.status == 429 and not _is_hit(one, outages):
            begin = one.started - WINDOW_SECONDS - BUCKET_SECONDS
            count = sum(begin <= other.ended and other.started <= one.ended for other in possible)
            if count < RATE_LIMIT:
                faults.append(f"{one.id} was refused after {count} requests in 60 s, the bound is {RATE_LIMIT}")
    return faults


def _check_open(sessions: Sequence[Request], outages: Sequence[Disruption], journal: Journal) -> list[str]:
    faults = []
    held = [one.held for one in sessions if one.held is not None]
    for opened, closed in held:
        count = sum(begin <= opened < end for begin, end in held)
        bound = OPEN_LIMIT * (2 if any(one.touches(opened, closed) for one in outages) else 1)
        if count > bound:
            near = journal.describe_time(opened, closed)
            faults.append(f"{count} sessions of a key were open at {opened:.2f}, the bound is {bound}{near}")
    for one in sessions:
        if one.status == 429 and not _is_hit(one, outages):
            others = (other for other in sessions if other.status != 429 or _is_hit(other, outages))
            count = sum(other.started <= one.ended and one.started <= other.ended + RELEASE_SECONDS for other in others)
            if count < OPEN_LIMIT:
                faults.append(
                    f"{one.id} was refused while at most {count} sessions were open, the bound is {OPEN_LIMIT}"
                )
    return faults


def _is_hit(request: Request, outages: Sequence[Disruption]) -> bool:
    return any(one.touches(request.started, request.ended) for one in outages)
