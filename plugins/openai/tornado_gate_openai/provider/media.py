"""All operations but chat and videos: embeddings, moderation, images, speech, transcription.

The wire formats are in `tornado_gate_openai.wire`; this module selects the format of a request and checks the response.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from msgspec.structs import fields

from tornado_gate import sse
from tornado_gate.codec.media_types import get_extension, sniff
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import InvalidField, UnsupportedOperation, UpstreamError
from tornado_gate.http.fetch.pictures import decode
from tornado_gate.http.upstream_errors import file_error
from tornado_gate.streams.events import convert_whole
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
from tornado_gate.types.wire import require_object
from tornado_gate_openai.provider.answers import read_json_object
from tornado_gate_openai.provider.body import apply_changes, compute_changes
from tornado_gate_openai.provider.endpoints import (
    EDITS,
    EMBEDDINGS,
    GENERATIONS,
    MODERATIONS,
    SPEECH,
    TRANSCRIPTIONS,
    TRANSLATIONS,
)
from tornado_gate_openai.provider.settings import OpenAISettings
from tornado_gate_openai.provider.voices import map_voice
from tornado_gate_openai.wire import embeddings, images, moderations, speech, transcriptions

_FIELD_OF_MEMBER: Final[Mapping[type[MediaRequest], Mapping[str, str]]] = {
    EmbeddingRequest: {"input": "inputs"},
    ModerationRequest: {"input": "inputs"},
    ImageRequest: {},
    SpeechRequest: {"input": "text", "response_format": "format", "stream_format": "stream"},
    TranscriptionRequest: {"file": "audio", "timestamp_granularities": "timestamps"},
}
"""By wire field: the common field, where the names differ."""
_EMPTY_VALUES: Final = (None, False, ())
_OPTIONAL_FIELDS: Final = frozenset(field.name for field in fields(ImageRequest) if field.default is None)


async def build_request(
    call: Call, facts: OpenAISettings, request: MediaRequest
) -> tuple[str, dict[str, Any] | FormBody]:
    """(path below the base URL, body). Reports unsupported fields to `call.drop_field`."""
    match request:
        case EmbeddingRequest():
            return EMBEDDINGS, _change_body(call, facts, request, embeddings.render_request(call, request))
        case ModerationRequest():
            return MODERATIONS, _change_body(call, facts, request, moderations.render_request(call, request))
        case SpeechRequest():
            body = speech.render_request(call, map_voice(request, facts.voices))
            return SPEECH, _change_body(call, facts, request, body)
        case ImageRequest(images=(), mask=None):
            body = images.render_request(call, request, answers_bytes=_is_bytes_only(call, facts))
            return GENERATIONS, _change_body(call, facts, request, body)
        case ImageRequest():
            kept = _drop_refused_fields(call, facts, request)
            return EDITS, await images.render_edit(call, kept, answers_bytes=_is_bytes_only(call, facts))
        case TranscriptionRequest():
            path = TRANSLATIONS if request.translate else TRANSCRIPTIONS
            body = _change_body(call, facts, request, transcriptions.render_request(call, request))
            return path, FormBody(body, [await _make_audio_upload(call, request.audio, request.field_name("audio"))])
    raise UnsupportedOperation(
        f"The model '{call.model}' does not support this operation. Use a model that supports it."
    )


def _is_bytes_only(call: Call, facts: OpenAISettings) -> bool:
    return any(fnmatchcase(call.target.place[1], pattern.casefold()) for pattern in facts.image_bytes)


def _change_body(call: Call, facts: OpenAISettings, request: MediaRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    return apply_changes(compute_changes(facts, body, lambda name: _drop_member(call, request, name)), body)


def _drop_member(call: Call, request: MediaRequest, name: str) -> None:
    """Report a dropped wire field, unless the plugin added it itself."""
    ours = _FIELD_OF_MEMBER.get(type(request), {}).get(name, name)
    if getattr(request, ours, request.extra.get(name)) not in _EMPTY_VALUES:
        call.drop_field(request.field_name(ours))


def _drop_refused_fields(call: Call, facts: OpenAISettings, request: ImageRequest) -> ImageRequest:
    """The request without the fields that the upstream rejects. Used for forms, whose bodies cannot be changed later."""
    dropped: dict[str, Any] = {name: None for name in facts.drop if name in _OPTIONAL_FIELDS}
    extra = {name: value for name, value in request.extra.items() if name not in facts.drop}
    for name in facts.drop:
        _drop_member(call, request, name)
    return replace(request, extra=extra, **dropped)


async def _make_audio_upload(call: Call, source: FileSource, param: str) -> Upload:
    """The audio file to transcribe. Errors (InvalidField) name the caller's field `param`."""
    if isinstance(source, Link):
        if call.fetcher is None:
            raise InvalidField(
                param, f"'{param}' is a URL, but fetching URLs is not available. Upload the file instead."
            )
        fetched = await call.fetcher.fetch(source.url, kinds=("audio/", "video/"), param=param)
        data, media_type = fetched.data, fetched.media_type
    elif isinstance(source, Data):
        data = await decode(source.base64, param)
        media_type = source.media_type or sniff(data)
    else:
        own = source.field == "file"
        return source if own else images.RenamedUpload(of=source, field="file", media_type=source.media_type)
    name = f"sound.{get_extension(media_type)}"
    return images.MemoryFile(field="file", filename=name, media_type=media_type, data=data)


def parse_events(call: Call, request: MediaRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """The events of a response. The iterator raises UpstreamError for an invalid response."""
    match request:
        case SpeechRequest():
            return speech.parse_response(incoming, request)
        case ImageRequest() if incoming.is_event_stream(otherwise=request.stream):
            return images.parse_stream(sse.read_json_frames(incoming.chunks, incoming.provider))
        case ModerationRequest(inputs=inputs):
            whole = convert_whole(incoming, partial(_parse_verdicts, len(inputs)))
            return whole or _parse_whole(call, request, incoming)
    return _parse_whole(call, request, incoming)


def _parse_verdicts(inputs: int, body: Any) -> ModerationResult:
    return _check_count(moderations.parse_response(require_object(body)), inputs)


async def _parse_whole(call: Call, request: MediaRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    match request:
        case EmbeddingRequest(inputs=inputs):
            yield await embeddings.read_response(incoming, count=len(inputs))
        case ModerationRequest(inputs=inputs):
            yield _check_count(moderations.parse_response(await read_json_object(call, incoming)), len(inputs))
        case ImageRequest():
            yield await images.parse_response(await read_json_object(call, incoming), fetch=_make_image_fetcher(call))
        case TranscriptionRequest():
            yield transcriptions.parse_response(await read_json_object(call, incoming))


def _check_count(result: ModerationResult, inputs: int) -> ModerationResult:
    if len(result.verdicts) != inputs:
        raise UpstreamError(
            f"The upstream sent {len(result.verdicts)} moderation results for {inputs} inputs. Retry the request."
        )
    return result


def _make_image_fetcher(call: Call) -> images.ImageFetcher:
    """A function that fetches image URLs, which some upstreams return although image data was requested."""

    async def fetch(url: str) -> bytes:
        why, code = "fetching URLs is not available", None
        if call.fetcher is not None:
            try:
                data: bytes = (await call.fetcher.fetch(url, kinds=("image/",), param="url")).data
                return data
            except InvalidField as error:  # its message is about a URL of the caller, which this is not
                why, code = error.code, file_error(error.code).code
        raise UpstreamError(
            f"The provider '{call.target.provider}' returned an image URL that could not be fetched: {why}.",
            code=code,
        )

    return fetch
