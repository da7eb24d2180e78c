"""The requests that are sent to every gateway, and the checks of the responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench import upstream
from bench.load import Expected

MODEL = "mocked"
QUESTION = "Say hello to everybody who is here, and then tell me what the weather is like today."
QUESTION_AT_ONCE = QUESTION + " Answer in one go."
WHOLE = Expected(ends=b"}", least_bytes=400, holds=upstream.WORD, times=50)
STREAM = Expected(ends=b"data: [DONE]", least_bytes=5000, holds=upstream.WORD, times=50)
ANTHROPIC_WHOLE = Expected(ends=b"}", least_bytes=400, holds=b'"stop_reason"', times=1)
# LiteLLM appends a frame of its own, so the check searches for the end of the message and counts the words.
ANTHROPIC_STREAM = Expected(ends=b"}", least_bytes=3000, holds=b"word ", times=50)
VECTORS = Expected(ends=b"}", least_bytes=2048 * 1536 * 2, holds=b'"embedding":[', times=2048)
PICTURE = Expected(ends=b"}", least_bytes=upstream.PICTURE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of request. `connections` is the number of connections that repeat it."""

    name: str
    title: str
    path: str
    body: bytes
    expected: Expected
    connections: int = 16

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers that every gateway needs."""
        version = {"anthropic-version": "2023-06-01"} if self.path == "/v1/messages" else {}
        return {"Content-Type": "application/json", **version}

    def request(self, headers: Mapping[str, str]) -> bytes:
        """Return the bytes of the request, with the headers that a gateway needs."""
        lines = [f"POST {self.path} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in {**self.headers, **headers}.items()]
        lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


def dump_json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def make_chat_body(messages: int, *, stream: bool = False, text: str = QUESTION, anthropic: bool = False) -> bytes:
    """Return a chat request with that many messages of 400 characters, the last one short."""
    talk = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": "x" * 360} for n in range((messages - 1) // 2 * 2)
    ]
    asked: dict[str, Any] = {"model": MODEL, "messages": [*talk, {"role": "user", "content": text}], "max_tokens": 100}
    if not anthropic:
        asked |= {"temperature": 0.7, "user": "somebody"}
    return dump_json(asked | {"stream": True} if stream else asked)


INPUTS = [f"input number {n} of many" for n in range(2048)]
CASES = (
    Case(name="chat", title="chat 200 B, c16", path="/v1/chat/completions", body=make_chat_body(1), expected=WHOLE),
    Case(
        name="chat64",
        title="chat 200 B, c64",
        path="/v1/chat/completions",
        body=make_chat_body(1),
        expected=WHOLE,
        connections=64,
    ),
    Case(
        name="long", title="100 messages, 40 KB", path="/v1/chat/completions", body=make_chat_body(101), expected=WHOLE
    ),
    Case(
        name="stream",
        title="stream of 50",
        path="/v1/chat/completions",
        body=make_chat_body(1, stream=True),
        expected=STREAM,
    ),
    Case(
        name="burst",
        title="stream of 50 in one go",
        path="/v1/chat/completions",
        body=make_chat_body(1, stream=True, text=QUESTION_AT_ONCE),
        expected=STREAM,
    ),
    Case(
        name="messages",
        title="A in, O out",
        path="/v1/messages",
        body=make_chat_body(1, anthropic=True),
        expected=ANTHROPIC_WHOLE,
    ),
    Case(
        name="messages-stream",
        title="A in, O out, stream of 50",
        path="/v1/messages",
        body=make_chat_body(1, stream=True, anthropic=True),
        expected=ANTHROPIC_STREAM,
    ),
    Case(
        name="messages-burst",
        title="A in, O out, in one go",
        path="/v1/messages",
        body=make_chat_body(1, stream=True, text=QUESTION_AT_ONCE, anthropic=True),
        expected=ANTHROPIC_STREAM,
    ),
    Case(
        name="vectors",
        title="embeddings, 2,048 inputs",
        path="/v1/embeddings",
        body=dump_json({"model": MODEL, "input": INPUTS}),
        expected=VECTORS,
        connections=2,
    ),
    Case(
        name="picture",
        title="image answer, 5 MB",
        path="/v1/images/generations",
        body=dump_json({"model": MODEL, "prompt": "a lighthouse at night", "response_format": "b64_json"}),
        expected=PICTURE,
        connections=4,
    ),
)
CASES_BY_NAME = {case.name: case for case in CASES}
SLOW_CASE = Case(
    name="slow",
    title="slow stream",
    path="/v1/chat/completions",
    body=make_chat_body(1, stream=True, text=QUESTION + " Speak slowly."),
    expected=STREAM,
)
