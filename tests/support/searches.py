"""A web search as each vendor answers it, whole and streamed, in the exact wire format, and clients of the vendors' SDKs.

Source: the vendors' SDKs in the test environment, and their pages on web search (read 2026-11-22).
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai

from tests.support.gateway import Gateway
from tests.support.upstream import sse

KEY = "test-key-of-crossings"

CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream, openai_models: true, responses: false}}
  r: {{plugin: openai, base_url: "{url}/r/v1", api_key: key-of-the-upstream, openai_models: true, api: responses}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  o-model: {{provider: o, model: gpt-4o-search-preview}}
  r-model: {{provider: r, model: gpt-5.4}}
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  g-model: {{provider: g, model: gemini-3-pro-preview}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {key}}}
"""

A_USAGE = {
    "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20
}  # fmt: skip
QUESTION = "How tall is it?"
CITED = "Le soleil d'été 🗼 brille."
FIRST, REST = "Voilà 🎉 ! ", " Oui."
TEXT = FIRST + CITED + REST
START, END = len(FIRST), len(FIRST + CITED)
URL, TITLE, QUERY = "https://example.com/tower", "The tower", "tower height"


A_CITATION = {
    "type": "web_search_result_location", "url": URL, "title": TITLE, "encrypted_index": "Eo8BCi", "cited_text": "330 m",
}  # fmt: skip
A_CALL = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": QUERY}}
A_FOUND = {
    "type": "web_search_result", "url": URL, "title": TITLE, "encrypted_content": "EqgfCi", "page_age": "May 1, 2026",
}  # fmt: skip
A_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": [A_FOUND]}
A_ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
    "content": [
        A_CALL, A_RESULT, {"type": "text", "text": FIRST}, {"type": "text", "text": CITED, "citations": [A_CITATION]},
        {"type": "text", "text": REST},
    ],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {**A_USAGE, "server_tool_use": {"web_search_requests": 1}},
}  # fmt: skip
R_SEARCH = {
    "id": "ws_1", "type": "web_search_call", "status": "completed",
    "action": {"type": "search", "query": QUERY, "queries": [QUERY], "sources": [{"type": "url", "url": URL}]},
}  # fmt: skip
R_ANNOTATION = {"type": "url_citation", "start_index": START, "end_index": END, "url": URL, "title": TITLE}
R_TEXT = {"type": "output_text", "text": TEXT, "annotations": [R_ANNOTATION], "logprobs": []}
R_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [R_TEXT]}
R_ANSWER = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.4",
    "output": [R_SEARCH, R_MESSAGE], "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
}  # fmt: skip
O_ANNOTATION = {
    "type": "url_citation", "url_citation": {"start_index": START, "end_index": END, "url": URL, "title": TITLE}
}  # fmt: skip
O_ANSWER = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-search-preview",
    "choices": [{
        "index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": TEXT, "refusal": None, "annotations": [O_ANNOTATION]},
    }],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}  # fmt: skip
SEGMENT = {"startIndex": len(FIRST.encode()), "endIndex": len((FIRST + CITED).encode()), "text": CITED}
G_GROUNDING = {
    "webSearchQueries": [QUERY],
    "searchEntryPoint": {"renderedContent": "<div>tower height</div>"},
    "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}],
    "groundingSupports": [
        {
            "segment": SEGMENT,
            "groundingChunkIndices": [0],
            "confidenceScores": [0.9],
        }
    ],
}
G_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
G_ANSWER = {
    "candidates": [{
        "index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": TEXT}]},
        "groundingMetadata": G_GROUNDING,
    }],
    "usageMetadata": G_USAGE, "modelVersion": "gemini-3-pro-preview", "responseId": "r1",
}  # fmt: skip
WHOLE: dict[str, dict[str, Any]] = {"o-model": O_ANSWER, "r-model": R_ANSWER, "a-model": A_ANSWER, "g-model": G_ANSWER}


def cut(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def stream_of_a() -> str:
    """The events of the vendor's web search page: inputs and citations come in deltas."""

    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        events = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        return [begin, *events, {"type": "content_block_stop", "index": index}]

    given = json.dumps(A_CALL["input"])
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", given[:6], given[6:])]
    said = [{"type": "text_delta", "text": piece} for piece in cut(CITED)]
    empty = {"type": "text", "text": ""}
    return sse(
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None, "usage": A_USAGE}},
        *block(0, {**A_CALL, "input": {}}, *pieces),
        *block(1, A_RESULT),
        *block(2, empty, {"type": "text_delta", "text": FIRST}),
        *block(3, {**empty, "citations": []}, {"type": "citations_delta", "citation": A_CITATION}, *said),
        *block(4, empty, {"type": "text_delta", "text": REST}),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": A_ANSWER["usage"]},
        {"type": "message_stop"},
    )


def stream_of_o() -> str:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "gpt-4o-search-preview",
            "choices": [choice],
        }

    said = [chunk({"content": piece}) for piece in cut(TEXT)]
    return sse(chunk({"role": "assistant"}), *said, chunk({"annotations": [O_ANNOTATION]}), chunk({}, "stop"), "[DONE]")


def stream_of_r() -> str:
    where = {"output_index": 1, "content_index": 0, "item_id": "msg_1"}
    deltas = [{"type": "response.output_text.delta", **where, "delta": piece} for piece in cut(TEXT)]
    added = {
        "type": "response.output_text.annotation.added",
        **where,
        "annotation_index": 0,
        "annotation": R_ANNOTATION,
    }
    started = {**R_ANSWER, "status": "in_progress", "output": []}
    return sse(
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": {**R_SEARCH, "status": "in_progress"}},
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": R_SEARCH},
        {"type": "response.output_item.added", "output_index": 1, "item": {**R_MESSAGE, "content": []}},
        *deltas,
        added,
        {"type": "response.content_part.done", **where, "part": R_TEXT},
        {"type": "response.output_item.done", "output_index": 1, "item": R_MESSAGE},
        {"type": "response.completed", "response": R_ANSWER},
    )


def stream_of_g() -> str:
    """The signature comes with an empty text, and the metadata with the finish reason."""

    def chunk(part: dict[str, Any], **more: Any) -> dict[str, Any]:
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, **more}
        return {"candidates": [candidate], "modelVersion": "gemini-3-pro-preview", "responseId": "r1"}

    last = chunk({"text": "", "thoughtSignature": "c2lnbmF0dXJl"}, finishReason="STOP", groundingMetadata=G_GROUNDING)
    return sse(*(chunk({"text": piece}) for piece in cut(TEXT)), last | {"usageMetadata": G_USAGE})


STREAMS = {"a-model": stream_of_a(), "g-model": stream_of_g(), "o-model": stream_of_o(), "r-model": stream_of_r()}


def make_openai(gateway: Gateway) -> openai.OpenAI:
    plain = openai.DefaultHttpxClient(trust_env=False, timeout=30)
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, http_client=plain, max_retries=0)


def make_anthropic(gateway: Gateway) -> anthropic.Anthropic:
    plain = anthropic.DefaultHttpxClient(trust_env=False, timeout=30)
    return anthropic.Anthropic(base_url=gateway.url, api_key=KEY, http_client=plain, max_retries=0)
