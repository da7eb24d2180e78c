"""Chat at OpenAI and at every upstream that is compatible with it: vLLM, Ollama, Groq, Mistral and many more.

The wire format itself is in `tornado_gate.wire.openai_chat`; here is only what differs from upstream to upstream, which
`facts.py` reads from conf and `presets.yaml`.

Source: OpenAI's API reference, "Chat Completions", as in openai-python 3.52 (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse, stream
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.types import (
    Call,
    ChatRequest,
    Request,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    Verbatim,
)
from tornado_gate.wire.openai_chat import WIRE_FORMAT, parse_chunks, parse_response, render_request
from tornado_gate_openai.address import ENDPOINT
from tornado_gate_openai.body import applied, changes
from tornado_gate_openai.facts import Facts, read

_FIELDS = {"max_completion_tokens": "max_tokens", "reasoning_effort": "reasoning"}
"""The vocabulary's names of wire fields, where they differ."""

_SOUNDS = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read(entry)
    return Capabilities(
        operations=frozenset({"chat"}), speaks=frozenset({WIRE_FORMAT}), base_url=base_url, settings=facts
    )


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    facts: Facts = call.target.settings
    url = call.target.base_url + ENDPOINT
    match request:
        case Verbatim(operation="chat") if request.wire_format == WIRE_FORMAT:
            return UpstreamRequest(url=url, headers=_headers(call, facts), body=_patched(call, facts, request))
        case ChatRequest():
            body = render_request(call, request)
            changed = changes(facts, body, lambda name: call.lose(request.field_name(_FIELDS.get(name, name))))
            return UpstreamRequest(url=url, headers=_headers(call, facts), json=applied(changed, body))
    raise UnsupportedOperation(f"The model '{call.model}' can only chat.")


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
    sound = _sound(request)
    if _is_stream(request, incoming):
        events = parse_chunks(sse.json_frames(incoming.chunks), audio_media_type=sound)
    else:
        result = parse_response(await _object(call, incoming), audio_media_type=sound)
        events = stream.aiter_events(stream.replay(result))
    async for event in events:
        yield event


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
