"""OpenAI's Responses API. Reasoning is encrypted, and must come back unchanged before the calls that it led to.

Sources: openai-python 3.52 (types/responses); the vendor's guides "Reasoning models" and "Function calling" (read 2026-11-22);
the refusals are worded as in public reports.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from openai.types.responses import response_create_params as params

from qa.agents.conversation import Asked, Conversation, RefusedError, Round, ToolCall, ToolResult, Turn
from qa.agents.images import read_data_url
from qa.agents.sdk_types import check_value
from qa.agents.vendors.anthropic import REMINDER, halves
from qa.agents.vendors.schemas import check_strict_schema

CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")


def read(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """Check and parse the body of POST /responses."""
    kind = params.ResponseCreateParamsStreaming if body.get("stream") else params.ResponseCreateParamsNonStreaming
    check_value(_select_typed(body), kind)
    for name in ("temperature", "top_p"):
        if body.get(name) not in (None, 1):
            raise RefusedError(f"Unsupported parameter: '{name}' is not supported with this model.")
    if body.get("max_output_tokens") is not None and body["max_output_tokens"] < 16:
        raise RefusedError("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
    tools = _read_tools(body)
    conversation = Conversation(tools, schema=((body.get("text") or {}).get("format") or {}).get("schema"))
    items = body.get("input", "")
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    _check_items(items)
    _read_items(items, conversation)
    return Asked(body["model"], bool(body.get("stream")), conversation)


def _select_typed(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what Codex sends, the vendor accepts and the SDK's types do not have."""
    kept = {name: value for name, value in body.items() if name != "client_metadata"}
    if isinstance(items := body.get("input"), list):
        kept["input"] = [_drop_untyped(item) for item in items]
    return kept


def _drop_untyped(item: dict[str, Any]) -> dict[str, Any]:
    """An item without the id of a message that the model did not make, and without null as the content of reasoning."""
    kind = item.get("type", "message")
    if kind == "message" and item.get("role") != "assistant":
        return {name: value for name, value in item.items() if name != "id"}
    return {name: value for name, value in item.items() if kind != "reasoning" or value is not None}


def _read_tools(body: dict[str, Any]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    items = body.get("input")
    declared = [
        one["tools"] for one in (items if isinstance(items, list) else ()) if one.get("type") == "additional_tools"
    ]
    for tool in [tool for tools in (body.get("tools") or (), *declared) for tool in tools]:
        members = tool["tools"] if tool["type"] == "namespace" else [tool]
        for one in members:
            if one["type"] not in ("function", "custom"):
                continue
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one["name"]):
                raise RefusedError(
                    f"Invalid 'tools[].name': {one['name']!r} does not match pattern '^[a-zA-Z0-9_-]+$'."
                )
            if one["type"] == "function":
                check_strict_schema(one["name"], one.get("parameters"), one.get("strict") is True)
            found[_qualify(tool, one)] = one["type"] == "custom"
    return found


def _qualify(tool: dict[str, Any], member: dict[str, Any]) -> str:
    """The name of a tool; in a namespace both names, joined as the gateway joins them for other vendors."""
    return f"{tool['name']}__{member['name']}" if tool["type"] == "namespace" else str(member["name"])


def _check_items(items: list[dict[str, Any]]) -> None:
    """Ids, pairs of calls and outputs, and what follows reasoning."""
    ids = [item["id"] for item in items if item.get("id") and item.get("type") != "item_reference"]
    if len(set(ids)) != len(ids):
        raise RefusedError(f"Duplicate item found with id {next(one for one in ids if ids.count(one) > 1)}.")
    calls = {item["call_id"]: item["type"] for item in items if item.get("type") in CALLS}
    outputs = {item["call_id"]: item["type"] for item in items if item.get("type") in OUTPUTS}
    for call_id, kind in calls.items():
        if outputs.get(call_id) != kind + "_output":
            raise RefusedError(f"No tool output found for {kind.replace('_', ' ')} {call_id}.")
    for call_id in outputs.keys() - calls.keys():
        raise RefusedError(f"No tool call found for function call output with call_id {call_id}.")
    for number, item in enumerate(items):
        if item.get("type") == "reasoning":
            _check_reasoning(item, items[number + 1 :])
        prefix = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}.get(item.get("type", ""))
        if prefix and item.get("id") and not item["id"].startswith(prefix):
            raise RefusedError(
                f"Invalid 'input[{number}].id': '{item['id']}'. Expected an ID that begins with '{prefix}'."
            )
        if item.get("role") == "assistant" and any(part.get("type") == "input_text" for part in _parts(item)):
            raise RefusedError(
                f"Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'. input[{number}]"
            )


def _check_reasoning(item: dict[str, Any], rest: list[dict[str, Any]]) -> None:
    secret = item.get("encrypted_content")
    if not secret or not base64.b64decode(secret).startswith(b"openai "):
        raise RefusedError(
            "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed."
        )
    following = next((one for one in rest if one.get("type") != "reasoning"), None)
    if following is None or following.get("type", "message") in OUTPUTS or following.get("role") == "user":
        raise RefusedError(
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        )


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content") or ""
    return [{"type": "input_text", "text": content}] if isinstance(content, str) and item.get("role") == "user" else [
        part for part in content if isinstance(part, dict)
    ]  # fmt: skip


def _read_items(items: list[dict[str, Any]], conversation: Conversation) -> None:
    """Group items into rounds: the calls until the first output, with the reasoning since the last output or user message."""
    thinking: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            thinking.append(base64.b64decode(item["encrypted_content"]).decode())
        elif kind in CALLS:
            arguments = item["input"] if kind == "custom_tool_call" else json.loads(item["arguments"])
            name = f"{item['namespace']}__{item['name']}" if item.get("namespace") else item["name"]
            calls.append(ToolCall(item["call_id"], name, arguments))
        elif kind in OUTPUTS:
            if calls:
                conversation.rounds.append(Round(calls, thinking, conversation.asks))
                thinking, calls = [], []
            conversation.rounds[-1].results.append(_read_output(item))
        elif item.get("role") == "user":
            thinking = []
            conversation.user_images += _images(_parts(item))
            text = "\n".join(part["text"] for part in _parts(item) if part["type"] == "input_text")
            if REMINDER.sub("", text).strip():
                conversation.user_texts.append(text)


def _read_output(item: dict[str, Any]) -> ToolResult:
    output = item["output"]
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    text = "\n".join(part["text"] for part in parts if part["type"] == "input_text")
    return ToolResult(item["call_id"], text, tuple(_images(parts)))


def _images(parts: list[dict[str, Any]]) -> list[bytes]:
    try:
        return [read_data_url(part["image_url"]) for part in parts if part["type"] == "input_image"]
    except ValueError as error:
        raise RefusedError(str(error)) from None


def render(model: str, turn: Turn, stream: bool) -> tuple[str, list[bytes]]:
    """The answer as one JSON body, or as the frames of a stream."""
    items = list(_items(turn))
    usage = {
        "input_tokens": 1200, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1240,
    }  # fmt: skip
    response: dict[str, Any] = {
        "id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": 1760000000, "status": "completed", "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "model": model, "output": items,
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": usage, "store": False,
    }  # fmt: skip
    if not stream:
        return "application/json", [json.dumps(response).encode()]
    frames = []
    for number, event in enumerate(_events(response, items)):
        frames.append(f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode())
    return "text/event-stream", frames


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    """The output items; each id is one of its kind and never repeated within a conversation."""
    mark = turn.calls[0].id.removeprefix("call_") if turn.calls else "end"
    for number, (text, signature) in enumerate(turn.thinking):
        if number == 1 and turn.between:
            yield _message(f"msg_{mark}b", turn.between)
        secret = base64.b64encode(f"openai {signature} {text}".encode()).decode()
        summary = [{"type": "summary_text", "text": text}]
        yield {"id": f"rs_{mark}n{number}", "type": "reasoning", "summary": summary, "encrypted_content": secret}
    if turn.text:
        yield _message(f"msg_{mark}", turn.text)
    for call in turn.calls:
        namespace, _, name = call.name.rpartition("__")
        base = {"call_id": call.id, "name": name, **({"namespace": namespace} if namespace else {})}
        if isinstance(call.arguments, str):
            yield {"id": f"ctc_{call.id}", "type": "custom_tool_call", "input": call.arguments, **base}
        else:
            yield {
                "id": f"fc_{call.id}",
                "type": "function_call",
                "arguments": json.dumps(call.arguments),
                "status": "completed",
                **base,
            }


def _message(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def _events(response: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        match item["type"]:
            case "reasoning":
                yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "summary": []}}
                yield from _summary_events(item["summary"][0]["text"], place)
            case "message":
                empty = {**item, "status": "in_progress", "content": []}
                yield {"type": "response.output_item.added", "output_index": index, "item": empty}
                yield from _text_events(item["content"][0], place)
            case kind:
                field, name = (
                    ("arguments", "function_call_arguments")
                    if kind == "function_call"
                    else ("input", "custom_tool_call_input")
                )
                empty = {**item, "status": "in_progress", field: ""}
                yield {"type": "response.output_item.added", "output_index": index, "item": empty}
                for part in halves(item[field]):
                    yield {"type": f"response.{name}.delta", **place, "delta": part}
                extra = {"name": item["name"]} if kind == "function_call" else {}
                yield {"type": f"response.{name}.done", **place, field: item[field], **extra}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _summary_events(text: str, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {**place, "summary_index": 0}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {"type": "summary_text", "text": ""}}
    for part in halves(text):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": part}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": {"type": "summary_text", "text": text}}


def _text_events(part: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for delta in halves(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": delta, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def render_error(status: int, message: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_value"}
    return json.dumps({"error": error}).encode()
