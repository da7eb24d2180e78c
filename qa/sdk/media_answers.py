"""Answers of the scripted upstream beyond chat, as the vendors' APIs give them.

Source: openai-python 3.52 (types/), google-genai 3.4 (types), dashscope 2.0.2 (its own SDK).
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support.upstream import Answer, Upstream, answer, sse

IMAGE_USAGE = {
    "total_tokens": 30,
    "input_tokens": 10,
    "output_tokens": 20,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 0},
}
SPEECH_USAGE = {"input_tokens": 4, "output_tokens": 7, "total_tokens": 11}
TASK = "86ecf553-d340-4e21"


def make_answer(body: Any, path: str = "") -> Answer:
    return answer(json.dumps(body), path=path)


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def images(*pictures: bytes) -> Answer:
    """OpenAI's answer with pictures inside."""
    return make_answer(
        {"created": 1700000000, "data": [{"b64_json": text_of(one)} for one in pictures], "usage": IMAGE_USAGE}
    )


def image_stream(partials: list[bytes], last: bytes, what: str = "image_generation") -> Answer:
    """OpenAI's stream of unfinished pictures and the finished one."""
    rest = {
        "created_at": 1700000000,
        "background": "opaque",
        "output_format": "png",
        "quality": "low",
        "size": "1024x1024",
    }
    events = [
        {"type": f"{what}.partial_image", "partial_image_index": index, "b64_json": text_of(one), **rest}
        for index, one in enumerate(partials)
    ]
    completed = {"type": f"{what}.completed", "b64_json": text_of(last), "usage": IMAGE_USAGE, **rest}
    return answer(sse(*events, completed))


def speech_events(*pieces: bytes) -> Answer:
    """OpenAI's sound in events."""
    deltas = [{"type": "speech.audio.delta", "audio": text_of(piece)} for piece in pieces]
    return answer(sse(*deltas, {"type": "speech.audio.done", "usage": SPEECH_USAGE}))


def file(data: bytes, media_type: str, path: str = "") -> Answer:
    return answer(data, headers={"content-type": media_type}, path=path)


def generated(data: bytes, media_type: str) -> Answer:
    """Gemini's answer with one file inside."""
    part = {"inlineData": {"mimeType": media_type, "data": text_of(data)}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}
    return make_answer({"candidates": [candidate], "usageMetadata": usage})


def model_studio(upstream: Upstream, *paths: str) -> Answer:
    """Model Studio's answer at once: the addresses of its pictures."""
    choices = [
        {"finish_reason": "stop", "message": {"role": "assistant", "content": [{"image": upstream.url + path}]}}
        for path in paths
    ]
    usage = {"image_count": len(paths), "width": 64, "height": 64}
    return make_answer({"output": {"choices": choices}, "usage": usage, "request_id": "r"})


def task(status: str, **output: Any) -> Answer:
    """What Model Studio says of a task."""
    return make_answer({"output": {"task_id": TASK, "task_status": status, **output}, "request_id": "r"})
