"""Callers of the other operations: embeddings, images, speech, videos, realtime sessions."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time

import aiohttp

from bench.soak.callers import BEARER, Callers, ask
from bench.soak.formats import ErrorAnswer, check_text, parse_json
from bench.soak.records import Broken, Mismatch, Mixed, Request
from bench.soak.words import DIMENSIONS, make_film, make_nonce, make_picture, make_prompt, make_sound, make_vector

VIDEO_SECONDS = 120.0


async def embed(callers: Callers, request: Request) -> None:
    count = callers.random.randint(1, 20)
    inputs = [f"{make_prompt(request.nonce, count)} {number}" for number in range(count)]
    encoding = callers.random.choice(("float", "base64"))
    body = {"model": request.model, "input": inputs, "encoding_format": encoding}
    value = parse_json(await ask(callers, request, "chat", "/v1/embeddings", body))
    vectors = [one["embedding"] for one in value["data"]]
    if encoding == "base64":
        vectors = [list(struct.unpack(f"<{DIMENSIONS}f", base64.b64decode(vector))) for vector in vectors]
    if vectors != [make_vector(request.nonce, number) for number in range(count)]:
        raise Mixed(f"{len(vectors)} vectors for {count} inputs, which are not theirs or not in order")


async def paint(callers: Callers, request: Request) -> None:
    body = {"model": request.model, "prompt": make_prompt(request.nonce, 1), "response_format": "b64_json"}
    value = parse_json(await ask(callers, request, "chat", "/v1/images/generations", body))
    if base64.b64decode(value["data"][0]["b64_json"]) != make_picture(request.nonce):
        raise Mixed("another picture")


async def speak(callers: Callers, request: Request) -> None:
    """A sound. When its upstream fails midway the connection is cut: bytes of sound have no place for an error."""
    body = {"model": request.model, "input": make_prompt(request.nonce, 1), "voice": "alloy", "response_format": "mp3"}
    try:
        data = await ask(callers, request, "chat", "/v1/audio/speech", body)
    except aiohttp.ClientPayloadError as error:
        if set(await callers.find_faults(request.nonce)) & {"reset mid-stream", "slow drip", "gzip garbage"}:
            raise ErrorAnswer(200, "the sound was cut", True) from error
        raise
    if data != make_sound(request.nonce):
        raise Mixed("another or half a sound")


async def film(callers: Callers, request: Request) -> None:
    """Create a video, poll it until it is completed, download it. Polls are repeated over a restart of the gateway."""
    body = {"model": request.model, "prompt": make_prompt(request.nonce, 1), "seconds": "4", "size": "720x1280"}
    value = parse_json(await ask(callers, request, "chat", "/v1/videos", body))
    path, deadline = f"/v1/videos/{value['id']}", time.time() + VIDEO_SECONDS
    while value["status"] != "completed":
        if value["status"] not in ("queued", "pending", "in_progress"):
            raise Mismatch(f"the task ended as {value['status']}: {value.get('error')}")
        if time.time() > deadline:
            raise Mismatch(f"the task is {value['status']} after {VIDEO_SECONDS:.0f} s")
        await asyncio.sleep(0.5)
        value = parse_json(await _get_again(callers, path, deadline) or json.dumps(value))
    if await _get_again(callers, path + "/content", deadline) != make_film(request.nonce):
        raise Mixed("another or half a film")


async def _get_again(callers: Callers, path: str, deadline: float) -> bytes:
    """GET until it is answered; b"" is never an answer. Each is a request of its own in the journal."""
    while True:
        request = callers.journal.begin("poll", "film", make_nonce())
        try:
            async with callers.send(request, "GET", path, **BEARER) as answer:
                request.status = answer.status
                data: bytes = await answer.read()
                if answer.status == 200:
                    request.outcome = "right"
                    return data
                request.outcome, request.detail = "WRONG", f"status {answer.status}: {data[:200]!r}"
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            request.outcome, request.detail = "LOST", f"{type(error).__name__}: {error}"
        finally:
            request.ended = time.time()
        if time.time() > deadline:
            raise Broken(f"GET {path} was not answered")
        await asyncio.sleep(0.3)


async def talk(callers: Callers, request: Request) -> None:
    """A realtime session with one response."""
    count, text = callers.random.randint(3, 20), ""
    async with callers.connect(request, "/v1/realtime?model=voice") as socket:
        request.status = 101
        response = {"instructions": make_prompt(request.nonce, count), "output_modalities": ["text"]}
        await socket.send_json({"type": "response.create", "response": response})
        async for message in socket:
            if message.type != aiohttp.WSMsgType.TEXT:
                break
            event = parse_json(message.data)
            if event["type"] == "error":
                raise Mismatch(f"realtime error: {event['error']}")
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
            if event["type"] == "response.done":
                check_text(request.nonce, count, text)
                return
        if socket.close_code in (1001, 1012):
            raise Broken(f"closed with {socket.close_code}")
    check_text(request.nonce, count, text, is_cut=True)
    raise Broken(f"the session ended without response.done (close code {socket.close_code})")
