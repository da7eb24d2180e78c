"""Chat completions as the vendor sends them, whole and streamed.

Source: openai-python 3.52, types/chat/chat_completion.py and chat_completion_chunk.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from qa.imitations.openai import model_replies as replies
from qa.imitations.openai.model_replies import Asked, Said, cut_in_pieces, list_tokens

Json = dict[str, Any]


def read_chat(body: Mapping[str, Any]) -> Asked:
    """What an accepted request asks."""
    turns = body["messages"]
    words = next((_text_of(turn.get("content")) for turn in reversed(turns) if turn["role"] == "user"), "")
    choice = body.get("tool_choice") or "auto"
    wanted = body.get("response_format") or {}
    return Asked(
        words=words,
        answered=turns[-1]["role"] == "tool",
        effort=body.get("reasoning_effort") or "",
        tools=tuple(_read_tool(tool) for tool in body.get("tools") or ()),
        mode=_read_mode(choice),
        forced=_read_forced(choice),
        parallel=body.get("parallel_tool_calls") is not False,
        schema=(wanted.get("json_schema") or {}).get("schema"),
        json=wanted.get("type") == "json_object",
        logprobs=bool(body.get("logprobs")),
        top=body.get("top_logprobs") or 0,
        audio="audio" in (body.get("modalities") or ()),
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or ())


def _read_tool(tool: Json) -> tuple[str, str, Any]:
    inner = tool[tool["type"]]
    return tool["type"], inner["name"], inner.get("parameters")


def _read_mode(choice: Any) -> str:
    if isinstance(choice, str):
        return choice
    return str(choice["allowed_tools"]["mode"]) if choice["type"] == "allowed_tools" else "forced"


def _read_forced(choice: Any) -> tuple[str, ...]:
    if isinstance(choice, str):
        return ()
    ones = choice["allowed_tools"]["tools"] if choice["type"] == "allowed_tools" else [choice]
    return tuple(one[one["type"]]["name"] for one in ones)


def render_usage(said: Said) -> Json:
    reasoning = replies.REASONING_TOKENS if said.reasoned else 0
    return {
        "prompt_tokens": replies.INPUT_TOKENS,
        "completion_tokens": said.output_tokens,
        "total_tokens": replies.INPUT_TOKENS + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": replies.CACHED_TOKENS, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def render_chat(number: int, body: Mapping[str, Any], said: Said) -> Json:
    choices = [_render_choice(number, index, said) for index in range(body.get("n") or 1)]
    return _frame(number, body, "chat.completion", choices=choices, usage=render_usage(said))


def _frame(number: int, body: Mapping[str, Any], kind: str, **members: Any) -> Json:
    return {
        "id": f"chatcmpl-{number:08x}",
        "object": kind,
        "created": 1790000000,
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_imitation",
        **members,
    }


def _render_choice(number: int, index: int, said: Said) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None, "refusal": said.refusal or None}
    message["annotations"] = _render_annotations(said)
    if said.calls:
        message["tool_calls"] = [_render_call(number, index, at, call) for at, call in enumerate(said.calls)]
    if said.audio:
        message |= {"content": None, "audio": _render_audio(number, said)}
    return {"index": index, "message": message, "logprobs": _render_logprobs(said), "finish_reason": said.end}


def _render_audio(number: int, said: Said) -> Json:
    return {"id": f"audio_{number:08x}", "data": "UklGRg==", "expires_at": 1790003600, "transcript": said.text}


def _render_annotations(said: Said) -> list[Json]:
    return [{"type": "url_citation", "url_citation": dict(replies.CITED)}] if said.cited else []


def _render_logprobs(said: Said) -> Json | None:
    return {"content": list_tokens(said, said.text), "refusal": None} if said.logprobs else None


def _render_call(number: int, index: int, at: int, call: tuple[str, str, str]) -> Json:
    kind, name, text = call
    inner = {"name": name, "input" if kind == "custom" else "arguments": text}
    return {"id": make_call_id(number, index, at), "type": kind, kind: inner}


def make_call_id(number: int, index: int, at: int) -> str:
    return f"call_{number:08x}{index:04x}{at:04x}Kd5"


def stream_chat(number: int, body: Mapping[str, Any], said: Said) -> Iterator[bytes]:
    """Every frame of the stream."""
    wants_usage = (body.get("stream_options") or {}).get("include_usage")
    extra: Json = {"usage": None} if wants_usage else {}
    for index in range(body.get("n") or 1):
        for delta, logprobs, end in _iterate_deltas(number, index, said):
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": end}
            yield _event(_frame(number, body, "chat.completion.chunk", choices=[choice], obfuscation="Xa9", **extra))
    if wants_usage:
        yield _event(_frame(number, body, "chat.completion.chunk", choices=[], usage=render_usage(said)))
    yield b"data: [DONE]\n\n"


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _iterate_deltas(number: int, index: int, said: Said) -> Iterator[tuple[Json, Json | None, str | None]]:
    yield {"role": "assistant", "content": "", "refusal": None}, None, None
    if said.audio:
        yield {"audio": {"id": f"audio_{number:08x}", "transcript": said.text}}, None, None
        yield {"audio": {"data": "UklGRg=="}}, None, None
        yield {"audio": {"expires_at": 1790003600}}, None, None
    else:
        tokens = list_tokens(said, said.text)
        for at, piece in enumerate(cut_in_pieces(said.text)):
            logprobs: Json | None = {"content": [tokens[at]], "refusal": None} if tokens else None
            yield {"content": piece}, logprobs, None
    for piece in cut_in_pieces(said.refusal):
        yield {"refusal": piece}, None, None
    if said.cited:
        yield {"annotations": _render_annotations(said)}, None, None
    for at, (kind, name, text) in enumerate(said.calls):
        member = "input" if kind == "custom" else "arguments"
        first = {"index": at, "id": make_call_id(number, index, at), "type": kind, kind: {"name": name, member: ""}}
        yield {"tool_calls": [first]}, None, None
        for piece in cut_in_pieces(text):
            yield {"tool_calls": [{"index": at, kind: {member: piece}}]}, None, None
    yield {}, None, said.end
