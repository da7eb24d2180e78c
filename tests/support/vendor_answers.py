"""Answers of upstreams with much of what chats have: thinking, text, two calls, log probabilities, every member of the usage.

Each is as the vendor's API sends it; the tests check them with the same schemas as the gateway's answers. Sources: the documents
and SDK types of `qa.conformance.schemas`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.upstream import DONE, Answer, answer, sse

ARGUMENTS = '{"at":"sky"}'
TEXT = "It is blue."
THOUGHT = "Rayleigh scattering."
LOGPROB = {"token": TEXT, "logprob": -0.25, "bytes": [73, 116]}
CALLS = ("call_1", "call_2")

# format O, chat: openai-python 3.52, types/chat/chat_completion.py
CHAT_USAGE = {
    "prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 6, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0
    },
}  # fmt: skip
CHAT_BASE = {"id": "chatcmpl-1", "created": 1700000000, "model": "gpt-4o-2024-08-06", "service_tier": "default"}


def chat(*, streamed: bool, calls: bool) -> Answer:
    logprobs = {"content": [{**LOGPROB, "top_logprobs": [LOGPROB]}], "refusal": None}
    if streamed:
        return answer(sse(*_chat_chunks(calls, logprobs), DONE))
    message: dict[str, Any] = {"role": "assistant", "content": TEXT, "refusal": None, "annotations": []}
    if calls:
        message |= {"content": None, "tool_calls": [_chat_call(call) for call in CALLS]}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None if calls else logprobs,
        "finish_reason": "tool_calls" if calls else "stop",
    }
    return answer(json.dumps({**CHAT_BASE, "object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE}))


def _chat_call(call: str) -> dict[str, Any]:
    return {"id": call, "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}


def _chat_chunks(calls: bool, logprobs: Any) -> Iterator[dict[str, Any]]:
    base = {**CHAT_BASE, "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], reason: str | None = None, **rest: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **rest}
        return {**base, "choices": [choice], "usage": None}

    yield chunk({"role": "assistant", "content": None if calls else "", "refusal": None})
    if not calls:
        yield chunk({"content": TEXT}, logprobs=logprobs)
    for index, call in enumerate(CALLS if calls else ()):
        yield chunk({"tool_calls": [{"index": index, **_chat_call(call)}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield {**base, "choices": [], "usage": CHAT_USAGE}


# format O, responses: openai-python 3.52, types/responses/response.py
RESPONSE_USAGE = {
    "input_tokens": 30, "output_tokens": 12, "total_tokens": 42,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 6},
}  # fmt: skip
REASONING = {
    "id": "rs_1", "type": "reasoning", "status": "completed", "encrypted_content": "sealed",
    "summary": [{"type": "summary_text", "text": THOUGHT}],
}  # fmt: skip
OUTPUT_TEXT = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
MESSAGE = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [OUTPUT_TEXT]}
FUNCTION_CALLS = [
    {"id": f"fc_{call}", "type": "function_call", "status": "completed", "call_id": call, "name": "look", "arguments": ARGUMENTS}
    for call in CALLS
]  # fmt: skip


def responses(*, streamed: bool, calls: bool) -> Answer:
    output = [REASONING, *(FUNCTION_CALLS if calls else [MESSAGE])]
    body = _response(output=output, status="completed", completed_at=1700000002, usage=RESPONSE_USAGE)
    if not streamed:
        return answer(json.dumps(body))
    begun = _response(output=[], status="in_progress", completed_at=None, usage=None)
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for index, item in enumerate(output):
        events += _item_events(index, item)
    events.append(("response.completed", {"response": body}))
    numbered = [{"type": kind, "sequence_number": number, **rest} for number, (kind, rest) in enumerate(events)]
    return answer(_named(*numbered), headers={"content-type": "text/event-stream"})


def _response(**fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5.2", "background": False,
        "error": None, "incomplete_details": None, "instructions": None, "max_output_tokens": None, "max_tool_calls": None,
        "metadata": {}, "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_retention": None,
        "reasoning": {"effort": "medium", "summary": "detailed"}, "service_tier": "default", "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [],
        "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", **fields,
    }  # fmt: skip


def _item_events(index: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": index}
    if item["type"] == "reasoning":
        part = {**at, "summary_index": 0}
        empty = {**item, "summary": [], "status": "in_progress"}
        middle = [
            ("response.reasoning_summary_part.added", {**part, "part": {"type": "summary_text", "text": ""}}),
            ("response.reasoning_summary_text.delta", {**part, "delta": THOUGHT}),
            ("response.reasoning_summary_text.done", {**part, "text": THOUGHT}),
            ("response.reasoning_summary_part.done", {**part, "part": item["summary"][0]}),
        ]
    elif item["type"] == "message":
        part = {**at, "content_index": 0}
        empty = {**item, "content": [], "status": "in_progress"}
        middle = [
            ("response.content_part.added", {**part, "part": {**OUTPUT_TEXT, "text": ""}}),
            ("response.output_text.delta", {**part, "delta": TEXT, "logprobs": []}),
            ("response.output_text.done", {**part, "text": TEXT, "logprobs": []}),
            ("response.content_part.done", {**part, "part": OUTPUT_TEXT}),
        ]
    else:
        empty = {**item, "arguments": "", "status": "in_progress"}
        middle = [
            ("response.function_call_arguments.delta", {**at, "delta": ARGUMENTS}),
            ("response.function_call_arguments.done", {**at, "arguments": ARGUMENTS, "name": "look"}),
        ]
    begin = ("response.output_item.added", {"output_index": index, "item": empty})
    return [begin, *middle, ("response.output_item.done", {"output_index": index, "item": item})]


# format A: anthropic 2.11, types/message.py
MESSAGE_USAGE = {
    "input_tokens": 10, "output_tokens": 12, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 8,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0}, "inference_geo": "global",
    "output_tokens_details": {"thinking_tokens": 6}, "server_tool_use": None, "service_tier": "standard",
}  # fmt: skip
DELTA_USAGE = {name: MESSAGE_USAGE[name] for name in (
    "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens_details",
    "server_tool_use")}  # fmt: skip
THINKING = {"type": "thinking", "thinking": THOUGHT, "signature": "signature-of-claude"}
TEXT_CITATION = {
    "type": "char_location", "cited_text": "blue", "document_index": 0, "document_title": "Sky", "file_id": None,
    "start_char_index": 0, "end_char_index": 4,
}  # fmt: skip
TEXT_BLOCK = {"type": "text", "text": TEXT, "citations": [TEXT_CITATION]}
TOOL_USES = [
    {"type": "tool_use", "id": f"toolu_{call}", "name": "look", "input": {"at": "sky"}, "caller": {"type": "direct"}}
    for call in CALLS
]


def messages(*, streamed: bool, calls: bool) -> Answer:
    content = [THINKING, *(TOOL_USES if calls else [TEXT_BLOCK])]
    ending = {
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    if not streamed:
        return answer(json.dumps({**message, "content": content, **ending, "usage": MESSAGE_USAGE}))
    opened: dict[str, Any] = {
        **message,
        "content": [],
        **ending,
        "stop_reason": None,
        "usage": {**MESSAGE_USAGE, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": opened}, {"type": "ping"}]
    for index, block in enumerate(content):
        empty, deltas = _block_parts(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": ending, "usage": DELTA_USAGE})
    events.append({"type": "message_stop"})
    return answer(_named(*events), headers={"content-type": "text/event-stream"})


def _block_parts(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": THOUGHT},
                {"type": "signature_delta", "signature": "signature-of-claude"},
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "text":
            citation = {"type": "citations_delta", "citation": TEXT_CITATION}
            return {**block, "text": "", "citations": []}, [{"type": "text_delta", "text": TEXT}, citation]
        case _:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ARGUMENTS}]


# format G: google-genai 3.4, types.GenerateContentResponse
GENERATED_USAGE = {
    "promptTokenCount": 30, "candidatesTokenCount": 6, "thoughtsTokenCount": 6, "totalTokenCount": 42,
    "cachedContentTokenCount": 8, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 30}],
    "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
}  # fmt: skip
THOUGHT_PART = {"text": THOUGHT, "thought": True}
TEXT_PART = {"text": TEXT, "thoughtSignature": "c2lnbmF0dXJl"}
CALL_PARTS = [
    {"functionCall": {"name": "look", "args": {"at": "sky"}}, "thoughtSignature": "c2lnbmF0dXJl"},
    {"functionCall": {"name": "look", "args": {"at": "sky"}}},
]
GROUNDING = {
    "groundingChunks": [{"web": {"uri": "https://sky.example", "title": "Sky"}}],
    "groundingSupports": [{"segment": {"endIndex": 5, "text": TEXT[:5]}, "groundingChunkIndices": [0]}],
}


def generate(*, streamed: bool, calls: bool) -> Answer:
    parts = CALL_PARTS if calls else [TEXT_PART]
    extra = {} if calls else {"groundingMetadata": GROUNDING}
    if not streamed:
        return answer(json.dumps(_generated([THOUGHT_PART, *parts], finishReason="STOP", **extra)))
    frames = [_generated([THOUGHT_PART]), _generated(parts, finishReason="STOP", **extra)]
    return answer(sse(*frames))


def _generated(parts: list[Any], **rest: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **rest}
    return {
        "candidates": [candidate], "usageMetadata": GENERATED_USAGE, "modelVersion": "gemini-3-pro-preview",
        "responseId": "r1",
    }  # fmt: skip


def _named(*events: dict[str, Any]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
