"""The Gemini API. Source: google-genai 3.4 (types), and the recorded responses of this project's tests."""

from __future__ import annotations

import base64
import json
from typing import Any

from tornado_gate.testing.conformance.imitations.words import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PCM,
    PICTURE_TEXT,
    TEXT,
    TOOL_INPUT,
    VECTOR,
    VIDEO,
    WORDS,
)
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer, json_answer, sse_answer

_USAGE = {
    "promptTokenCount": INPUT_TOKENS,
    "candidatesTokenCount": OUTPUT_TOKENS,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}


def answer(request: ReceivedRequest) -> UpstreamAnswer:
    """Return the vendor's response to a request, by the method at the end of its path."""
    body, method = request.json or {}, request.path.rpartition(":")[2]
    if "/operations/" in request.path:
        uri = f"http://{request.headers['host']}/v1beta/files/kit:download?alt=media"
        video = {"generateVideoResponse": {"generatedSamples": [{"video": {"uri": uri}}]}}
        return json_answer({"name": "operations/kit", "done": True, "response": video})
    match method:
        case "generateContent" | "streamGenerateContent":
            return _answer_generate(request, body, streamed=method.startswith("stream"))
        case "countTokens":
            return json_answer({"totalTokens": INPUT_TOKENS})
        case "embedContent":
            return json_answer({"embedding": {"values": list(VECTOR)}})
        case "batchEmbedContents":
            return json_answer({"embeddings": [{"values": list(VECTOR)} for _ in body.get("requests", ())]})
        case "predict":
            return json_answer({"predictions": [{"bytesBase64Encoded": PICTURE_TEXT, "mimeType": "image/png"}]})
        case "predictLongRunning":
            return json_answer({"name": "models/veo/operations/kit"})
        case "download":
            return UpstreamAnswer(steps=(VIDEO,), content_type="video/mp4")
    return json_answer({"error": {"code": 404, "message": f"no method {method}", "status": "NOT_FOUND"}}, 404)


def _answer_generate(request: ReceivedRequest, body: dict[str, Any], *, streamed: bool) -> UpstreamAnswer:
    parts = _choose_parts(body)
    frames = [_make_frame([part]) for part in parts]
    frames[-1] = _make_frame([parts[-1]], ends=True)
    if not streamed:
        merged = [{"text": TEXT}] if "text" in parts[0] else parts
        return json_answer(_make_frame(merged, ends=True))
    if "alt=sse" in request.query:
        return sse_answer(*frames)
    texts = [json.dumps(frame, ensure_ascii=False).encode() for frame in frames]
    return UpstreamAnswer(steps=(b"[" + texts[0], *(b",\r\n" + text for text in texts[1:]), b"]"))


def _choose_parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    modalities = (body.get("generationConfig") or {}).get("responseModalities") or ()
    if "IMAGE" in modalities:
        return [{"inlineData": {"mimeType": "image/png", "data": PICTURE_TEXT}}]
    if "AUDIO" in modalities:
        data = base64.b64encode(PCM).decode()
        return [{"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": data}}]
    declared = [
        declaration for tool in body.get("tools") or () for declaration in tool.get("functionDeclarations") or ()
    ]
    if declared:
        return [{"functionCall": {"name": declared[0]["name"], "args": json.loads(TOOL_INPUT)}}]
    return [{"text": word} for word in WORDS]


def _make_frame(parts: list[dict[str, Any]], *, ends: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if ends:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "kit", "responseId": "resp-kit"}
