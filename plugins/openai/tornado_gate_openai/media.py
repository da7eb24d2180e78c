"""Everything but chat, through the common vocabulary: vectors, verdicts, pictures, speech, transcripts.

The wire formats are in `tornado_gate.wire.openai_*`; here is which of them a request becomes, and what an answer must be.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec.structs import fields

from tornado_gate import sse
from tornado_gate.codec.media_types import extension, sniff
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import InvalidField, UnsupportedOperation, UpstreamError
from tornado_gate.http.fetch.pictures import decode
from tornado_gate.http.upstream_errors import file_error
from tornado_gate.types import (
    Call,
    Data,
    EmbeddingRequest,
    FileSource,
    ImageRequest,
    Link,
    MediaRequest,
    ModerationRequest,
    ModerationResult,
    SpeechRequest,
    StreamEvent,
    TranscriptionRequest,
    Upload,
    UpstreamResponse,
)
from tornado_gate.types.value import replace
from tornado_gate.wire import (
    openai_embeddings,
    openai_images,
    openai_moderations,
    openai_speech,
    openai_transcriptions,
)
from tornado_gate_openai.answers import json_object
from tornado_gate_openai.body import applied, changes
from tornado_gate_openai.endpoints import (
    EDITS,
    EMBEDDINGS,
    GENERATIONS,
    MODERATIONS,
    SPEECH,
    TRANSCRIPTIONS,
    TRANSLATIONS,
)
from tornado_gate_openai.facts import Facts
from tornado_gate_openai.voices import voiced

_FIELDS: Final[Mapping[type[MediaRequest], Mapping[str, str]]] = {
    EmbeddingRequest: {"input": "inputs"},
    ModerationRequest: {"input": "inputs"},
    ImageRequest: {},
    SpeechRequest: {"input": "text", "response_format": "format", "stream_format": "stream"},
    TranscriptionRequest: {"file": "audio", "timestamp_granularities": "timestamps"},
}
"""The vocabulary's names of wire fields, where they differ."""
_NOTHING: Final = (None, False, ())
_OPTIONAL: Final = frozenset(field.name for field in fields(ImageRequest) if field.default is None)


async def asked(call: Call, facts: Facts, request: MediaRequest) -> tuple[str, dict[str, Any] | FormBody]:
    """The path below the upstream's address, and the body. What cannot be said is reported to `call.lose`."""
    match request:
        case EmbeddingRequest():
            return EMBEDDINGS, _changed(call, facts, request, openai_embeddings.render_request(call, request))
        case ModerationRequest():
            return MODERATIONS, _changed(call, facts, request, openai_moderations.render_request(call, request))
        case SpeechRequest():
            body = openai_speech.render_request(call, voiced(request, facts.voices))
            return SPEECH, _changed(call, facts, request, body)
        case ImageRequest(images=(), mask=None):
            body = openai_images.render_request(call, request, answers_bytes=_answers_bytes(call, facts))
            return GENERATIONS, _changed(call, facts, request, body)
        case ImageRequest():
            kept = _without_drops(call, facts, request)
            return EDITS, await openai_images.render_edit(call, kept, answers_bytes=_answers_bytes(call, facts))
        case TranscriptionRequest():
            path = TRANSLATIONS if request.translate else TRANSCRIPTIONS
            body = _changed(call, facts, request, openai_transcriptions.render_request(call, request))
            return path, FormBody(body, [await _sound(call, request.audio, request.field_name("audio"))])
    raise UnsupportedOperation(f"The model '{call.model}' cannot do this.")


def _answers_bytes(call: Call, facts: Facts) -> bool:
    return any(fnmatchcase(call.target.upstream_model, pattern) for pattern in facts.image_bytes)


def _changed(call: Call, facts: Facts, request: MediaRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    return applied(changes(facts, body, lambda name: _lose(call, request, name)), body)


def _lose(call: Call, request: MediaRequest, name: str) -> None:
    """Report a wire field that is dropped, unless it is one that only this plugin sends."""
    ours = _FIELDS.get(type(request), {}).get(name, name)
    if getattr(request, ours, request.extra.get(name)) not in _NOTHING:
        call.lose(request.field_name(ours))


def _without_drops(call: Call, facts: Facts, request: ImageRequest) -> ImageRequest:
    """The request without what the upstream refuses, for a form, which is written at once."""
    dropped: dict[str, Any] = {name: None for name in facts.drop if name in _OPTIONAL}
    extra = {name: value for name, value in request.extra.items() if name not in facts.drop}
    for name in facts.drop:
        _lose(call, request, name)
    return replace(request, extra=extra, **dropped)


async def _sound(call: Call, source: FileSource, param: str) -> Upload:
    """The file to be written down. Raises InvalidField for the caller's field `param`."""
    if isinstance(source, Link):
        if call.fetcher is None:
            raise InvalidField(param, f"'{param}' is an address; only files are taken here.")
        fetched = await call.fetcher.fetch(source.url, kinds=("audio/", "video/"), param=param)
        data, media_type = fetched.data, fetched.media_type
    elif isinstance(source, Data):
        data = await decode(source.base64, param)
        media_type = source.media_type or sniff(data)
    else:
        own = source.field == "file"
        return source if own else openai_images.Renamed(of=source, field="file", media_type=source.media_type)
    name = f"sound.{extension(media_type)}"
    return openai_images.MemoryFile(field="file", filename=name, media_type=media_type, data=data)


def events(call: Call, request: MediaRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """What an answer says. The iterator raises UpstreamError for one that is none."""
    match request:
        case SpeechRequest():
            return openai_speech.parse_answer(incoming, request)
        case ImageRequest() if incoming.is_event_stream(otherwise=request.stream):
            return openai_images.parse_events(sse.json_frames(incoming.chunks))
    return _whole(call, request, incoming)


async def _whole(call: Call, request: MediaRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    match request:
        case EmbeddingRequest(inputs=inputs):
            yield await openai_embeddings.read_response(incoming, count=len(inputs))
        case ModerationRequest(inputs=inputs):
            yield _counted(openai_moderations.parse_response(await json_object(call, incoming)), len(inputs))
        case ImageRequest():
            yield await openai_images.parse_response(await json_object(call, incoming), fetch=_fetch(call))
        case TranscriptionRequest():
            yield openai_transcriptions.parse_response(await json_object(call, incoming))


def _counted(result: ModerationResult, inputs: int) -> ModerationResult:
    if len(result.verdicts) != inputs:
        raise UpstreamError(f"The upstream sent {len(result.verdicts)} verdicts for {inputs} inputs; try again.")
    return result


def _fetch(call: Call) -> openai_images.Fetch:
    """Reads the pictures that some upstreams give by address although their bytes were asked for."""

    async def fetch(url: str) -> bytes:
        why, code = "addresses are not fetched here", None
        if call.fetcher is not None:
            try:
                data: bytes = (await call.fetcher.fetch(url, kinds=("image/",), param="url")).data
                return data
            except InvalidField as error:  # whose words are for callers who gave an address, which this one did not
                why, code = error.code, file_error(error.code).code
        raise UpstreamError(
            f"The provider '{call.target.provider}' sent the address of a picture, which could not be fetched: {why}.",
            code=code,
        )

    return fetch
