"""Streams of every chat format, made by the formats from one plan, and what the vendors' SDKs read from them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anthropic.types
import orjson
from anthropic.lib.streaming._messages import accumulate_event
from google.genai import types as genai_types
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

import tornado_gate_anthropic.format
import tornado_gate_gemini.format
import tornado_gate_openai.format
from qa.matrix.walk import Recollection
from tornado_gate import sse
from tornado_gate.guards.text_streams import guard_stream
from tornado_gate.testing import call_to, iterate, load_format, target_of, wire_request
from tornado_gate.types import (
    Finish,
    GuardedText,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    Route,
    Span,
    StreamEvent,
    Usage,
    UsageReport,
)
from tornado_gate.types.texts import find_spans

SECRET: Final = re.compile(r"key-[a-zé]{4}")
LONGEST_SECRET: Final = 8
MASK: Final = '<"é">'


@dataclass(frozen=True)
class Planned:
    """One part of an answer: its kind, and its text in pieces."""

    kind: str
    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def make_events(parts: Iterable[Planned]) -> list[StreamEvent]:
    events: list[StreamEvent] = [ResponseStart(model="up", id="up-1", created=5)]
    reason: Any = "stop"
    for index, part in enumerate(parts):
        is_call = part.kind == "tool_call"
        start = {"id": f"call_{index}", "name": "mail"} if is_call else {}
        reason = "tool_calls" if is_call else reason
        events.append(PartStart(index=index, kind=part.kind, **start))  # type: ignore[arg-type]  # a plan of known kinds
        for piece in part.pieces:
            entry = {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": []}
            events.append(PartDelta(index=index, data=piece, logprobs=(entry,) if part.kind == "text" else None))
        events.append(PartEnd(index=index))
    events.append(UsageReport(usage=Usage(input_tokens=1, output_tokens=2)))
    events.append(Finish(reason=reason))
    return events


@dataclass(frozen=True)
class Dialect:
    """One chat format: how its stream is asked for, and how its SDK reads it as texts by kind."""

    plugin: Any
    path: str
    body: dict[str, Any]
    read: Callable[[bytes], dict[str, list[str]]]
    kinds: tuple[str, ...] = ("thinking", "text", "tool_call")
    query: tuple[tuple[str, str], ...] = ()

    @property
    def route(self) -> Route:
        found: Route = next(one for one in self.plugin.routes() if one.method == "POST" and one.path == self.path)
        return found

    def render(self, events: Sequence[StreamEvent]) -> bytes:
        """The stream that a caller of the format gets for these events."""

        async def run() -> bytes:
            lane = load_format(self.plugin)
            call = call_to(
                id="1", operation="chat", format="f", model="m", target=target_of(plugin="p"), memory=Recollection()
            )
            arguments = {"model": "m"} if "{model}" in self.path else {}
            wire = wire_request(
                self.route,
                self.body,
                query=dict(self.query),
                path_arguments=arguments,
                headers={"anthropic-version": "2023-06-01"},
            )
            request = await lane.translate_request(call, wire)
            reply = lane.translate_response(call, request, iterate(events))
            return b"".join([chunk async for chunk in reply.chunks])

        return asyncio.run(run())


def guard(dialect: Dialect, chunks: Iterable[bytes], lookahead: int = LONGEST_SECRET) -> bytes:
    """The stream after a guard that replaces secrets."""

    async def review(texts: list[GuardedText]) -> list[Span]:
        return find_spans(texts, SECRET, lambda _: MASK)

    async def run() -> bytes:
        assert dialect.route.texts is not None
        guarded: AsyncIterator[bytes] = guard_stream(
            dialect.route.texts, iterate(chunks), lookahead, review, lambda unread: None
        )
        return b"".join([chunk async for chunk in guarded])

    return asyncio.run(run())


def read_values(raw: bytes) -> list[Any]:
    """The JSON of each event."""
    if raw.startswith((b"[", b"{")):
        found = json.loads(raw)
        return found if isinstance(found, list) else [found]
    frames = [sse.parse(frame) for frame in sse.split(raw)]
    return [orjson.loads(frame.data) for frame in frames if frame is not None and frame.data.strip() != b"[DONE]"]


def read_chat(raw: bytes) -> dict[str, list[str]]:
    state = ChatCompletionStreamState()
    for value in read_values(raw):
        state.handle_chunk(ChatCompletionChunk.model_validate(value))
    choice = state.get_final_completion().choices[0]
    message = choice.message
    entries = (choice.logprobs.content if choice.logprobs else None) or []
    return {
        "thinking": [(message.model_extra or {}).get("reasoning_content") or ""],
        "text": [message.content or ""],
        "tool_call": [call.function.arguments for call in message.tool_calls or () if call.type == "function"],
        "logprobs": ["".join(entry.token for entry in entries)],
    }


def read_completion(raw: bytes) -> dict[str, list[str]]:
    choices = [choice for value in read_values(raw) for choice in value["choices"]]
    return {"text": ["".join(choice["text"] for choice in choices)]}


def read_responses(raw: bytes) -> dict[str, list[str]]:
    """The texts of the whole response at the end, which the pieces of the stream must add up to."""
    values = read_values(raw)
    numbers = [value["sequence_number"] for value in values]
    assert numbers == sorted(set(numbers)), "sequence numbers grow"
    pieces: dict[tuple[Any, ...], str] = {}
    for value in values:
        if value["type"].endswith(".delta"):
            key = (value["item_id"], value.get("content_index"), value.get("summary_index"))
            pieces[key] = pieces.get(key, "") + value["delta"]
    found: dict[str, list[str]] = {"thinking": [], "text": [], "tool_call": []}
    for item in values[-1]["response"]["output"]:
        for number, part in enumerate(item.get("content") or ()):
            kind = "thinking" if item["type"] == "reasoning" else "text"
            assert pieces.pop((item["id"], number, None), "") == part["text"]
            found[kind].append(part["text"])
        for number, part in enumerate(item.get("summary") or ()):
            assert pieces.pop((item["id"], None, number), "") == part["text"]
            found["thinking"].append(part["text"])
        if item["type"] == "function_call":
            assert pieces.pop((item["id"], None, None), "") == item["arguments"]
            found["tool_call"].append(item["arguments"])
    assert not any(pieces.values())
    return found


def read_messages(raw: bytes) -> dict[str, list[str]]:
    adapter: Any = anthropic.types
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for value in read_values(raw):
        name = "".join(part.title() for part in value["type"].split("_"))
        event = getattr(adapter, f"Raw{name}Event", None)
        if event is not None:
            snapshot = accumulate_event(event=event.model_validate(value), current_snapshot=snapshot, json_bufs=buffers)
    blocks = snapshot.content
    return {
        "thinking": [block.thinking for block in blocks if block.type == "thinking"],
        "text": [block.text for block in blocks if block.type == "text"],
        "tool_call": [json.dumps(block.input) for block in blocks if block.type == "tool_use"],
    }


def read_gemini(raw: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"thinking": [""], "text": [""], "tool_call": []}
    for value in read_values(raw):
        chunk = genai_types.GenerateContentResponse.model_validate(value)
        for candidate in chunk.candidates or ():
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.function_call:
                    found["tool_call"].append(json.dumps(part.function_call.args))
                elif part.text:
                    found["thinking" if part.thought else "text"][0] += part.text
    return found


_QUESTION: Final = [{"role": "user", "content": "Hi"}]
_STREAMED: Final = {"model": "m", "stream": True}
_GEMINI_QUESTION: Final = {
    "contents": [{"parts": [{"text": "Hi"}]}],
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
}
DIALECTS: Final = {
    "chat": Dialect(
        tornado_gate_openai.format,
        "/v1/chat/completions",
        {**_STREAMED, "messages": _QUESTION, "logprobs": True},
        read_chat,
    ),
    "completions": Dialect(
        tornado_gate_openai.format, "/v1/completions", {**_STREAMED, "prompt": "Hi"}, read_completion, kinds=("text",)
    ),
    "responses": Dialect(
        tornado_gate_openai.format, "/v1/responses", {**_STREAMED, "input": "Hi", "store": False}, read_responses
    ),
    "messages": Dialect(
        tornado_gate_anthropic.format,
        "/v1/messages",
        {**_STREAMED, "max_tokens": 9, "messages": _QUESTION, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        read_messages,
    ),
    "gemini": Dialect(
        tornado_gate_gemini.format,
        "/v1beta/models/{model}:streamGenerateContent",
        _GEMINI_QUESTION,
        read_gemini,
        query=(("alt", "sse"),),
    ),
    "gemini array": Dialect(
        tornado_gate_gemini.format,
        "/v1beta/models/{model}:streamGenerateContent",
        _GEMINI_QUESTION,
        read_gemini,
    ),
}
