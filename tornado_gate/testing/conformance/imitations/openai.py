"""OpenAI's API. Source: openai-python 3.52 (types), and the recorded responses of this project's tests."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from tornado_gate.testing.conformance.imitations.words import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PICTURE_TEXT,
    SOUND,
    TEXT,
    TOOL_INPUT,
    TOOL_PIECES,
    VECTOR,
    VIDEO,
    WORDS,
    name_of_tool,
)
from tornado_gate.testing.scripted_upstream import WEBSOCKET, ReceivedRequest, UpstreamAnswer, json_answer, sse_answer

DONE = b"data: [DONE]\n\n"
_CREATED = 1_700_000_000
_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_RESPONSE_USAGE = {
    "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}  # fmt: skip


def answer(request: ReceivedRequest) -> UpstreamAnswer:
    """Return the vendor's response to a request, by its path."""
    path, body = request.path, request.json or {}
    if path.endswith("/realtime"):
        session = {"type": "realtime", "object": "realtime.session", "id": "sess_kit", "model": "gpt-realtime"}
        created = json.dumps({"type": "session.created", "event_id": "event_kit", "session": session})
        return UpstreamAnswer(steps=(created.encode(),), content_type=WEBSOCKET)
    for ending, make in _ROUTES.items():
        if path.endswith(ending):
            return make(body)
    if "/videos" in path:
        return _answer_video(request)
    return json_answer({"error": {"message": f"no route {path}", "type": "invalid_request_error"}}, 404)


def _answer_chat(body: dict[str, Any]) -> UpstreamAnswer:
    frame = {"id": "chatcmpl-kit", "created": _CREATED, "model": body.get("model", ""), "system_fingerprint": "fp"}
    calls_tool = bool(body.get("tools")) and body["messages"][-1]["role"] == "user"
    tool: dict[str, Any] = {"id": "call_kit", "type": "function", "function": {"name": "", "arguments": ""}}
    if calls_tool:
        tool["function"] = {"name": name_of_tool(body["tools"]), "arguments": TOOL_INPUT}
    reason = "tool_calls" if calls_tool else "stop"
    if not body.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": None if calls_tool else TEXT, "refusal": None}
        message |= {"tool_calls": [tool]} if calls_tool else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return json_answer({**frame, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if calls_tool else ""}]
    if calls_tool:
        name = {"name": tool["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, "id": "call_kit", "type": "function", "function": name}]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in TOOL_PIECES]
    else:
        deltas += [{"content": word} for word in WORDS]
    chunk = {**frame, "object": "chat.completion.chunk"}
    frames = [{**chunk, "choices": [_make_choice(delta)]} for delta in deltas]
    frames.append({**chunk, "choices": [_make_choice({}, reason)]})
    if (body.get("stream_options") or {}).get("include_usage"):
        frames.append({**chunk, "choices": [], "usage": _USAGE})
    return sse_answer(*frames, end=DONE)


def _make_choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _answer_completion(body: dict[str, Any]) -> UpstreamAnswer:
    frame = {"id": "cmpl-kit", "object": "text_completion", "created": _CREATED, "model": body.get("model", "")}
    if not body.get("stream"):
        choice = {"index": 0, "text": TEXT, "logprobs": None, "finish_reason": "stop"}
        return json_answer({**frame, "choices": [choice], "usage": _USAGE})
    frames = [
        {**frame, "choices": [{"index": 0, "text": word, "logprobs": None, "finish_reason": None}]} for word in WORDS
    ]
    frames.append({**frame, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]})
    return sse_answer(*frames, end=DONE)


def _answer_response(body: dict[str, Any]) -> UpstreamAnswer:
    items = body.get("input")
    calls_tool = bool(body.get("tools")) and not (
        isinstance(items, list) and items[-1].get("type") == "function_call_output"
    )
    content = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    item: dict[str, Any] = {
        "id": "msg_kit",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [content],
    }
    if calls_tool:
        name = name_of_tool(body["tools"])
        item = {"id": "fc_kit", "type": "function_call", "status": "completed", "call_id": "call_kit", "name": name,
                "arguments": TOOL_INPUT}  # fmt: skip
    whole = {
        "id": "resp_kit", "object": "response", "created_at": _CREATED, "status": "completed", "error": None,
        "incomplete_details": None, "model": body.get("model", ""), "output": [item], "usage": _RESPONSE_USAGE,
        "instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto",
        "tools": body.get("tools") or [], "top_p": 1.0, "store": False,
    }  # fmt: skip
    if not body.get("stream"):
        return json_answer(whole)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    events += _stream_call(item) if calls_tool else _stream_message(item, content)
    events.append(("response.completed", {"response": whole}))
    return sse_answer(
        *((kind, {"type": kind, "sequence_number": number, **rest}) for number, (kind, rest) in enumerate(events))
    )


def _stream_message(item: dict[str, Any], content: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    position = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    return [
        ("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**position, "part": {**content, "text": ""}}),
        *(("response.output_text.delta", {**position, "delta": word, "logprobs": []}) for word in WORDS),
        ("response.output_text.done", {**position, "text": TEXT, "logprobs": []}),
        ("response.content_part.done", {**position, "part": content}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def _stream_call(item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    position = {"output_index": 0, "item_id": item["id"]}
    kind = "response.function_call_arguments"
    return [
        ("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "arguments": ""}}),
        *((f"{kind}.delta", {**position, "delta": piece}) for piece in TOOL_PIECES),
        (f"{kind}.done", {**position, "arguments": TOOL_INPUT, "name": item["name"]}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def _answer_compaction(body: dict[str, Any]) -> UpstreamAnswer:
    item = {"id": "cmp_kit", "type": "compaction", "encrypted_content": "opaque"}
    return json_answer(
        {
            "id": "resp_kit",
            "object": "response.compaction",
            "created_at": _CREATED,
            "output": [item],
            "usage": _RESPONSE_USAGE,
        }
    )


def _answer_embeddings(body: dict[str, Any]) -> UpstreamAnswer:
    inputs = body.get("input")
    count = len(inputs) if isinstance(inputs, list) and not isinstance(inputs[0], int) else 1
    vector: Any = list(VECTOR)
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{len(VECTOR)}f", *VECTOR)).decode()
    data = [{"object": "embedding", "index": number, "embedding": vector} for number in range(count)]
    usage = {"prompt_tokens": INPUT_TOKENS, "total_tokens": INPUT_TOKENS}
    return json_answer({"object": "list", "data": data, "model": body.get("model", ""), "usage": usage})


def _answer_moderation(body: dict[str, Any]) -> UpstreamAnswer:
    result = {"flagged": False, "categories": {"violence": False}, "category_scores": {"violence": 0.01}}
    inputs = body.get("input")
    count = len(inputs) if isinstance(inputs, list) and inputs and isinstance(inputs[0], str) else 1
    return json_answer({"id": "modr-kit", "model": body.get("model", ""), "results": [result] * count})


def _answer_image(body: dict[str, Any]) -> UpstreamAnswer:
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}
    if body.get("stream"):
        kind = "image_generation.completed"
        return sse_answer((kind, {"type": kind, "b64_json": PICTURE_TEXT, "created_at": _CREATED, "usage": usage}))
    return json_answer({"created": _CREATED, "data": [{"b64_json": PICTURE_TEXT}], "usage": usage})


def _answer_transcription(body: dict[str, Any]) -> UpstreamAnswer:
    return json_answer({"text": TEXT, "usage": {"type": "duration", "seconds": 1}})


def _answer_video(request: ReceivedRequest) -> UpstreamAnswer:
    """Return a job that is complete at the first poll, and its file."""
    if request.path.endswith("/content"):
        return UpstreamAnswer(steps=(VIDEO,), content_type="video/mp4")
    job = {"id": "video_kit", "object": "video", "created_at": _CREATED, "model": "sora-2", "progress": 0, "seconds": "4",
           "size": "720x1280", "status": "queued"}  # fmt: skip
    if request.method == "GET":
        job |= {"status": "completed", "progress": 100, "completed_at": _CREATED + 1}
    return json_answer(job)


_ROUTES = {
    "/chat/completions": _answer_chat,
    "/completions": _answer_completion,
    "/responses": _answer_response,
    "/responses/compact": _answer_compaction,
    "/responses/input_tokens": lambda body: json_answer(
        {"object": "response.input_tokens", "input_tokens": INPUT_TOKENS}
    ),
    "/embeddings": _answer_embeddings,
    "/moderations": _answer_moderation,
    "/images/generations": _answer_image,
    "/images/edits": _answer_image,
    "/images/variations": _answer_image,
    "/audio/speech": lambda body: UpstreamAnswer(steps=(SOUND,), content_type="audio/wav"),
    "/audio/transcriptions": _answer_transcription,
    "/audio/translations": _answer_transcription,
}
