"""A mock upstream that costs next to nothing: a fixed chat answer, or a fixed stream, whatever was asked.

Usage: python bench/upstream.py PORT. A request whose body holds ``"stream":true`` gets 50 chunks.
"""

from __future__ import annotations

import asyncio
import sys

WHOLE = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello there."},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}'
)
CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":%b}]}\n\n'
)
STREAM = b"".join([CHUNK % b"null"] * 49 + [CHUNK % b'"stop"', b"data: [DONE]\n\n"])
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE)
STREAMED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(STREAM), STREAM)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests on one connection until it ends."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            body = await reader.readexactly(length)
            writer.write(STREAMED if b'"stream":true' in body else ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(port: int) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
