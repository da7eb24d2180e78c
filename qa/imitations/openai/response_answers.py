"""Responses as the vendor sends them, whole and streamed.

Source: openai-python 3.52, types/responses/response.py, response_output_item.py and response_stream_event.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from qa.imitations.openai import model_replies as replies
from qa.imitations.openai.model_replies import Asked, Said, cut_in_pieces, list_tokens
from qa.imitations.openai.response_rules import Issued

Json = dict[str, Any]

_STATUS: Final = {"length": "incomplete", "content_filter": "incomplete"}
_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


def read_response(body: Mapping[str, Any], items: Sequence[Json]) -> Asked:
    """What an accepted request asks."""
    words = next((_text_of(item.get("content")) for item in reversed(items) if item.get("role") == "user"), "")
    choice = body.get("tool_choice") or "auto"
    reasoning = body.get("reasoning") or {}
    wanted = (body.get("text") or {}).get("format") or {}
    tools = [tool for tool in body.get("tools") or () if tool["type"] in ("function", "custom")]
    return Asked(
        words=words,
        answered=str(items[-1].get("type")).endswith("_output"),
        effort=reasoning.get("effort") or "",
        summary=reasoning.get("summary") is not None,
        tools=tuple((tool["type"], tool["name"], tool.get("parameters")) for tool in tools),
        mode=choice if isinstance(choice, str) else choice.get("mode", "forced"),
        forced=() if isinstance(choice, str) else tuple(one["name"] for one in choice.get("tools", [choice])),
        parallel=body.get("parallel_tool_calls") is not False,
        schema=wanted.get("schema"),
        json=wanted.get("type") == "json_object",
        logprobs="message.output_text.logprobs" in (body.get("include") or ()),
        top=body.get("top_logprobs") or 0,
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or ())


def render_usage(said: Said) -> Json:
    return {
        "input_tokens": replies.INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": replies.CACHED_TOKENS, "cache_write_tokens": 0},
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"reasoning_tokens": replies.REASONING_TOKENS if said.reasoned else 0},
        "total_tokens": replies.INPUT_TOKENS + said.output_tokens,
    }


def make_output(number: int, body: Mapping[str, Any], said: Said, issued: Issued) -> list[Json]:
    """The items of the answer; the vendor remembers what it encrypted and which reasoning led to which item."""
    stem = f"{number:024x}"
    items: list[Json] = []
    if said.reasoned:
        parts = [{"type": "summary_text", "text": text} for text in said.summary]
        reasoning: Json = {"id": f"rs_{stem}", "type": "reasoning", "summary": parts}
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            reasoning["encrypted_content"] = f"gAAAAAB{stem}-{'x' * 80}=="
            issued.encrypted.add(reasoning["encrypted_content"])
        items.append(reasoning)
    if said.text or said.refusal:
        items.append(_make_message(stem, said))
    for at, (kind, name, text) in enumerate(said.calls):
        prefix, member = ("ctc", "input") if kind == "custom" else ("fc", "arguments")
        item = {"id": f"{prefix}_{stem}{at:02x}", "type": "custom_tool_call" if kind == "custom" else "function_call"}
        if kind == "function":
            item["status"] = "completed"
        items.append({**item, "call_id": f"call_{stem[-12:]}{at:02x}Zq7", "name": name, member: text})
    if said.reasoned and len(items) > 1:
        issued.reasoning_of[items[1]["id"]] = items[0]["id"]
    return items


def _make_message(stem: str, said: Said) -> Json:
    if said.refusal:
        content: Json = {"type": "refusal", "refusal": said.refusal}
    else:
        annotations = [{"type": "url_citation", **replies.CITED}] if said.cited else []
        content = {"type": "output_text", "text": said.text, "annotations": annotations}
        content["logprobs"] = list_tokens(said, said.text)
    status = _STATUS.get(said.end, "completed")
    return {"id": f"msg_{stem}", "type": "message", "status": status, "role": "assistant", "content": [content]}


def render_response(number: int, body: Mapping[str, Any], said: Said, output: Sequence[Json]) -> Json:
    """The whole answer; with the request's own settings, as the vendor echoes them."""
    reason = _REASONS.get(said.end)
    reasoning = body.get("reasoning") or {}
    return {
        "id": f"resp_{number:024x}",
        "object": "response",
        "created_at": 1790000000,
        "completed_at": 1790000001,
        "status": _STATUS.get(said.end, "completed"),
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": body["model"],
        "output": list(output),
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": body.get("temperature", 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium", **(body.get("text") or {})},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_logprobs": body.get("top_logprobs") or 0,
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": render_usage(said),
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def stream_response(whole: Json, said: Said) -> Iterator[bytes]:
    """Every event of the stream, numbered."""
    for number, event in enumerate(_iterate_events(whole, said)):
        value = {**event, "sequence_number": number}
        yield f"event: {event['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _iterate_events(whole: Json, said: Said) -> Iterator[Json]:
    begun = {**whole, "status": "in_progress", "completed_at": None, "output": [], "usage": None}
    begun["incomplete_details"] = None
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        for event in _iterate_item_events(item, said):
            yield {**event, "output_index": index}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _iterate_item_events(item: Json, said: Said) -> Iterator[Json]:
    match item["type"]:
        case "reasoning":
            empty: Json = {**item, "summary": []}
        case "message":
            empty = {**item, "content": [], "status": "in_progress"}
        case "custom_tool_call":
            empty = {**item, "input": ""}
        case _:
            empty = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "item": empty}
    place = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            for at, part in enumerate(item["summary"]):
                yield from _iterate_summary({**place, "summary_index": at}, part)
        case "message":
            for at, part in enumerate(item["content"]):
                yield from _iterate_content({**place, "content_index": at}, part, said)
        case "custom_tool_call":
            for piece in cut_in_pieces(item["input"]):
                yield {"type": "response.custom_tool_call_input.delta", "delta": piece, "obfuscation": "aQ", **place}
            yield {"type": "response.custom_tool_call_input.done", "input": item["input"], **place}
        case _:
            for piece in cut_in_pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", "delta": piece, "obfuscation": "aQ", **place}
            done = {"arguments": item["arguments"], "name": item["name"], **place}
            yield {"type": "response.function_call_arguments.done", **done}
    yield {"type": "response.output_item.done", "item": item}


def _iterate_summary(place: Json, part: Json) -> Iterator[Json]:
    empty = {"type": "summary_text", "text": ""}
    yield {"type": "response.reasoning_summary_part.added", "part": empty, **place}
    for piece in cut_in_pieces(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", "delta": piece, "obfuscation": "aQ", **place}
    yield {"type": "response.reasoning_summary_text.done", "text": part["text"], **place}
    yield {"type": "response.reasoning_summary_part.done", "part": part, **place}


def _iterate_content(place: Json, part: Json, said: Said) -> Iterator[Json]:
    if part["type"] == "refusal":
        yield {"type": "response.content_part.added", "part": {"type": "refusal", "refusal": ""}, **place}
        for piece in cut_in_pieces(part["refusal"]):
            yield {"type": "response.refusal.delta", "delta": piece, **place}
        yield {"type": "response.refusal.done", "refusal": part["refusal"], **place}
        yield {"type": "response.content_part.done", "part": part, **place}
        return
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield {"type": "response.content_part.added", "part": empty, **place}
    tokens = part["logprobs"]
    for at, piece in enumerate(cut_in_pieces(part["text"])):
        delta = {"delta": piece, "logprobs": [tokens[at]] if tokens else [], "obfuscation": "aQ"}
        yield {"type": "response.output_text.delta", **delta, **place}
    for at, annotation in enumerate(part["annotations"]):
        added = {"annotation_index": at, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **added, **place}
    yield {"type": "response.output_text.done", "text": part["text"], "logprobs": tokens, **place}
    yield {"type": "response.content_part.done", "part": part, **place}
