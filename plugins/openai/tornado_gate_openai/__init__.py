"""OpenAI and every upstream that is compatible with it: vLLM, Ollama, Groq, Mistral and many more.

Chats are here, videos in `videos.py`, all else in `media.py`, which are imported when a request first needs them. The wire
formats themselves are in `tornado_gate.wire.openai_*`; here is only what differs from upstream to upstream, which `facts.py`
reads from conf and `presets.yaml`.

Source: OpenAI's API reference, as in openai-python 3.52 (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tornado_gate import Capabilities, ProviderEntry, needed_later, patch_json, provider_impl, sse
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import UnsupportedOperation
from tornado_gate.http import upstream
from tornado_gate.streams import stages
from tornado_gate.streams.events import replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    MediaRequest,
    RealtimeRequest,
    Request,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    Verbatim,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.wire import formats, openai_chat
from tornado_gate_openai import cross_format
from tornado_gate_openai.answers import json_object
from tornado_gate_openai.body import applied, changes
from tornado_gate_openai.endpoints import CHAT, ENDPOINTS, RESPONSES, Endpoint
from tornado_gate_openai.facts import Facts, read

if TYPE_CHECKING:
    from tornado_gate_openai.videos import AnyVideo

_FIELDS: Final = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "reasoning_effort": "reasoning",
    "input": "messages",
    "text": "response_format",
}
"""The vocabulary's names of wire fields, where they differ."""

needed_later(__name__, "media", "realtime", "videos")
needed_later("tornado_gate.wire", "openai_responses")

_SOUNDS: Final = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read(entry)
    return Capabilities(
        operations=facts.serves,
        models=facts.models,
        inputs_at_once=facts.inputs_at_once,
        speaks=_speaks(facts),
        base_url=base_url,
        settings=facts,
    )


def _speaks(facts: Facts) -> frozenset[str]:
    """The formats that go up as they came. Chat does not where conf wants every chat asked as a response."""
    missing = {
        formats.OPENAI_CHAT: facts.api != "chat",
        formats.OPENAI_COMPLETIONS: not facts.completions,
        formats.OPENAI_RESPONSES: not facts.responses,
    }
    return frozenset(
        wire_format
        for wire_format, endpoint in ENDPOINTS.items()
        if endpoint.operation in facts.serves and not missing.get(wire_format, False)
    )


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest | Coroutine[Any, Any, UpstreamRequest]:
    facts: Facts = call.target.settings
    match request:
        case Verbatim():
            endpoint = ENDPOINTS.get(request.wire_format)
            if endpoint is not None and endpoint.operation == request.operation:
                return _forwarded(call, facts, request, endpoint)
        case ChatRequest():
            body = _translated(call, facts, request)
            changed = changes(facts, body, lambda name: call.lose(request.field_name(_FIELDS.get(name, name))))
            return _outgoing(call, facts, RESPONSES if facts.api == "responses" else CHAT, applied(changed, body))
        case VideoRequest() | VideoPoll() | VideoDownload() | VideoCancel():
            return _video(call, facts, request)
        case RealtimeRequest():
            from tornado_gate_openai import realtime

            return realtime.connection(call, facts.headers_for(call.target), facts.realtime_dialect)
        case MediaRequest():
            return _asked(call, facts, request)
    raise UnsupportedOperation(f"The model '{call.model}' cannot do this.")


async def _asked(call: Call, facts: Facts, request: MediaRequest) -> UpstreamRequest:
    from tornado_gate_openai import media

    path, body = await media.asked(call, facts, request)
    return _outgoing(call, facts, path, body)


async def _video(call: Call, facts: Facts, request: AnyVideo) -> UpstreamRequest:
    from tornado_gate_openai import videos

    asked = await videos.asked(call, facts, request)
    if asked.body is not None:
        return _outgoing(call, facts, asked.path, asked.body)
    headers = {name: value for name, value in facts.headers_for(call.target).items() if name != "content-type"}
    url = call.target.base_url + asked.path
    return UpstreamRequest(method=asked.method, url=url, headers=headers, context=asked.context)


def _forwarded(call: Call, facts: Facts, request: Verbatim, endpoint: Endpoint) -> UpstreamRequest:
    path = endpoint.path(request.path)
    target = call.target
    if not request.form:
        raw = _patched(call, facts, request)
        return UpstreamRequest(url=target.base_url + path, headers=facts.headers_for(target), body=raw)
    changed = changes(facts, request.body, call.lose)
    files = [file for file in request.files if file.field.removesuffix("[]") not in facts.drop]
    for file in request.files:
        if file not in files:
            call.lose(file.field.removesuffix("[]"))
    fields = applied({**changed, "model": target.upstream_model}, request.body)
    return _outgoing(call, facts, path, FormBody(fields, files))


def _outgoing(call: Call, facts: Facts, path: str, body: dict[str, Any] | FormBody) -> UpstreamRequest:
    url, headers = call.target.base_url + path, facts.headers_for(call.target)
    if isinstance(body, dict):
        return UpstreamRequest(url=url, headers=headers, json=body)
    headers = {**headers, "content-type": body.content_type}  # of whose boundary nobody else knows
    return UpstreamRequest(url=url, headers=headers, body=body)


def _translated(call: Call, facts: Facts, request: ChatRequest) -> dict[str, Any]:
    if facts.api == "responses":
        from tornado_gate.wire.openai_responses import ENCRYPTED

        body = cross_format.response_body(call, request) | {"store": False}  # the gateway keeps the turns
        if (
            request.reasoning is not None
        ):  # which a turn goes on with; models that do not reason refuse to be asked for it
            body["include"] = sorted({*body.get("include", ()), ENCRYPTED})
        return body
    return cross_format.chat_body(call, request)


def _patched(call: Call, facts: Facts, request: Verbatim) -> bytes:
    changed = {} if facts.changes_nothing else changes(facts, request.body, call.lose)
    model = call.target.upstream_model
    if request.body.get("model") != model:
        changed["model"] = model
    return patch_json(request.raw, changed, request.body) if changed else request.raw


@provider_impl
def call_upstream(call: Call, outgoing: UpstreamRequest) -> Coroutine[Any, Any, UpstreamResponse]:
    if outgoing.context is None:
        return upstream.call_upstream(call, outgoing)
    from tornado_gate_openai import videos

    return videos.call_about_job(call, outgoing)


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    if isinstance(request, VideoRequest | VideoPoll | VideoCancel):
        from tornado_gate_openai import videos

        return videos.events(call, request, incoming)
    if isinstance(request, MediaRequest):
        from tornado_gate_openai import media

        return media.events(call, request, incoming)
    responses = call.target.settings.api == "responses"
    sound = _sound(request)
    if incoming.is_event_stream(otherwise=isinstance(request, ChatRequest) and request.stream):
        return _streamed(sse.json_frames(incoming.chunks), responses, sound)
    return stages.Later(partial(_whole, call, incoming, responses, sound), incoming.chunks)


async def _whole(call: Call, incoming: UpstreamResponse, responses: bool, sound: str) -> Iterator[StreamEvent]:
    return replay(_result(await json_object(call, incoming), responses, sound))


def _streamed(frames: AsyncIterator[Any], responses: bool, sound: str) -> AsyncIterator[StreamEvent]:
    if responses:
        from tornado_gate.wire import openai_responses

        return openai_responses.parse_events(frames)
    return openai_chat.parse_chunks(frames, audio_media_type=sound)


def _result(body: dict[str, Any], responses: bool, sound: str) -> ChatResult:
    if responses:
        from tornado_gate.wire import openai_responses

        return openai_responses.parse_response(body)
    return openai_chat.parse_response(body, audio_media_type=sound)


def _sound(request: Request) -> str:
    """The media type of the audio that was asked for; an answer does not say it."""
    wanted = (request.audio or {}).get("format") if isinstance(request, ChatRequest) else None
    return _SOUNDS.get(wanted, f"audio/{wanted}") if isinstance(wanted, str) else ""
