"""OpenAI's transcriptions and translations: parsing and rendering. Validation is the format plugin's task.

Requests are forms, so every value in a body is a string or an array of strings. `render_request` returns the text fields for
`tornado_gate.codec.multipart.FormBody`; the caller adds the file.

Source: openai-python 3.52, types/audio/transcription_create_params.py, transcription.py, transcription_verbose.py,
transcription_diarized.py, transcription_text_*_event.py and translation_create_params.py; for subtitles, the WebVTT
specification (w3.org/TR/webvtt1) and the de facto SubRip format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from tornado_gate.types import Call, FileSource, TranscriptionRequest, TranscriptionResult, Usage
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.parts import drop_none, select_unknown

WIRE_FORMAT: Final = formats.OPENAI_TRANSCRIPTIONS
RESPONSE_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
PLAIN_FORMATS: Final = ("text", "srt", "vtt")
"""Response formats that are not JSON."""
TIMED_FORMATS: Final = ("srt", "vtt", "verbose_json", "diarized_json")
"""Response formats that contain timestamps."""

DELTA_EVENT: Final = "transcript.text.delta"
DONE_EVENT: Final = "transcript.text.done"

_ARROW: Final = re.compile(r"(?<!-)-{2,}+>")
_KNOWN_MEMBERS: Final = ("model", "file", "language", "prompt", "response_format", "stream", "temperature")
_RESPONSE_MEMBERS: Final = ("task", "text", "language", "duration", "segments", "words", "usage")
_COUNT_MEMBERS: Final = ("type", "input_tokens", "output_tokens", "total_tokens")


def parse_request(
    body: Mapping[str, Any], audio: FileSource, *, model: str, translate: bool = False
) -> TranscriptionRequest:
    """Return the common request for the validated text fields of a form and its file.

    The format plugin keeps ``response_format`` for the response. A format with timestamps requests segments by default.
    """
    response_format = body.get("response_format")
    granularities: tuple[Literal["word", "segment"], ...] = tuple(body.get("timestamp_granularities") or ())
    named = "timestamp_granularities"
    if not granularities and response_format in TIMED_FORMATS:
        granularities, named = ("segment",), "response_format"
    temperature = body.get("temperature")
    return TranscriptionRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        audio=audio,
        translate=translate,
        language=body.get("language"),
        prompt=body.get("prompt"),
        temperature=None if temperature is None else float(temperature),
        timestamps=granularities,
        extra=select_unknown(body, *_KNOWN_MEMBERS, "timestamp_granularities"),
        names={"audio": "file", "timestamps": named},
    )


def render_request(call: Call, request: TranscriptionRequest) -> dict[str, Any]:
    """Return the text fields of the form for an upstream: strings and arrays of strings.

    A translation is always into English, so it drops ``language``. Unknown fields of another wire format are dropped too.
    """
    language = request.language
    if language is not None and request.translate:
        call.drop_field(request.field_name("language"))
        language = None
    fields = drop_none(
        model=call.target.upstream_model,
        response_format="verbose_json" if request.timestamps else "json",
        language=language,
        prompt=request.prompt,
        temperature=None if request.temperature is None else f"{request.temperature:g}",
    )
    if request.timestamps and not request.translate:  # translations always contain segments
        fields["timestamp_granularities"] = list(request.timestamps)
    for name, value in request.extra.items():
        if request.wire_format == WIRE_FORMAT:
            fields.setdefault(name, value)
        else:
            call.drop_field(name)
    return fields


def check_response(body: Any) -> Mapping[str, Any]:
    """Return the body if it is a response. Raises the error in the body, or UpstreamError if the shape is wrong."""
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not isinstance(body.get("text"), str):
        raise wrong_format_error()
    return body


def parse_response(body: Any) -> TranscriptionResult:
    """Parse a whole response in any of the JSON formats. Raises the same errors as `check_response`."""
    checked = check_response(body)
    language, duration = checked.get("language"), checked.get("duration")
    return TranscriptionResult(
        text=checked["text"],
        language=language if isinstance(language, str) else None,
        duration=_read_seconds(duration),
        segments=_select_timed(checked.get("segments")),
        words=_select_timed(checked.get("words")),
        usage=parse_usage(checked.get("usage")),
        extra=select_unknown(checked, *_RESPONSE_MEMBERS),
    )


def _read_seconds(value: Any) -> float | None:
    """Return a number of seconds, or None. Some upstreams write it as a string."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _select_timed(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the segments or words that have numeric ``start`` and ``end``."""
    if not is_array_of_objects(value):
        return ()
    return tuple(item for item in value if all(type(item.get(name)) in (int, float) for name in ("start", "end")))


def render_response(result: TranscriptionResult, response_format: str, *, translate: bool = False) -> dict[str, Any]:
    """Return the whole response in one of the JSON formats."""
    usage = None if result.usage is None else render_usage(result.usage)
    if response_format == "json":
        return drop_none(**{**result.extra, "text": result.text, "usage": usage})
    last = result.segments[-1]["end"] if result.segments else 0.0
    body = {
        "task": "translate" if translate else "transcribe",
        "language": None if response_format == "diarized_json" else result.language or "",
        "duration": last if result.duration is None else result.duration,
        "text": result.text,
        "segments": list(result.segments) if result.segments or response_format == "diarized_json" else None,
        "words": list(result.words) or None,
        "usage": usage,
    }
    return drop_none(**{**result.extra, **body})


def render_plain(result: TranscriptionResult, response_format: str) -> str:
    """Return the whole response as plain text, or as subtitles with one cue per segment."""
    match response_format:
        case "srt":
            cues = (f"{number}\n{cue}\n\n" for number, cue in enumerate(_iterate_cues(result, ","), 1))
            return "".join(cues)
        case "vtt":
            return "WEBVTT\n\n" + "".join(f"{cue}\n\n" for cue in _iterate_cues(result, "."))
        case _:
            return result.text + "\n"


def _iterate_cues(result: TranscriptionResult, point: str) -> Iterator[str]:
    """Yield one cue per segment. Blank lines and arrows are removed from its text, because they would end the cue."""
    for segment in result.segments:
        text = _ARROW.sub("->", " ".join(str(segment.get("text", "")).split()))
        yield f"{_format_time(segment['start'], point)} --> {_format_time(segment['end'], point)}\n{text}"


def _format_time(seconds: float, point: str) -> str:
    milliseconds = max(0, round(seconds * 1000))
    minutes, rest_of_minute = divmod(milliseconds, 60_000)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{rest_of_minute // 1000:02}{point}{rest_of_minute % 1000:03}"


def render_stream(result: TranscriptionResult) -> Iterator[dict[str, Any]]:
    """Yield the stream events of a whole response: one delta with all of its text, then the done event."""
    if result.text:
        yield {"type": DELTA_EVENT, "delta": result.text}
    done: dict[str, Any] = {"type": DONE_EVENT, "text": result.text}
    if result.usage is not None:
        done["usage"] = render_usage(result.usage)
    for name in ("logprobs", "languages"):
        if name in result.extra:
            done[name] = result.extra[name]
    yield done


def read_duration(body: Mapping[str, Any]) -> float | None:
    """Return the seconds of audio that a response names; None if it names none."""
    return _read_seconds(body.get("duration"))


def parse_usage(value: Any) -> Usage | None:
    """Return the usage in tokens, or in seconds of audio, which is kept as ``extra["seconds"]``. None if there is neither."""
    if not isinstance(value, Mapping):
        return None
    read, made = value.get("input_tokens"), value.get("output_tokens")
    if type(read) is not int and type(made) is not int:
        return Usage(extra=dict(value)) if _read_seconds(value.get("seconds")) is not None else None
    return Usage(
        input_tokens=read if type(read) is int else None,
        output_tokens=made if type(made) is int else None,
        extra=select_unknown(value, *_COUNT_MEMBERS),
    )


def render_usage(usage: Usage) -> dict[str, Any]:
    """Return the vendor's usage object, of type "tokens" or "duration"."""
    if usage.input_tokens is None and usage.output_tokens is None and "seconds" in usage.extra:
        return {"type": "duration", **usage.extra}
    counts = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    return {"type": "tokens", **usage.extra, **counts, "total_tokens": usage.total_tokens or 0}
