"""OpenAI's chat completions, as an upstream for models with visible reasoning (``reasoning_content``) has them.

Sources: openai-python 3.52 (types/chat); "An assistant message with 'tool_calls' must be followed by tool messages" and other
refusals as in public reports; DeepSeek's page "Thinking mode" for ``reasoning_content`` (read 2026-11-22).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from openai.types.chat import completion_create_params as params

from qa.agents.conversation import Asked, Conversation, RefusedError, Round, ToolCall, ToolResult, Turn
from qa.agents.images import read_data_url
from qa.agents.sdk_types import check_value
from qa.agents.vendors.anthropic import REMINDER, halves
from qa.agents.vendors.schemas import check_strict_schema


def read(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """Check and parse the body of POST /chat/completions."""
    kind = params.CompletionCreateParamsStreaming if body.get("stream") else params.CompletionCreateParamsNonStreaming
    check_value(_without_reasoning(body), kind)
    _check_tools(body)
    _check_pairs(body["messages"])
    tools = {tool[tool["type"]]["name"]: tool["type"] == "custom" for tool in body.get("tools") or ()}
    conversation = Conversation(tools, schema=_read_schema(body.get("response_format") or {}))
    _read_messages(body["messages"], conversation)
    return Asked(body["model"], bool(body.get("stream")), conversation)


def _read_schema(response_format: dict[str, Any]) -> dict[str, Any] | None:
    if response_format.get("type") not in ("json_schema", "json_object"):
        return None
    schema: dict[str, Any] = response_format.get("json_schema", {}).get("schema", {})
    return schema


def _without_reasoning(body: dict[str, Any]) -> dict[str, Any]:
    """The body without reasoning and the ``name`` of results, which upstreams accept and the SDK's types do not have."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise RefusedError("messages: Field required")
    return {**body, "messages": [_select_typed(message) for message in messages]}


def _select_typed(message: dict[str, Any]) -> dict[str, Any]:
    more = ("name",) if message.get("role") == "tool" else ("reasoning_content", "reasoning")
    return {name: one for name, one in message.items() if name not in more}


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools == []:
        raise RefusedError("Invalid 'tools': empty array. Expected an array with minimum length 1")
    names = [tool[tool["type"]]["name"] for tool in tools or ()]
    for tool, name in zip(tools or (), names, strict=True):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            raise RefusedError(f"Invalid 'tools[].function.name': {name!r} does not match pattern '^[a-zA-Z0-9_-]+$'")
        if tool["type"] == "function":
            check_strict_schema(name, tool["function"].get("parameters"), tool["function"].get("strict") is True)
    if not tools and (body.get("tool_choice") or "parallel_tool_calls" in body):
        raise RefusedError("'tool_choice' is only allowed when 'tools' are specified.")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    awaited: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in awaited:
                raise RefusedError(
                    f"messages[{number}]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                )
            awaited.remove(message["tool_call_id"])
            continue
        if awaited:
            raise RefusedError(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The "
                f"following tool_call_ids did not have response messages: {', '.join(awaited)}"
            )
        if message["role"] == "assistant":
            calls = message.get("tool_calls")
            if calls == []:
                raise RefusedError(f"Invalid 'messages[{number}].tool_calls': empty array.")
            if not calls and not message.get("content"):
                raise RefusedError(f"Invalid value for 'content': expected a string, got null. messages[{number}]")
            awaited = [call["id"] for call in calls or ()]
            for call in calls or ():
                if call["type"] == "function" and not isinstance(json.loads(call["function"]["arguments"]), dict):
                    raise RefusedError(f"messages[{number}].tool_calls: arguments must be a JSON object")
    if awaited:
        raise RefusedError(
            f"An assistant message with 'tool_calls' must be followed by tool messages: {', '.join(awaited)}"
        )


def _read_messages(messages: list[dict[str, Any]], conversation: Conversation) -> None:
    for number, message in enumerate(messages):
        content: Any = message.get("content") or ""
        parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        match message["role"]:
            case "assistant" if message.get("tool_calls"):
                calls = [_read_call(call) for call in message["tool_calls"]]
                reasoning = message.get("reasoning_content")
                conversation.rounds.append(Round(calls, [reasoning] if reasoning else [], conversation.asks))
            case "tool":
                conversation.rounds[-1].results.append(ToolResult(message["tool_call_id"], text))
            case "user":
                images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
                try:
                    conversation.user_images += map(read_data_url, images)
                except ValueError as error:
                    raise RefusedError(str(error)) from None
                after_tools = messages[number - 1]["role"] == "tool"
                if REMINDER.sub("", text).strip() and not (after_tools and images):
                    conversation.user_texts.append(text)


def _read_call(call: dict[str, Any]) -> ToolCall:
    if call["type"] == "custom":
        return ToolCall(call["id"], call["custom"]["name"], call["custom"]["input"])
    return ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))


def render(model: str, turn: Turn, stream: bool) -> tuple[str, list[bytes]]:
    """The answer as one JSON body, or as the frames of a stream."""
    base = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": 1760000000,
        "model": model,
        "system_fingerprint": "fp_agent",
        "service_tier": "default",
    }
    usage = {"prompt_tokens": 1200, "completion_tokens": 40, "total_tokens": 1240}
    finish = "tool_calls" if turn.calls else "stop"
    calls = [_render_call(call) for call in turn.calls]
    reasoning = "\n".join(text for text, _ in turn.thinking)
    if not stream:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": reasoning} if reasoning else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", [json.dumps(whole).encode()]
    chunks: list[dict[str, Any]] = [
        {"choices": [choice], "usage": None} for choice in _choices(turn.text, calls, reasoning, finish)
    ]
    chunks.append({"choices": [], "usage": usage})
    whole_chunks = [{**base, "object": "chat.completion.chunk", **chunk} for chunk in chunks]
    return "text/event-stream", [
        *(f"data: {json.dumps(one)}\n\n".encode() for one in whole_chunks),
        b"data: [DONE]\n\n",
    ]


def _render_call(call: ToolCall) -> dict[str, Any]:
    if isinstance(call.arguments, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}


def _choices(text: str, calls: list[dict[str, Any]], reasoning: str, finish: str) -> Iterator[dict[str, Any]]:
    def choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}

    yield choice({"role": "assistant", "content": None if calls else "", "refusal": None})
    for part in halves(reasoning):
        yield choice({"reasoning_content": part, "content": None})
    for part in halves(text):
        yield choice({"content": part})
    for index, call in enumerate(calls):
        kind = call["type"]
        field = "arguments" if kind == "function" else "input"
        yield choice({"tool_calls": [{**call, "index": index, kind: {**call[kind], field: ""}}]})
        for part in halves(call[kind][field]):
            yield choice({"tool_calls": [{"index": index, kind: {field: part}}]})
    yield choice({}, finish)


def render_error(status: int, message: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json.dumps({"error": error}).encode()
