"""Anthropic's Messages API, with the checks that break agents.

Sources: anthropic-python 2.11 (types of the parameters and events); the vendor's pages "Extended thinking", "Tool use" and
"Errors" (read 2026-11-22); the refusals are worded as in public reports.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from anthropic.types import message_create_params as general
from anthropic.types.beta import message_create_params as beta

from qa.agents.conversation import Asked, Conversation, RefusedError, Round, ToolCall, ToolResult, Turn
from qa.agents.images import read_image
from qa.agents.sdk_types import check_value

BETA_MEMBERS = {"context_management": "context-management-", "mcp_servers": "mcp-client-", "fallbacks": "fallback"}
"""Members of the body that need a value of the header ``anthropic-beta`` with this beginning."""
ALWAYS_THINKS = True
REMINDER = re.compile(r"<(system-reminder|environment_context|session_context)>.*?</\1>", re.DOTALL)


def read(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """Check and parse the body of POST /v1/messages."""
    if not headers.get("anthropic-version"):
        raise RefusedError("anthropic-version: header is required")
    _check_members(headers, body)
    _check_blocks(body)
    _check_thinking(body)
    conversation = Conversation(
        {tool["name"]: False for tool in body.get("tools", ()) if "input_schema" in tool},
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
        wants_thinking=(body.get("thinking") or {}).get("type") != "disabled",
    )
    _read_messages(body["messages"], conversation)
    return Asked(body["model"], bool(body.get("stream")), conversation)


def _check_members(headers: Mapping[str, str], body: dict[str, Any]) -> None:
    flags = [flag.strip() for flag in headers.get("anthropic-beta", "").split(",") if flag.strip()]
    for member, flag in BETA_MEMBERS.items():
        if member in body and not any(one.startswith(flag) for one in flags):
            raise RefusedError(f"{member}: Extra inputs are not permitted")
    module = beta if flags else general
    kind = module.MessageCreateParamsStreaming if body.get("stream") else module.MessageCreateParamsNonStreaming
    if "betas" in body:
        raise RefusedError("betas: Extra inputs are not permitted")
    check_value(body, kind)
    if body["max_tokens"] > 128000:
        raise RefusedError(
            f"max_tokens: {body['max_tokens']} > 128000, which is the maximum allowed number of output tokens"
        )
    for name in ("temperature", "top_p", "top_k"):
        if body.get(name) is not None and body[name] != 1:
            raise RefusedError(f"`{name}` is deprecated for this model.")
    if len(re.findall(r'"cache_control": \{', json.dumps(body))) > 4:
        raise RefusedError("A maximum of 4 blocks with cache_control may be provided.")
    for number, tool in enumerate(body.get("tools", ())):
        if "input_schema" not in tool:
            continue
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            raise RefusedError(f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        schema = tool["input_schema"]
        if schema.get("type") != "object" or schema.keys() & {"oneOf", "allOf", "anyOf"}:
            raise RefusedError(
                f"tools.{number}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf"
            )
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool") and ALWAYS_THINKS:
        raise RefusedError("Thinking may not be enabled when tool_choice forces tool use.")


def _check_blocks(body: dict[str, Any]) -> None:
    """Empty texts, ids, and the pairs of tool_use and tool_result."""
    messages = body["messages"]
    if not messages or messages[0]["role"] == "assistant":
        raise RefusedError('messages: first message must use the "user" role')
    if messages[-1]["role"] == "assistant":
        raise RefusedError(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    awaited: set[str] = set()
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if not blocks:
            raise RefusedError(f"messages.{number}: all messages must have non-empty content")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            _check_pairs(number, blocks, results, awaited)
            awaited = set()
        for place, block in enumerate(blocks):
            _check_block(f"messages.{number}.content.{place}", block)
        if message["role"] == "assistant":
            if awaited:
                raise RefusedError(
                    f"messages.{number}: `tool_use` ids were found without `tool_result` blocks: {awaited}"
                )
            ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if len(set(ids)) != len(ids):
                raise RefusedError(f"messages.{number}: `tool_use` ids must be unique")
            awaited = set(ids)
        elif message["role"] == "system" and awaited:
            raise RefusedError(f"messages.{number}: `tool_use` ids were found without `tool_result` blocks: {awaited}")


def _check_pairs(number: int, blocks: list[dict[str, Any]], results: list[str], awaited: set[str]) -> None:
    if missing := awaited - set(results):
        raise RefusedError(
            f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )
    for one in results:
        if one not in awaited:
            raise RefusedError(f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {one}.")
    if len(set(results)) != len(results):
        raise RefusedError(f"messages.{number}: each tool_use must have a single result")
    kinds = [block["type"] == "tool_result" for block in blocks]
    if results and not all(kinds[: len(results)]):
        raise RefusedError(f"messages.{number}: `tool_result` blocks must come first in the content")


def _check_block(path: str, block: dict[str, Any]) -> None:
    match block["type"]:
        case "text" if not block["text"].strip():
            raise RefusedError(f"{path}.text: text content blocks must contain non-whitespace text")
        case "tool_use" if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            raise RefusedError(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        case "tool_result" if isinstance(block.get("content"), list):
            for number, part in enumerate(block["content"]):
                _check_block(f"{path}.content.{number}", part)
        case "image" if block["source"]["type"] == "base64":
            try:
                read_image(block["source"]["data"], block["source"]["media_type"])
            except ValueError as error:
                raise RefusedError(f"{path}.source.base64: {error}") from None


def _check_thinking(body: dict[str, Any]) -> None:
    """Thinking blocks of the current turn are those that were issued, unmodified and first."""
    for number, message in enumerate(body["messages"]):
        if message["role"] != "assistant" or isinstance(message["content"], str):
            continue
        for place, block in enumerate(message["content"]):
            if block["type"] == "thinking" and not is_own(block["thinking"], block["signature"]):
                raise RefusedError(f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block")


def sign(text: str, signature: str) -> str:
    """The signature of a thinking block: base64, and bound to the text."""
    return base64.b64encode(f"anthropic {signature} {text}".encode()).decode()


def is_own(text: str, signature: str) -> bool:
    try:
        words = base64.b64decode(signature, validate=True).decode().split(" ", 2)
    except ValueError:
        return False
    return len(words) == 3 and words[0] == "anthropic" and words[2] == text


def _read_messages(messages: list[dict[str, Any]], conversation: Conversation) -> None:
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            calls = [ToolCall(one["id"], one["name"], one["input"]) for one in blocks if one["type"] == "tool_use"]
            thinking = [base64.b64decode(one["signature"]).decode() for one in blocks if one["type"] == "thinking"]
            if calls:
                conversation.rounds.append(Round(calls, thinking, conversation.asks))
        elif message["role"] == "user":
            _read_user_blocks(blocks, conversation)


def _read_user_blocks(blocks: list[dict[str, Any]], conversation: Conversation) -> None:
    results = [block for block in blocks if block["type"] == "tool_result"]
    for block in results:
        parts = block.get("content") or []
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        texts = [part.get("text") or part.get("tool_name") or "" for part in parts]
        text = "\n".join(text for text in texts if text)
        conversation.rounds[-1].results.append(ToolResult(block["tool_use_id"], text, tuple(_images(parts))))
    text = REMINDER.sub("", "\n".join(block["text"] for block in blocks if block["type"] == "text")).strip()
    if text and not results:
        conversation.user_texts.append(text)
    conversation.user_images += _images(blocks)


def _images(parts: list[dict[str, Any]]) -> list[bytes]:
    sources = [part["source"] for part in parts if part["type"] == "image"]
    return [base64.b64decode(source["data"]) for source in sources if source["type"] == "base64"]


def render(model: str, turn: Turn, stream: bool) -> tuple[str, list[bytes]]:
    """The answer as one JSON body, or as the frames of a stream."""
    blocks = _blocks(turn)
    message = {
        "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": model, "content": blocks,
        "stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None, "stop_details": None, "container": None,
        "usage": {"input_tokens": 1200, "output_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }  # fmt: skip
    if not stream:
        return "application/json", [json.dumps(message).encode()]
    return "text/event-stream", [
        f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in _events(message)
    ]


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for number, (text, signature) in enumerate(turn.thinking):
        if number == 1 and turn.between:
            blocks.append({"type": "text", "text": turn.between})
        blocks.append({"type": "thinking", "thinking": text, "signature": sign(text, signature)})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    return blocks + [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in turn.calls]


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        match block:
            case {"type": "text", "text": str(text)}:
                empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": one} for one in halves(text)]
            case {"type": "thinking", "thinking": str(text), "signature": signature}:
                empty = {**block, "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": one} for one in halves(text)]
                deltas.append({"type": "signature_delta", "signature": signature})
            case _:
                empty = {**block, "input": {}}
                texts = ["", *halves(json.dumps(block["input"]))]
                deltas = [{"type": "input_json_delta", "partial_json": one} for one in texts]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None, "stop_details": None, "container": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def halves(text: str) -> list[str]:
    """A text as two deltas, as an upstream sends it."""
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


def render_error(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status == 400 else "not_found_error"
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).encode()
