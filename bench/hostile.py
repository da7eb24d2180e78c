"""An upstream that misbehaves: what it is asked for as `model` selects how. For bench/attacks.py.

Usage: python -m bench.hostile PORT. `GET /closed` answers with the seconds after which the gateway closed the connection of the
last endless response, `GET /picture` is a PNG header with 19 MB of noise; every other path is asked for by a gateway.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time

import uvloop

MIB = 1024 * 1024
PICTURE = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\x02\0\0\0" + bytes(19 * 1000 * 1000)
DELTA = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
FRAME = {**DELTA, "choices": [{"index": 0, "delta": {"content": "word " * 2000}, "finish_reason": None}]}
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "yes"}]}, "finishReason": "STOP"}]}


class State:
    """The time between the begin of the last endless response and the end of its connection."""

    closed_after = -1.0


def head(content_type: str, *more: str) -> bytes:
    lines = ("HTTP/1.1 200 OK", f"Content-Type: {content_type}", "Connection: close", *more)
    return "\r\n".join((*lines, "", "")).encode()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request on each connection; the gateway opens another for the next."""
    started = time.monotonic()
    try:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ", 2)[1].decode().partition("?")[0]
        length = next(
            (int(line[15:]) for line in request.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        body = await reader.readexactly(length)
        await write(writer, path, body)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        State.closed_after = time.monotonic() - started
    finally:
        writer.close()


async def write(writer: asyncio.StreamWriter, path: str, body: bytes) -> None:
    if path == "/closed":
        return write_whole(writer, {"seconds": State.closed_after})
    if path == "/picture":
        return writer.write(head("image/png", f"Content-Length: {len(PICTURE)}") + PICTURE)
    if "generateContent" in path:
        return write_whole(writer, GEMINI)
    model = json.loads(body)["model"] if body else ""
    if model == "bomb":
        return writer.write(head("application/json", "Content-Encoding: gzip") + BOMB)
    if model in ("large", "endless-event", "endless-stream"):
        State.closed_after = -1.0
        return await write_much(writer, model)
    return write_whole(writer, CHAT)


def write_whole(writer: asyncio.StreamWriter, value: object) -> None:
    body = json.dumps(value).encode()
    writer.write(head("application/json", f"Content-Length: {len(body)}") + body)


async def write_much(writer: asyncio.StreamWriter, model: str) -> None:
    """400 MB of JSON, or of one event that does not end; or a stream that ends only with its connection."""
    start, piece, times = {
        "large": (head("application/json") + b'{"id": "', b"a" * MIB, 400),
        "endless-event": (head("text/event-stream") + b'data: {"id": "', b"a" * MIB, 400),
        "endless-stream": (head("text/event-stream"), b"data: %b\n\n" % json.dumps(FRAME).encode(), 10**9),
    }[model]
    writer.write(start)
    for _ in range(times):
        writer.write(piece)
        await writer.drain()


BOMB = b""


async def main(port: int) -> None:
    global BOMB  # noqa: PLW0603  made at start: it takes seconds
    BOMB = gzip.compress(json.dumps(CHAT).encode() + b" " * (1000 * MIB), 9)
    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=64 * MIB)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
