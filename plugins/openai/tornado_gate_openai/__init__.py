"""Chat at OpenAI and at every upstream that is compatible with it: vLLM, Ollama, Groq, Mistral and many more.

The wire formats themselves are in `tornado_gate.wire.openai_chat` and `openai_responses`; here is only what differs from
upstream to upstream, which `facts.py` reads from conf and `presets.yaml`.

Source: OpenAI's API reference, "Chat Completions", "Responses" and "Completions", as in openai-python 3.52 (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse, stream
from tornado_gate.errors import GateError, UnsupportedOperation, UpstreamError
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    Request,
    StreamError,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    Verbatim,
)
from tornado_gate.wire import openai_chat, openai_completions, openai_responses
from tornado_gate.wire.openai_chat.errors import masked
from tornado_gate_openai import siblings
from tornado_gate_openai.address import CHAT, COMPLETIONS, RESPONSES
from tornado_gate_openai.body import applied, changes
from tornado_gate_openai.facts import Facts, read

_FIELDS: Final = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "reasoning_effort": "reasoning",
    "input": "messages",
    "text": "response_format",
}
"""The vocabulary's names of wire fields, where they differ."""

_PATHS: Final = {
    openai_chat.WIRE_FORMAT: CHAT,
    openai_completions.WIRE_FORMAT: COMPLETIONS,
    openai_responses.WIRE_FORMAT: RESPONSES,
}
_SOUNDS: Final = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read(entry)
    return Capabilities(operations=frozenset({"chat"}), speaks=_speaks(facts), base_url=base_url, settings=facts)


def _speaks(facts: Facts) -> frozenset[str]:
    """The formats that go up as they came. Chat does not where conf wants every chat asked as a response."""
    spoken = {
        openai_chat.WIRE_FORMAT: facts.api == "chat",
        openai_completions.WIRE_FORMAT: facts.completions,
        openai_responses.WIRE_FORMAT: facts.responses,
    }
    return frozenset(wire_format for wire_format, speaks in spoken.items() if speaks)


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    facts: Facts = call.target.settings
    headers = _headers(call, facts)
    match request:
        case Verbatim(operation="chat", wire_format=wire_format) if wire_format in _PATHS:
            url = call.target.base_url + _PATHS[wire_format]
            return UpstreamRequest(url=url, headers=headers, body=_patched(call, facts, request))
        case ChatRequest():
            body = _translated(call, facts, request)
            changed = changes(facts, body, lambda name: call.lose(request.field_name(_FIELDS.get(name, name))))
            path = RESPONSES if facts.api == "responses" else CHAT
            return UpstreamRequest(url=call.target.base_url + path, headers=headers, json=applied(changed, body))
    raise UnsupportedOperation(f"The model '{call.model}' can only chat.")


def _translated(call: Call, facts: Facts, request: ChatRequest) -> dict[str, Any]:
    if facts.api == "responses":
        body = siblings.response_body(call, request) | {"store": False}  # the gateway keeps the turns
        if (
            request.reasoning is not None
        ):  # which a turn goes on with; models that do not reason refuse to be asked for it
            body["include"] = sorted({*body.get("include", ()), openai_responses.ENCRYPTED})
        return body
    return siblings.chat_body(call, request)


def _patched(call: Call, facts: Facts, request: Verbatim) -> bytes:
    changed = changes(facts, request.body, call.lose)
    if request.body.get("model") != call.target.upstream_model:
        changed["model"] = call.target.upstream_model
    return patch_json(request.raw, changed) if changed else request.raw


def _headers(call: Call, facts: Facts) -> Mapping[str, str]:
    """Names in lower case, so that the entry's own headers replace ours however conf spells them."""
    headers = {"content-type": "application/json", **facts.headers}
    if call.target.api_key:
        headers["authorization"] = f"Bearer {call.target.api_key}"
    return headers | {name.lower(): str(value) for name, value in call.target.headers.items()}


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    events = _events(call, request, incoming)
    try:
        async for event in events:
            if isinstance(event, StreamError):
                yield StreamError(error=masked(event.error, call.target.api_key))
            else:
                yield event
    except GateError as error:
        raise masked(error, call.target.api_key) from error.__cause__
    finally:
        await stream.close(events)


async def _events(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    responses = call.target.settings.api == "responses"
    sound = _sound(request)
    if _is_stream(request, incoming):
        events = _streamed(sse.json_frames(incoming.chunks), responses, sound)
    else:
        events = stream.aiter_events(stream.replay(_result(await _object(call, incoming), responses, sound)))
    async for event in events:
        yield event


def _streamed(frames: AsyncIterator[Any], responses: bool, sound: str) -> AsyncIterator[StreamEvent]:
    if responses:
        return openai_responses.parse_events(frames)
    return openai_chat.parse_chunks(frames, audio_media_type=sound)


def _result(body: dict[str, Any], responses: bool, sound: str) -> ChatResult:
    if responses:
        return openai_responses.parse_response(body)
    return openai_chat.parse_response(body, audio_media_type=sound)


def _is_stream(request: Request, incoming: UpstreamResponse) -> bool:
    """What the upstream says counts for more than what it was asked for: some answer a stream with a whole body."""
    content_type = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in ("text/event-stream", "application/json"):
        return content_type == "text/event-stream"
    return isinstance(request, ChatRequest) and request.stream


async def _object(call: Call, incoming: UpstreamResponse) -> dict[str, Any]:
    try:
        body = await incoming.json()
    except ValueError as error:
        raise UpstreamError(f"The provider '{call.target.provider}' sent an answer that is not JSON.") from error
    if not isinstance(body, dict):
        raise UpstreamError(f"The provider '{call.target.provider}' sent an answer that is no JSON object.")
    return body


def _sound(request: Request) -> str:
    """The media type of the audio that was asked for; an answer does not say it."""
    wanted = (request.audio or {}).get("format") if isinstance(request, ChatRequest) else None
    return _SOUNDS.get(wanted, f"audio/{wanted}") if isinstance(wanted, str) else ""
