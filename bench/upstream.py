"""A fast mock upstream: prepared responses from one asyncio protocol.

Usage: python -m bench.upstream PORT. What is asked decides the answer: 50 events for ``"stream":true``, each written by itself,
20 ms apart when the text asks for them "slowly", in one write when it asks for them "in one go"; vectors of 1,536 floats for
every input of an embeddings request; a picture of 5 MB in base64; and a whole chat for the rest, also for GET, where routers
look for a worker's health and models.
Wire facts: openai-python 3.52, types/chat, types/create_embedding_response.py, types/images_response.py; Gemini's
GenerateContentResponse, https://ai.google.dev/api/generate-content (read 2026-11-28).
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import resource
import sys
from typing import Any, cast

import httptools
import uvloop

CHUNKS = 50
GAP_SECONDS = 0.02
DIMENSIONS = 1536
PICTURE_BYTES = 5_000_000  # size of the base64 text
WORD = b"word "
DONE = b"data: [DONE]\n\n"
CHUNK_FIELDS = {"id": "chatcmpl-1", "created": 1, "model": "mocked"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 50, "total_tokens": 59}


def dump_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def make_chunk(reason: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": reason}
    return b"data: %b\n\n" % dump_json({**CHUNK_FIELDS, "object": "chat.completion.chunk", "choices": [choice]})


def frame_chunk(data: bytes) -> bytes:
    """One piece of a body in chunked coding, RFC 9112 7.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def make_answer(body: bytes) -> bytes:
    """Return a response with a Content-Length."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


MESSAGE = {"role": "assistant", "content": (WORD * 50).decode()}
CHAT = make_answer(
    dump_json(
        {
            **CHUNK_FIELDS,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
            "usage": USAGE,
        }
    )
)
GEMINI = make_answer(
    dump_json(
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": (WORD * 50).decode()}], "role": "model"},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 50, "totalTokenCount": 59},
            "modelVersion": "mocked",
            "responseId": "response-1",
        }
    )
)
MODELS = make_answer(dump_json({"object": "list", "data": [{"id": "mocked", "object": "model"}], "status": "ready"}))
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = frame_chunk(DONE) + b"0\r\n\r\n"
PIECES = (
    STREAM_HEAD + frame_chunk(make_chunk(None)),
    *(frame_chunk(make_chunk(None)) for _ in range(CHUNKS - 2)),
    frame_chunk(make_chunk("stop")),
)
BURST = b"".join(PIECES) + STREAM_END


@functools.cache
def make_picture() -> bytes:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(PICTURE_BYTES * 3 // 4)).decode()
    return make_answer(dump_json({"created": 1, "data": [{"b64_json": data}]}))


@functools.lru_cache(maxsize=4)
def make_vectors(count: int) -> bytes:
    """Return embeddings for that many inputs."""
    vector = [round((n % 97 - 48) / 4096, 6) for n in range(DIMENSIONS)]
    data = [{"object": "embedding", "index": n, "embedding": vector} for n in range(count)]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return make_answer(dump_json({"object": "list", "data": data, "model": "mocked", "usage": usage}))


class MockUpstream(asyncio.Protocol):
    """One connection of a gateway."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._url, self._body = b"", b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url, self._body = url, b""

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        """Send the response at once. Streams are started here; `_write_next` writes the rest."""
        assert self._transport is not None
        if b"/embeddings" in self._url:
            self._transport.write(make_vectors(len(json.loads(self._body)["input"])))
        elif b"/images" in self._url:
            self._transport.write(make_picture())
        elif b'"stream":true' in self._body or b'"stream": true' in self._body:
            if b"in one go" in self._body:
                self._transport.write(BURST)
            else:
                self._write_next(0, GAP_SECONDS if b"slowly" in self._body else 0.0)
        elif b":generateContent" in self._url:
            self._transport.write(GEMINI)
        elif not self._body:
            self._transport.write(MODELS)
        else:
            self._transport.write(CHAT)

    def _write_next(self, number: int, gap: float) -> None:
        """Write one event per turn of the loop, so that each is a separate write."""
        if self._transport is None:
            return
        if number == CHUNKS:
            self._transport.write(STREAM_END)
            return
        self._transport.write(PIECES[number])
        if gap:
            self._loop.call_later(gap, self._write_next, number + 1, gap)
        else:
            self._loop.call_soon(self._write_next, number + 1, gap)


async def main(port: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    make_picture()
    server = await asyncio.get_running_loop().create_server(MockUpstream, "127.0.0.1", port, backlog=8192)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
