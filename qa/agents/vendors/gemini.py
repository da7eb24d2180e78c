"""Google's generateContent. The signature of the first call of each step must come back on its part.

Sources: google-genai 3.4 (types); ai.google.dev/gemini-api/docs/thought-signatures and /function-calling (read 2026-11-22); the
refusals are worded as in public reports.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from google.genai import types
from pydantic import ValidationError

from qa.agents.conversation import Asked, Conversation, RefusedError, Round, ToolCall, ToolResult, Turn
from qa.agents.images import read_image
from qa.agents.vendors.anthropic import REMINDER, halves

MEMBERS: Mapping[str, Any] = {
    "contents": types.Content,
    "systemInstruction": types.Content,
    "tools": types.Tool,
    "toolConfig": types.ToolConfig,
    "safetySettings": types.SafetySetting,
    "generationConfig": types.GenerationConfig,
    "cachedContent": None,
    "model": None,
}
NO_SIGNATURE = (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
"""Values that the vendor documents for history of other models."""


def read(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Asked:
    """Check and parse the body of POST /models/{model}:generateContent."""
    model, _, method = path.rpartition("/")[2].partition(":")
    _check_members(body)
    _check_turns(body["contents"])
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if schema is None and config.get("responseMimeType") == "application/json":
        schema = {}
    names = [one["name"] for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    for name in names:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", name):
            raise RefusedError(
                f"GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name {name}."
            )
    if len(set(names)) != len(names):
        raise RefusedError("Duplicate function declaration found")
    conversation = Conversation(dict.fromkeys(names, False), schema=schema)
    _read_contents(_drop_repeated(body["contents"]), conversation)
    return Asked(model, method.startswith("stream"), conversation)


def _check_members(body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name not in MEMBERS:
            raise RefusedError(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
        kind = MEMBERS[name]
        for one in value if isinstance(value, list) else [value]:
            try:
                if kind is not None:
                    kind.model_validate(one)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise RefusedError(
                    f"Invalid JSON payload received at '{name}.{where}': {first['msg']} {first['input']!r:.80}"
                ) from None
    config = body.get("generationConfig") or {}
    thinking = config.get("thinkingConfig") or {}
    if "thinkingLevel" in thinking and "thinkingBudget" in thinking:
        raise RefusedError("You can only set only one of thinking budget and thinking level.")
    if config.get("maxOutputTokens", 1) > 65536:
        raise RefusedError(
            "Unable to submit request because it has a maxOutputTokens value over the supported range 1..65536"
        )
    if not body.get("contents"):
        raise RefusedError("GenerateContentRequest.contents: contents is not specified")


def _check_turns(contents: list[dict[str, Any]]) -> None:
    """Turns, pairs of calls and responses, and the signatures of the current turn."""
    contents = _drop_repeated(contents)
    last_ask = max((number for number, one in enumerate(contents) if _is_ask(one)), default=0)
    for number, content in enumerate(contents):
        parts = content.get("parts") or []
        if not parts:
            raise RefusedError(f"GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty.")
        if any(not part.keys() - {"thought", "thoughtSignature"} for part in parts):
            raise RefusedError(
                f"contents[{number}].parts[0].data: required oneof field 'data' must have one initialized field"
            )
        calls = [part for part in parts if "functionCall" in part]
        before = contents[number - 1] if number else {}
        if calls and before.get("role") == "model":
            raise RefusedError(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
            )
        answered = [part for part in parts if "functionResponse" in part]
        asked = [part["functionCall"]["name"] for part in before.get("parts") or () if "functionCall" in part]
        if sorted(one["functionResponse"]["name"] for one in answered) != sorted(asked):
            raise RefusedError(
                "Please ensure that the number of function response parts is equal to the number of function call parts of "
                "the function call turn."
            )
        if calls and number > last_ask:
            _check_signature(number, calls[0])
    if contents[-1].get("role") == "model" and any("functionCall" in part for part in contents[-1]["parts"]):
        raise RefusedError("Please ensure that single turn requests end with a user role or a function response.")


def _drop_repeated(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The contents without results that repeat an earlier one, which Gemini CLI sends when it resumes a session."""
    kept: list[dict[str, Any]] = []
    answered: list[Any] = []
    for content in contents:
        parts = []
        for part in content["parts"]:
            response = part.get("functionResponse")
            if response is None or not response.get("id") or response not in answered:
                parts.append(part)
            answered.append(response)
        if parts or not content["parts"]:
            kept.append({**content, "parts": parts})
    return kept


def _is_ask(content: dict[str, Any]) -> bool:
    return content.get("role", "user") == "user" and not any("functionResponse" in part for part in content["parts"])


def _check_signature(number: int, part: dict[str, Any]) -> None:
    name = part["functionCall"]["name"]
    if "thoughtSignature" not in part:
        raise RefusedError(
            f"Function call is missing a thought_signature in functionCall parts. Function call `{name}`, position {number}."
        )
    data = _decode(part["thoughtSignature"])
    if data not in NO_SIGNATURE and not data.startswith(b"google "):
        raise RefusedError("Corrupted thought signature.")


def _decode(text: str) -> bytes:
    if text.encode() in NO_SIGNATURE:
        return text.encode()
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise RefusedError(
            f"Invalid value at 'thought_signature' (TYPE_BYTES), Base64 decoding failed for {text[:20]!r}"
        ) from None


def _read_contents(contents: list[dict[str, Any]], conversation: Conversation) -> None:
    for content in contents:
        parts = content["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if calls:
            signatures = [_decode(part["thoughtSignature"]).decode() for part in parts if "thoughtSignature" in part]
            made = [ToolCall(one.get("id") or one["name"], one["name"], one.get("args") or {}) for one in calls]
            conversation.rounds.append(Round(made, signatures, conversation.asks))
        answered = [part["functionResponse"] for part in parts if "functionResponse" in part]
        loose = _images(parts)
        for one in answered:
            text = json.dumps(one.get("response"), ensure_ascii=False)
            images = (*_images(one.get("parts") or ()), *loose)
            conversation.rounds[-1].results.append(ToolResult(one.get("id") or one["name"], text, images))
        if not answered and content.get("role", "user") == "user":
            conversation.user_images += loose
            text = REMINDER.sub("", "\n".join(part.get("text", "") for part in parts)).strip()
            if text:
                conversation.user_texts.append(text)


def _images(parts: Any) -> list[bytes]:
    try:
        found = [part["inlineData"] for part in parts if "inlineData" in part]
        return [read_image(one["data"], one["mimeType"]) for one in found if one["mimeType"].startswith("image/")]
    except ValueError as error:
        raise RefusedError(str(error)) from None


def render(model: str, turn: Turn, stream: bool) -> tuple[str, list[bytes]]:
    """The answer as one JSON body, or as the frames of a stream (``alt=sse``)."""
    parts = list(_parts(turn))
    usage = {"promptTokenCount": 1200, "candidatesTokenCount": 40, "totalTokenCount": 1260, "thoughtsTokenCount": 20}
    base = {"usageMetadata": usage, "modelVersion": model, "responseId": uuid.uuid4().hex}

    def chunk(some: list[dict[str, Any]], **ending: str) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": some, "role": "model"}, "index": 0, **ending}], **base}

    if not stream:
        return "application/json", [json.dumps(chunk(parts, finishReason="STOP")).encode()]
    chunks = [chunk([part]) for part in parts] + [chunk([{"text": ""}], finishReason="STOP")]
    return "text/event-stream", [f"data: {json.dumps(one)}\r\n\r\n".encode() for one in chunks]


def _parts(turn: Turn) -> list[dict[str, Any]]:
    """Thoughts, text and calls. Only the first call has a signature; without calls, the last part has it."""
    parts: list[dict[str, Any]] = []
    for number, (text, _) in enumerate(turn.thinking):
        if number == 1 and turn.between:
            parts.append({"text": turn.between})
        parts.append({"text": text, "thought": True})
    parts += [{"text": part} for part in halves(turn.text)]
    first = len(parts)
    parts += [{"functionCall": {"name": one.name, "args": one.arguments, "id": one.id}} for one in turn.calls]
    signature = "google " + ",".join(one for _, one in turn.thinking)
    place = first if turn.calls else len(parts) - 1
    parts[place] = {**parts[place], "thoughtSignature": base64.b64encode(signature.encode()).decode()}
    return parts


def render_error(status: int, message: str) -> bytes:
    word = "INVALID_ARGUMENT" if status == 400 else "NOT_FOUND"
    return json.dumps({"error": {"code": status, "message": message, "status": word}}).encode()
