"""The next request of a caller: the answer sent back as it was shown, with tool results or another question."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from qa.imitations.openai.callers import CHAT, GENERATE, MESSAGES, RESPONSES, Json, Shown

Follow = Callable[[str, Json, Shown], Json]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def answer_tools(wire_format: str, body: Json, shown: Shown) -> Json:
    """Every tool call is answered with a text."""
    return _follow(wire_format, body, shown, [f"result {number}: 21 °C" for number, _ in enumerate(shown.calls)])


def answer_with_image(wire_format: str, body: Json, shown: Shown) -> Json:
    """The first tool call is answered with an image beside the text (formats M and responses only)."""
    following = answer_tools(wire_format, body, shown)
    if wire_format == RESPONSES:
        output = next(item for item in following["input"] if str(item.get("type")).endswith("_output"))
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
        output["output"] = [{"type": "input_text", "text": output["output"]}, image]
    else:
        result = following["messages"][-1]["content"][0]
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        result["content"] = [{"type": "text", "text": result["content"]}, {"type": "image", "source": source}]
    return following


def ask_again(wire_format: str, body: Json, shown: Shown) -> Json:
    """Another question after the answer."""
    return _add_question(wire_format, _add_turn(wire_format, body, shown), "And what about tomorrow?")


def continue_stored(wire_format: str, body: Json, shown: Shown) -> Json:
    """Another question, or the tools' results, after the stored response (format responses only)."""
    if shown.calls:
        value: Any = [{"type": "function_call_output", "call_id": call.id, "output": "21 °C"} for call in shown.calls]
    else:
        value = "And what about tomorrow?"
    return {**body, "input": value, "previous_response_id": shown.id}


def ask_without_thinking(wire_format: str, body: Json, shown: Shown) -> Json:
    """The answer sent back without its reasoning, as most clients do, with tool results."""
    bare = copy.deepcopy(shown)
    if wire_format == MESSAGES:
        bare.turn["content"] = [block for block in bare.turn["content"] if "thinking" not in block["type"]]
    elif wire_format == GENERATE:
        bare.turn["parts"] = [
            {name: value for name, value in part.items() if name != "thoughtSignature"}
            for part in bare.turn["parts"]
            if not part.get("thought")
        ]
    elif wire_format == RESPONSES:
        bare.turn = [item for item in bare.turn if item["type"] != "reasoning"]
    return answer_tools(wire_format, body, bare) if shown.calls else ask_again(wire_format, body, bare)


def _follow(wire_format: str, body: Json, shown: Shown, results: list[str]) -> Json:
    body = _add_turn(wire_format, body, shown)
    pairs = list(zip(shown.calls, results, strict=True))
    match wire_format:
        case "chat":
            body["messages"] += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in pairs]
        case "responses":
            for call, text in pairs:
                kind = "custom_tool_call_output" if call.kind == "custom" else "function_call_output"
                body["input"].append({"type": kind, "call_id": call.id, "output": text})
        case "messages":
            results_ = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in pairs]
            body["messages"].append({"role": "user", "content": results_})
        case _:
            parts = [
                {"functionResponse": {"name": call.name, "response": {"output": text}, **_with_id(call.id)}}
                for call, text in pairs
            ]
            body["contents"].append({"role": "user", "parts": parts})
    return body


def _with_id(call_id: str) -> Json:
    return {"id": call_id} if call_id else {}


def _add_turn(wire_format: str, body: Json, shown: Shown) -> Json:
    body, turn = copy.deepcopy(body), copy.deepcopy(shown.turn)
    body.pop("tool_choice", None)  # a forced tool would be called for ever
    (body.get("toolConfig") or {}).pop("functionCallingConfig", None)
    if wire_format == RESPONSES:
        if isinstance(body["input"], str):
            body["input"] = [{"role": "user", "content": body["input"]}]
        body["input"] += turn
    elif wire_format == CHAT:
        body["messages"] += turn
    else:
        body["messages" if wire_format == MESSAGES else "contents"].append(turn)
    return body


def _add_question(wire_format: str, body: Json, text: str) -> Json:
    match wire_format:
        case "responses":
            body["input"].append({"role": "user", "content": text})
        case "generate":
            body["contents"].append({"role": "user", "parts": [{"text": text}]})
        case _:
            body["messages"].append({"role": "user", "content": text})
    return body
