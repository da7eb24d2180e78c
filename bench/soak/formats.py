"""Requests and answers in three wire formats, as the vendors' SDKs write and read them, with checks of every byte that matters.

This reads answers with its own few lines: the gateway's own parsers must not judge the gateway.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from bench.soak.records import Mismatch, Mixed
from bench.soak.site import KEY
from bench.soak.words import NONCE, make_prompt, make_words

SDK_HEADERS = {
    "chat": {"User-Agent": "OpenAI/Python 3.52.0", "X-Stainless-Lang": "python", "Authorization": f"Bearer {KEY}"},
    "responses": {"User-Agent": "OpenAI/Python 3.52.0", "X-Stainless-Lang": "python", "Authorization": f"Bearer {KEY}"},
    "messages": {"User-Agent": "Anthropic/Python 2.11.0", "x-api-key": KEY, "anthropic-version": "2023-06-01"},
    "generate": {"x-goog-api-client": "google-genai-sdk/3.4.0 gl-python/3.11", "x-goog-api-key": KEY},
}


@dataclass(frozen=True, slots=True)
class ErrorAnswer(Exception):
    """A well-formed error: the status, and where in the answer it came."""

    status: int
    message: str
    is_in_stream: bool = False


def make_request(way: str, model: str, nonce: str, count: int, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """(path, body) of a request for text."""
    prompt = make_prompt(nonce, count)
    messages = [{"role": "user", "content": prompt}]
    if way == "chat":
        return "/v1/chat/completions", {"model": model, "messages": messages, "stream": stream}
    if way == "responses":
        return "/v1/responses", {"model": model, "input": messages, "stream": stream, "store": False}
    if way == "messages":
        return "/v1/messages", {"model": model, "messages": messages, "stream": stream, "max_tokens": 1000}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}


def check_error(way: str, status: int, content_type: str, body: bytes) -> ErrorAnswer:
    """The error of an answer whose status is not 200. Raises Mismatch unless it has the caller's format."""
    if not content_type.startswith("application/json"):
        raise Mismatch(f"status {status} with content type {content_type!r}: {body[:200]!r}")
    return _check_error_object(way, status, parse_json(body), is_in_stream=False)


def _check_error_object(way: str, status: int, value: Any, *, is_in_stream: bool) -> ErrorAnswer:
    error = value.get("error") if isinstance(value, dict) else None
    if way == "responses" and is_in_stream and isinstance(value, dict) and value.get("type") == "error":
        error = value.get("error") or value
    if not isinstance(error, dict) or not isinstance(error.get("message"), str) or not error["message"]:
        raise Mismatch(f"status {status} without an error object: {str(value)[:200]}")
    if way == "messages" and value.get("type") != "error":
        raise Mismatch(f"status {status}: the error lacks the outer type: {str(value)[:200]}")
    if way == "generate" and not isinstance(error.get("status"), str):
        raise Mismatch(f"status {status}: the error lacks `status`: {str(value)[:200]}")
    return ErrorAnswer(status, error["message"], is_in_stream)


def parse_json(data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise Mismatch(f"invalid JSON ({error}): {data[-200:]!r}") from error


def read_whole(way: str, body: bytes) -> str:
    """The text of a whole answer. Raises Mismatch if it has another shape or another end than a normal one."""
    value = parse_json(body)
    try:
        match way:
            case "chat":
                text, end = value["choices"][0]["message"]["content"], value["choices"][0]["finish_reason"]
            case "responses":
                text, end = value["output"][-1]["content"][0]["text"], value["status"]
            case "messages":
                text, end = "".join(part["text"] for part in value["content"]), value["stop_reason"]
            case _:
                candidate = value["candidates"][0]
                text, end = "".join(p["text"] for p in candidate["content"]["parts"]), candidate["finishReason"]
    except (KeyError, IndexError, TypeError) as error:
        raise Mismatch(f"no {way} answer ({error!r}): {str(value)[:300]}") from error
    if end not in ("stop", "completed", "end_turn", "STOP"):
        raise Mismatch(f"ends with {end!r}")
    return str(text)


async def iterate_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str]]:
    """(event, data) of server-sent events. Raises Mismatch if the stream ends inside one or is not UTF-8."""
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n\n")) >= 0:
            frame, buffer = buffer[:end], buffer[end + 2 :]
            try:
                lines = frame.decode("utf-8").split("\n")
            except UnicodeDecodeError as error:
                raise Mismatch(f"an event is not UTF-8: {frame[:200]!r}") from error
            fields = [line.partition(": ") for line in lines if not line.startswith(":")]
            data = [value for name, _, value in fields if name == "data"]
            if data:
                yield next((value for name, _, value in fields if name == "event"), ""), "\n".join(data)
    if buffer.strip():
        raise Mismatch(f"the stream ends inside an event: {buffer[-200:]!r}")


class StreamText:
    """Collects the text of a stream, event by event; `is_ended` after its normal end."""

    def __init__(self, way: str) -> None:
        self._way = way
        self.text = ""
        self.is_ended = False

    def feed(self, data: str) -> None:
        """Take one event. Raises ErrorAnswer for an error event, Mismatch for one after the end."""
        if self._way == "chat" and data == "[DONE]":
            self.is_ended = True
            return
        event = parse_json(data)
        if not isinstance(event, dict):
            raise Mismatch(f"an event is no object: {data[:200]}")
        if event.get("error") or event.get("type") in ("error", "response.failed"):
            failed = event.get("response") if event.get("type") == "response.failed" else event
            raise _check_error_object(self._way, 200, failed, is_in_stream=True)
        if self.is_ended and self._way != "generate":  # its usage may follow
            raise Mismatch(f"an event after the end: {data[:200]}")
        self.text += self._read(event)

    def _read(self, event: dict[str, Any]) -> str:
        match self._way:
            case "chat":
                choices = event.get("choices") or [{}]
                return (choices[0].get("delta") or {}).get("content") or ""
            case "responses":
                self.is_ended = event["type"] == "response.completed"
                return event["delta"] if event["type"] == "response.output_text.delta" else ""
            case "messages":
                self.is_ended = event["type"] == "message_stop"
                return (event.get("delta") or {}).get("text") or "" if event["type"] == "content_block_delta" else ""
            case _:
                candidate = (event.get("candidates") or [{}])[0]
                self.is_ended = self.is_ended or bool(candidate.get("finishReason"))
                parts = (candidate.get("content") or {}).get("parts") or []
                return "".join(part.get("text") or "" for part in parts)


def check_text(nonce: str, count: int, text: str, *, is_cut: bool = False, faults: tuple[str, ...] = ()) -> None:
    """Check the text of an answer; `is_cut`: it may be a beginning. `faults` are those that its upstream had.

    Raises Mixed if it holds another request's nonce, and Mismatch for any other difference.
    """
    if foreign := {found for found in NONCE.findall(text) if found != nonce}:
        raise Mixed(f"the answer to {nonce} holds {sorted(foreign)[:3]}")
    words = make_words(nonce, count)
    expected = "".join(words)
    if "duplicate events" in faults or "endless stream" in faults:
        text = _undouble(text)
    if not (expected.startswith(text) if is_cut else text == expected):
        raise Mismatch(f"expected {expected[:60]!r}…{expected[-30:]!r}, got {text[:60]!r}…{text[-60:]!r}")


def _undouble(text: str) -> str:
    """The text without words that follow themselves: what an upstream sent twice."""
    words: list[str] = []
    for word in text.split(" "):
        if not words or words[-1] != word:
            words.append(word)
    return " ".join(words)
