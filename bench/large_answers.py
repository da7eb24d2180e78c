"""An upstream with large answers: what it is asked for as `model` selects which. For bench/stalls.py.

Usage: python -m bench.large_answers PORT. It answers chats of three wire formats, embeddings, images and completions.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from functools import lru_cache
from typing import Any

import uvloop

MIB = 1024 * 1024
LONG = "word " * (6 * MIB)
USAGE_O = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
USAGE_A = {"input_tokens": 1, "output_tokens": 1}


def text_of(kind: str) -> str:
    return LONG if kind == "text-30" else "yes"


@lru_cache(200)
def answer(path: str, kind: str, streams: bool) -> tuple[str, bytes]:
    """The content type and the body."""
    if "embed" in path.lower():
        return "application/json", vectors(path, kind)
    if "images" in path:
        return "application/json", json.dumps(
            {"created": 1, "data": [{"b64_json": base64.b64encode(bytes(15 * MIB)).decode()}]}
        ).encode()
    if "moderations" in path:
        verdict = {"flagged": False, "categories": {}, "category_scores": {}}
        return "application/json", json.dumps({"id": "m", "model": "m", "results": [verdict]}).encode()
    if "transcriptions" in path:
        return "application/json", b'{"text": "yes"}'
    make = {"messages": anthropic, "responses": responses, "completions": completions}
    if "chat/completions" in path:
        chunks = chat(kind, streams)
    elif "generateContent" in path or "streamGenerateContent" in path:
        chunks = gemini(kind, streams)
    else:
        chunks = make[path.rsplit("/", 1)[1]](kind, streams)
    if streams:
        return "text/event-stream", b"".join(chunks)
    return "application/json", chunks[0]


def frame(value: object, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def pieces(kind: str) -> list[str]:
    if kind.startswith("event-"):
        return ["word " * MIB * (int(kind[6:]) // 5)]
    if kind == "events-small":
        return ["word "] * 50_000
    return ["word " * 1000] * 2000


def arguments(kind: str) -> str:
    return json.dumps({"a": ["w"] * 450_000}) if kind == "tool-values" else json.dumps({"a": LONG})


def chat(kind: str, streams: bool) -> list[bytes]:
    base = {"id": "c", "created": 1, "model": "m"}
    if streams:
        made = [
            frame(
                {
                    **base,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}],
                }
            )
            for piece in pieces(kind)
        ]
        ends = {
            **base,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        }
        return [
            *made,
            frame(ends),
            frame({**base, "object": "chat.completion.chunk", "choices": [], "usage": USAGE_O}),
            b"data: [DONE]\n\n",
        ]
    message: dict[str, object] = {"role": "assistant", "content": text_of(kind)}
    if kind.startswith("tool"):
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": arguments(kind)}}],
        }
    choice: dict[str, object] = {"index": 0, "message": message, "finish_reason": "stop"}
    if kind == "logprobs":
        entry = {
            "token": "a",
            "logprob": -0.1,
            "bytes": [97],
            "top_logprobs": [{"token": "b", "logprob": -0.2, "bytes": [98]}] * 5,
        }
        choice["logprobs"] = {"content": [entry] * 30_000}
    choices = (
        [{**choice, "index": n, "message": {"role": "assistant", "content": "word " * 50_000}} for n in range(128)]
        if kind == "choices-128"
        else [choice]
    )
    return [json.dumps({**base, "object": "chat.completion", "choices": choices, "usage": USAGE_O}).encode()]


def completions(kind: str, streams: bool) -> list[bytes]:
    return [
        json.dumps(
            {
                "id": "c",
                "object": "text_completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "text": text_of(kind), "finish_reason": "stop", "logprobs": None}],
                "usage": USAGE_O,
            }
        ).encode()
    ]


def anthropic(kind: str, streams: bool) -> list[bytes]:
    message: dict[str, object] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE_A,
        "content": [],
    }
    if streams:
        return [
            frame({"type": "message_start", "message": message}, "message_start"),
            frame(
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                "content_block_start",
            ),
            *[
                frame(
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}},
                    "content_block_delta",
                )
                for piece in pieces(kind)
            ],
            frame({"type": "content_block_stop", "index": 0}, "content_block_stop"),
            frame(
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                    "usage": USAGE_A,
                },
                "message_delta",
            ),
            frame({"type": "message_stop"}, "message_stop"),
        ]
    block: object = {"type": "text", "text": text_of(kind)}
    if kind.startswith("tool"):
        block = {"type": "tool_use", "id": "t", "name": "f", "input": json.loads(arguments(kind))}
    return [json.dumps({**message, "stop_reason": "end_turn", "content": [block]}).encode()]


def gemini(kind: str, streams: bool) -> list[bytes]:
    def one(text: str, **more: object) -> dict[str, Any]:
        return {
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}],
            "modelVersion": "m",
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }

    if streams:
        return [*[frame(one(piece)) for piece in pieces(kind)], frame(one("", finishReason="STOP"))]
    if kind.startswith("tool"):
        made = one("", finishReason="STOP")
        made["candidates"][0]["content"]["parts"] = [
            {"functionCall": {"name": "f", "args": json.loads(arguments(kind))}}
        ]
        return [json.dumps(made).encode()]
    return [json.dumps(one(text_of(kind), finishReason="STOP")).encode()]


def responses(kind: str, streams: bool) -> list[bytes]:
    item: dict[str, object] = {
        "type": "message",
        "id": "i",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text_of(kind), "annotations": []}],
    }
    if kind.startswith("tool"):
        item = {
            "type": "function_call",
            "id": "i",
            "call_id": "t",
            "name": "f",
            "arguments": arguments(kind),
            "status": "completed",
        }
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    if not streams:
        return [json.dumps(whole).encode()]
    text = "".join(pieces(kind))
    part = {"type": "output_text", "text": text, "annotations": []}
    done = {**item, "content": [part]}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "content": [], "status": "in_progress"},
        },
        {
            "type": "response.content_part.added",
            "item_id": "i",
            "output_index": 0,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        },
        *[
            {
                "type": "response.output_text.delta",
                "item_id": "i",
                "output_index": 0,
                "content_index": 0,
                "delta": piece,
            }
            for piece in pieces(kind)
        ],
        {"type": "response.output_text.done", "item_id": "i", "output_index": 0, "content_index": 0, "text": text},
        {
            "type": "response.content_part.done",
            "item_id": "i",
            "output_index": 0,
            "content_index": 0,
            "part": part,
        },
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {**whole, "output": [done]}},
    ]
    return [frame({**event, "sequence_number": number}, str(event["type"])) for number, event in enumerate(events)]


def vectors(path: str, kind: str) -> bytes:
    vector = [0.0123456789 + n / 1e6 for n in range(3072)]
    if "batchEmbed" in path:
        return json.dumps({"embeddings": [{"values": vector}] * 100}).encode()
    count = 2048 if kind.startswith("vectors") else 1
    value: object = base64.b64encode(bytes(3072 * 4)).decode() if kind.endswith("64") else vector
    one = json.dumps(value)
    data = ",".join(f'{{"object": "embedding", "index": {n}, "embedding": {one}}}' for n in range(count))
    return f'{{"object": "list", "model": "m", "data": [{data}], "usage": {{"prompt_tokens": 1, "total_tokens": 1}}}}'.encode()


def head(content_type: str, length: int) -> bytes:
    lines = ("HTTP/1.1 200 OK", f"Content-Type: {content_type}", f"Content-Length: {length}", "Connection: close")
    return "\r\n".join((*lines, "", "")).encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request on each connection. Of a long body only the beginning is searched for the model."""
    try:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ", 2)[1].decode()
        length = next(
            (int(line[15:]) for line in request.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        start = await reader.readexactly(min(length, MIB))
        left = length - len(start)
        while left > 0:
            left -= len(await reader.read(MIB))
        kind, streams = find_model(path, start), b'"stream":true' in start.replace(b" ", b"") or "stream" in path
        content_type, body = answer(path.partition("?")[0].replace(f"/models/{kind}:", "/models/m:"), kind, streams)
        writer.write(head(content_type, len(body)) + body)
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def find_model(path: str, start: bytes) -> str:
    if "/models/" in path:
        return path.split("/models/")[1].partition(":")[0]
    at = start.find(b'"model"')
    return start[at + 7 :].split(b'"')[1].decode() if at >= 0 else ""


async def main(port: int) -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=4 * MIB)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
