"""Callers of the gateway in the four wire formats: what they send, what they are shown, and what they send back.

Answers are validated by the models of the vendors' SDKs, so a missing member fails here. Sources: openai-python 3.52,
anthropic-python 2.11 and google-genai 3.4.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from anthropic.types import Message, RawMessageStreamEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Json = dict[str, Any]

CHAT: Final = "chat"
RESPONSES: Final = "responses"
MESSAGES: Final = "messages"
GENERATE: Final = "generate"
FORMATS: Final = (CHAT, RESPONSES, MESSAGES, GENERATE)

_WHOLE: Final[Mapping[str, TypeAdapter[Any]]] = {
    CHAT: TypeAdapter(ChatCompletion),
    RESPONSES: TypeAdapter(Response),
    MESSAGES: TypeAdapter(Message),
    GENERATE: TypeAdapter(GenerateContentResponse),
}
_FRAMES: Final[Mapping[str, TypeAdapter[Any]]] = {
    CHAT: TypeAdapter(ChatCompletionChunk),
    RESPONSES: TypeAdapter(ResponseStreamEvent),
    MESSAGES: TypeAdapter(RawMessageStreamEvent),
    GENERATE: TypeAdapter(GenerateContentResponse),
}


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call as the caller sees it; `text` is JSON for functions."""

    kind: str
    name: str
    text: str
    id: str


@dataclass(slots=True)
class Shown:
    """What the caller sees of one answer. `usage` is (input, of it cached, output, of it reasoning); None if not shown."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: list[ShownCall] = field(default_factory=list)
    end: str = ""
    usage: tuple[int | None, ...] = ()
    annotations: int = 0
    logprobs: int = 0
    turn: Any = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the gateway. `losses` are the names in x-gate-loss."""

    status: int
    losses: tuple[str, ...]
    shown: Shown
    error: str = ""


def send(client: httpx.Client, wire_format: str, model: str, body: Json, stream: bool) -> Reply:
    """Send `body` (without model and stream) and read the whole answer."""
    body = copy.deepcopy(body)
    path = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", MESSAGES: "/v1/messages"}.get(wire_format, "")
    if wire_format == GENERATE:
        path = f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    else:
        body = {"model": model, **body, **({"stream": True} if stream else {})}
        if stream and wire_format == CHAT:
            body["stream_options"] = {"include_usage": True}
    headers = {"anthropic-version": "2023-06-01"} if wire_format == MESSAGES else {}
    headers["user-agent"] = "OpenAI/Python 3.52.0"
    response = client.post(path, json=body, headers=headers)
    lost = tuple(filter(None, response.headers.get("x-gate-loss", "").replace(" ", "").split(",")))
    if response.status_code != 200:
        return Reply(response.status_code, lost, Shown(), response.text)
    whole = _collect(wire_format, response.text) if stream else response.json()
    _WHOLE[wire_format].validate_python(whole)
    return Reply(200, lost, _READERS[wire_format](whole))


def _collect(wire_format: str, text: str) -> Json:
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ") and "[DONE]" not in line]
    for frame in frames:
        assert "error" not in frame, frame
        if '"type": "custom"' not in json.dumps(frame):  # which the SDK's types lack, though the vendor sends it
            _FRAMES[wire_format].validate_python(frame)
    whole: Json = _COLLECTORS[wire_format](frames)
    return whole


def _collect_chat(frames: Iterable[Json]) -> Json:
    whole: Json = {}
    message: Json = {"role": "assistant", "content": None, "refusal": None}
    calls: dict[int, Json] = {}
    tokens: list[Any] = []
    end = None
    for frame in frames:
        whole = {**whole, **{name: value for name, value in frame.items() if value is not None}}
        for choice in frame["choices"]:
            end = choice["finish_reason"] or end
            tokens += (choice.get("logprobs") or {}).get("content") or []
            for name, value in choice["delta"].items():
                if name in ("content", "refusal") and value is not None:
                    message[name] = (message[name] or "") + value
                elif name == "annotations":
                    message[name] = [*message.get(name, ()), *value]
                elif name == "tool_calls":
                    for call in value:
                        _merge(calls.setdefault(call["index"], {}), call)
    if calls:
        message["tool_calls"] = [
            {name: value for name, value in call.items() if name != "index"} for call in calls.values()
        ]
    if message["refusal"] or calls:
        message["content"] = message["content"] or None
    choice = {"index": 0, "message": message, "finish_reason": end}
    choice["logprobs"] = {"content": tokens, "refusal": None} if tokens else None
    return {**whole, "object": "chat.completion", "choices": [choice]}


def _merge(whole: Json, delta: Json) -> None:
    for name, value in delta.items():
        if isinstance(value, dict):
            _merge(whole.setdefault(name, {}), value)
        elif isinstance(value, str) and name in ("arguments", "input"):
            whole[name] = whole.get(name, "") + value
        elif value is not None:
            whole[name] = value


def _collect_response(frames: list[Json]) -> Json:
    """The final response; what the deltas said must be the same."""
    last = frames[-1]
    assert last["type"] in ("response.completed", "response.incomplete"), last
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    final: Json = last["response"]
    texts = [frame["delta"] for frame in frames if frame["type"] in ("response.output_text.delta",)]
    parts = [part for item in final["output"] for part in item.get("content") or ()]
    assert "".join(texts) == "".join(part.get("text", "") for part in parts)
    done = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
    assert done == final["output"], (done, final["output"])
    return final


def _collect_message(frames: Iterable[Json]) -> Json:
    whole: Json = {}
    texts: dict[int, str] = {}
    for frame in frames:
        match frame["type"]:
            case "message_start":
                whole = frame["message"]
            case "content_block_start":
                whole["content"].append(frame["content_block"])
            case "content_block_delta":
                block, delta = whole["content"][frame["index"]], frame["delta"]
                if delta["type"] == "input_json_delta":
                    texts[frame["index"]] = texts.get(frame["index"], "") + delta["partial_json"]
                elif delta["type"] == "citations_delta":
                    block["citations"] = [*(block.get("citations") or []), delta["citation"]]
                else:
                    name = delta["type"].removesuffix("_delta")
                    block[name] = block.get(name, "") + delta[name]
            case "message_delta":
                whole |= frame["delta"]
                whole["usage"] |= {name: value for name, value in frame["usage"].items() if value is not None}
    for index, text in texts.items():
        whole["content"][index]["input"] = json.loads(text)
    return whole


def _collect_generated(frames: list[Json]) -> Json:
    whole: Json = {**frames[-1], "candidates": [{**(frames[-1].get("candidates") or [{}])[0]}]}
    parts: list[Json] = []
    tokens: list[Any] = []
    for frame in frames:
        for candidate in frame.get("candidates") or ():
            tokens += (candidate.get("logprobsResult") or {}).get("chosenCandidates") or []
            for part in (candidate.get("content") or {}).get("parts") or ():
                last = parts[-1] if parts else {}
                if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
                    last["text"] += part["text"]
                    last |= {name: value for name, value in part.items() if name != "text"}
                else:
                    parts.append(dict(part))
    whole["candidates"][0]["content"] = {"role": "model", "parts": parts}
    if tokens:
        whole["candidates"][0]["logprobsResult"] = {"chosenCandidates": tokens}
    return whole


def _read_chat(whole: Json) -> Shown:
    (choice, *_) = whole["choices"]
    message, usage = choice["message"], whole["usage"]
    calls = [
        ShownCall(call["type"], inner["name"], inner.get("arguments", inner.get("input", "")), call["id"])
        for call in message.get("tool_calls") or ()
        for inner in [call[call["type"]]]
    ]
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Shown(
        text=message["content"] or "",
        refusal=message.get("refusal") or "",
        thinking=message.get("reasoning_content") or "",
        calls=calls,
        end=choice["finish_reason"],
        usage=(usage["prompt_tokens"], cached, usage["completion_tokens"], reasoning),
        annotations=len(message.get("annotations") or ()),
        logprobs=len((choice.get("logprobs") or {}).get("content") or ()),
        turn=[message],
    )


def _read_response(whole: Json) -> Shown:
    shown = Shown(turn=whole["output"], id=whole["id"])
    summaries: list[str] = []
    for item in whole["output"]:
        match item["type"]:
            case "reasoning":
                summaries += [part["text"] for part in item["summary"]]
            case "message":
                for part in item["content"]:
                    shown.text += part.get("text", "")
                    shown.refusal += part.get("refusal", "")
                    shown.annotations += len(part.get("annotations") or ())
                    shown.logprobs += len(part.get("logprobs") or ())
            case "function_call":
                shown.calls.append(ShownCall("function", item["name"], item["arguments"], item["call_id"]))
            case "custom_tool_call":
                shown.calls.append(ShownCall("custom", item["name"], item["input"], item["call_id"]))
    shown.thinking = "\n\n".join(summaries)
    shown.end = (whole.get("incomplete_details") or {}).get("reason") or whole["status"]
    usage = whole["usage"]
    cached, reasoning = usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]
    shown.usage = (usage["input_tokens"], cached, usage["output_tokens"], reasoning["reasoning_tokens"])
    return shown


def _read_message(whole: Json) -> Shown:
    shown = Shown(end=whole["stop_reason"], turn={"role": "assistant", "content": whole["content"]})
    for block in whole["content"]:
        match block["type"]:
            case "text":
                shown.text += block["text"]
                shown.annotations += len(block.get("citations") or ())
            case "thinking":
                shown.thinking += block["thinking"]
            case "tool_use":
                text = json.dumps(block["input"], ensure_ascii=False)
                shown.calls.append(ShownCall("function", block["name"], text, block["id"]))
    usage = whole["usage"]
    cached = usage.get("cache_read_input_tokens") or 0
    shown.usage = (usage["input_tokens"] + cached, cached, usage["output_tokens"], None)
    return shown


def _read_generated(whole: Json) -> Shown:
    (candidate,) = whole["candidates"]
    shown = Shown(end=candidate["finishReason"], turn=candidate["content"])
    for part in candidate["content"].get("parts") or ():
        if "functionCall" in part:
            call = part["functionCall"]
            text = json.dumps(call.get("args") or {}, ensure_ascii=False)
            shown.calls.append(ShownCall("function", call["name"], text, call.get("id") or ""))
        elif part.get("thought"):
            shown.thinking += part.get("text", "")
        else:
            shown.text += part.get("text", "")
    shown.logprobs = len((candidate.get("logprobsResult") or {}).get("chosenCandidates") or ())
    usage = whole["usageMetadata"]
    thoughts = usage.get("thoughtsTokenCount") or 0
    cached = usage.get("cachedContentTokenCount") or 0
    shown.usage = (usage["promptTokenCount"], cached, usage["candidatesTokenCount"] + thoughts, thoughts)
    return shown


_READERS: Final = {CHAT: _read_chat, RESPONSES: _read_response, MESSAGES: _read_message, GENERATE: _read_generated}
_COLLECTORS: Final[Mapping[str, Any]] = {
    CHAT: _collect_chat,
    RESPONSES: _collect_response,
    MESSAGES: _collect_message,
    GENERATE: _collect_generated,
}
