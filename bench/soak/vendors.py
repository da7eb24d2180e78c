"""The right answers of the upstream in the wire formats of three vendors: pieces of bytes, one for each write.

Wire facts: openai-python 3.52 (types/chat, create_embedding_response, images_response, video), anthropic 2.11
(types/raw_message_stream_event), google-genai 3.4 (types.GenerateContentResponse).
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import Any

from bench.soak.words import DIMENSIONS, make_film, make_picture, make_sound, make_vector, make_words, read_prompt

JSON, EVENTS = "application/json", "text/event-stream"
POLLS = 2
"""A video is finished at the poll after so many."""


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """A right answer; `nonce` is that of the prompt."""

    nonce: str
    content_type: str
    pieces: list[bytes]

    @property
    def is_stream(self) -> bool:
        return self.content_type == EVENTS


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def make_frame(value: Any, name: str = "") -> bytes:
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + dump(value) + b"\n\n"


class Vendors:
    """Answers any request of the gateway. Remembers how often each video was polled."""

    def __init__(self) -> None:
        self._polls: dict[str, int] = {}

    def answer(self, method: str, path: str, body: bytes) -> RightAnswer:
        """The right answer. Raises ValueError for a request without a prompt."""
        if "/videos" in path:
            return self._answer_video(method, path, body)
        nonce, count = read_prompt(body)
        if path.endswith("/embeddings"):
            return RightAnswer(nonce, JSON, [dump(_make_embeddings(nonce, json.loads(body)))])
        if path.endswith("/images/generations"):
            picture = base64.b64encode(make_picture(nonce)).decode()
            return RightAnswer(nonce, JSON, [dump({"created": 1, "data": [{"b64_json": picture}]})])
        if path.endswith("/audio/speech"):
            return RightAnswer(nonce, "audio/mpeg", [make_sound(nonce)])
        words = make_words(nonce, count)
        if "/messages" in path:
            return _answer_messages(nonce, words, json.loads(body))
        if "GenerateContent" in path or "generateContent" in path:
            return _answer_generate(nonce, words, is_stream="streamGenerateContent" in path)
        return _answer_chat(nonce, words, json.loads(body))

    def _answer_video(self, method: str, path: str, body: bytes) -> RightAnswer:
        """POST creates a job whose name contains the nonce; its polls and its content are found by the name."""
        if method == "POST":
            nonce, _ = read_prompt(body)
            self._polls[nonce] = 0
            return RightAnswer(nonce, JSON, [dump(_make_video(nonce, "queued"))])
        nonce = path.partition("/videos/")[2].partition("/")[0].removeprefix("video_")
        if method == "DELETE":
            return RightAnswer(
                nonce, JSON, [dump({"id": f"video_{nonce}", "object": "video.deleted", "deleted": True})]
            )
        if path.endswith("/content"):
            self._polls.pop(nonce, None)
            return RightAnswer(nonce, "video/mp4", [make_film(nonce)])
        polls = self._polls.get(nonce, POLLS) + 1
        if nonce in self._polls:
            self._polls[nonce] = polls
        return RightAnswer(nonce, JSON, [dump(_make_video(nonce, "completed" if polls > POLLS else "in_progress"))])


def _make_video(nonce: str, status: str) -> dict[str, Any]:
    progress = {"queued": 0, "in_progress": 50, "completed": 100}[status]
    return {
        "id": f"video_{nonce}", "object": "video", "model": "sora-2", "status": status, "progress": progress,
        "created_at": 1, "size": "720x1280", "seconds": "4",
    }  # fmt: skip


def _make_embeddings(nonce: str, body: dict[str, Any]) -> dict[str, Any]:
    inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors: list[Any] = [make_vector(nonce, int(text.rpartition(" ")[2])) for text in inputs]
    if body.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    usage = {"prompt_tokens": len(inputs), "total_tokens": len(inputs)}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _answer_chat(nonce: str, words: list[str], body: dict[str, Any]) -> RightAnswer:
    usage = {"prompt_tokens": 9, "completion_tokens": len(words), "total_tokens": 9 + len(words)}
    head = {"id": f"chatcmpl-{nonce}", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": "".join(words)}, "finish_reason": "stop"}
        return RightAnswer(
            nonce, JSON, [dump({**head, "object": "chat.completion", "choices": [choice], "usage": usage})]
        )
    head["object"] = "chat.completion.chunk"

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return make_frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    last = [make_frame({**head, "choices": [], "usage": usage})] if body.get("stream_options") else []
    frames = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in words)]
    return RightAnswer(nonce, EVENTS, [*frames, chunk({}, "stop"), *last, b"data: [DONE]\n\n"])


def _answer_messages(nonce: str, words: list[str], body: dict[str, Any]) -> RightAnswer:
    usage = {"input_tokens": 9, "output_tokens": len(words)}
    message = {
        "id": f"msg_{nonce}", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None,
        "content": [{"type": "text", "text": "".join(words)}], "stop_reason": "end_turn", "usage": usage,
    }  # fmt: skip
    if not body.get("stream"):
        return RightAnswer(nonce, JSON, [dump(message)])
    empty = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    deltas: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words
    ]
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": empty},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        ended,
        {"type": "message_stop"},
    ]
    return RightAnswer(nonce, EVENTS, [make_frame(one, one["type"]) for one in events])


def _answer_generate(nonce: str, words: list[str], *, is_stream: bool) -> RightAnswer:
    usage = {
        "promptTokenCount": 9,
        "candidatesTokenCount": len(words),
        "totalTokenCount": 9 + len(words),
    }

    def chunk(text: str, reason: str | None) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
        ended = {"finishReason": reason} if reason else {}
        return {"candidates": [{**candidate, **ended}], "modelVersion": "gemini", "responseId": nonce} | (
            {"usageMetadata": usage} if reason else {}
        )

    if not is_stream:
        return RightAnswer(nonce, JSON, [dump(chunk("".join(words), "STOP"))])
    frames = [make_frame(chunk(word, None)) for word in words[:-1]]
    return RightAnswer(nonce, EVENTS, [*frames, make_frame(chunk(words[-1], "STOP"))])
