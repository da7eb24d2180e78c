"""Hypothesis strategies for requests, results and event streams that this wire format can say without loss."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from tornado_gate.types import (
    Audio,
    ChatRequest,
    ChatResult,
    Choice,
    Data,
    File,
    FileReference,
    Finish,
    Image,
    Link,
    Message,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    Reasoning,
    Refusal,
    ResponseFormat,
    ResponseStart,
    StreamEvent,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    UsageReport,
    VendorPart,
    VendorTool,
    replace,
)
from tornado_gate_openai.wire.chat.citations import parse_annotations

WIRE_FORMAT = "openai-chat"
MEDIA_TYPE = "audio/wav"

words = st.text(st.characters(codec="utf-8"), max_size=12)
some_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=5
)
objects = st.dictionaries(words, values, max_size=3)
_unknown_names = names.map(lambda name: f"x_{name}")
extras = st.dictionaries(_unknown_names, values, max_size=2)
sounds = st.binary(max_size=9).map(lambda sound: base64.b64encode(sound).decode())


def nested(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """An extra with unknown members of a part and of the object `name` inside it."""
    inside = st.dictionaries(_unknown_names, values, min_size=1, max_size=2).map(lambda extra: {name: extra})
    return st.builds(lambda outer, inner: outer | inner, extras, st.just({}) | inside)


texts = st.builds(Text, text=words, extra=extras)
refusals = st.builds(Refusal, text=words, extra=extras)
data = st.builds(Data, media_type=st.sampled_from(["image/png", "application/pdf", ""]), base64=sounds)
links = st.builds(Link, url=some_words.map(lambda path: f"https://example.com/{path}"))
images = st.builds(Image, source=data | links, detail=st.sampled_from([None, "low", "auto"]), extra=nested("image_url"))
audio = st.builds(
    Audio,
    source=st.builds(Data, media_type=st.sampled_from(["audio/wav", "audio/mpeg", "audio/flac"]), base64=sounds),
    extra=nested("input_audio"),
)
files = st.builds(
    File,
    source=data | st.builds(FileReference, id=some_words),
    name=st.none() | some_words,
    extra=nested("file"),
)
vendor_parts = st.builds(
    VendorPart,
    wire_format=st.just(WIRE_FORMAT),
    value=objects.map(lambda value: value | {"type": "x_video"}),
)
tool_calls = st.builds(ToolCall, id=some_words, name=some_words, arguments=words, extra=nested("function")) | st.builds(
    ToolCall, id=some_words, name=some_words, arguments=words, kind=st.just("custom"), extra=nested("custom")
)
plain_text = words.map(lambda text: (Text(text=text),))


def arrays(part: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(part, min_size=1, max_size=3).map(tuple)


def _messages(role: Any, parts: Any, plain: bool) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        role=role,
        parts=parts,
        plain=st.just(plain),
        name=st.none() | some_words,
        extra=extras,
    )


_askers = st.sampled_from(["system", "developer", "user"])
_asked = _messages(_askers, plain_text, True) | _messages(
    _askers, arrays(texts | images | audio | files | vendor_parts), False
)


@st.composite
def _assistant(draw: Any) -> Message:
    plain = draw(st.booleans())
    parts = draw(st.just(()) | plain_text if plain else arrays(texts | refusals | vendor_parts))
    if plain and draw(st.booleans()):
        parts += (Refusal(text=draw(words)),)
    if draw(st.booleans()):
        parts += (Audio(reference=draw(some_words), extra=draw(extras)),)
    parts += tuple(draw(st.lists(tool_calls, max_size=2)))
    return draw(_messages(st.just("assistant"), st.just(parts), plain))


@st.composite
def _results(draw: Any) -> Message:
    plain = draw(st.booleans())
    parts = draw(plain_text if plain else arrays(texts | images | vendor_parts))
    result = ToolResult(call_id=draw(some_words), parts=parts, name=draw(st.none() | some_words))
    return Message(role="tool", parts=(result,), plain=plain, extra=draw(extras))


messages = _asked | _assistant() | _results()
tools = st.builds(
    Tool,
    name=some_words,
    description=st.none() | words,
    parameters=st.none() | objects,
    strict=st.none() | st.booleans(),
    extra=nested("function"),
) | st.builds(
    VendorTool, wire_format=st.just(WIRE_FORMAT), value=objects.map(lambda value: value | {"type": "web_search"})
)
tool_choices = (
    st.builds(ToolChoice, mode=st.sampled_from(["auto", "none", "required"]))
    | st.builds(ToolChoice, mode=st.just("tool"), name=some_words)
    | st.builds(
        ToolChoice,
        mode=st.just("allowed"),
        names=st.lists(some_words, max_size=2).map(tuple),
        required=st.booleans(),
    )
    | st.builds(ToolChoice, mode=st.just("vendor"), vendor=objects.map(lambda value: value | {"type": "custom"}))
)
response_formats = st.builds(ResponseFormat, kind=st.sampled_from(["text", "json_object"]), extra=extras) | st.builds(
    ResponseFormat,
    kind=st.just("json_schema"),
    name=some_words,
    description=st.none() | words,
    schema=st.none() | objects,
    strict=st.none() | st.booleans(),
    extra=nested("json_schema"),
)


@st.composite
def requests(draw: Any) -> ChatRequest:
    """Requests that came in this format: parsing what is rendered of one gives it back."""
    stream = draw(st.booleans())
    extra = dict(draw(extras))
    renamed: dict[str, str] = {}
    if stream and (options := draw(extras)):
        extra["stream_options"] = options
    max_tokens = draw(st.none() | st.integers(1, 100))
    if max_tokens is not None and draw(st.booleans()):
        renamed["max_tokens"] = "max_completion_tokens"
    effort = draw(st.none() | st.sampled_from(["low", "high"]))
    if effort is not None:
        renamed["reasoning"] = "reasoning_effort"
    numbers = st.none() | st.floats(0, 1)
    return ChatRequest(
        model=draw(some_words),
        messages=tuple(draw(st.lists(messages, max_size=4))),
        wire_format=WIRE_FORMAT,
        stream=stream,
        include_usage=True if stream else None,
        n=draw(st.none() | st.integers(1, 3)),
        max_tokens=max_tokens,
        temperature=draw(numbers),
        top_p=draw(numbers),
        stop=tuple(draw(st.lists(words, max_size=2))),
        seed=draw(st.none() | st.integers(-5, 5)),
        presence_penalty=draw(numbers),
        frequency_penalty=draw(numbers),
        logit_bias=draw(st.none() | st.dictionaries(words, st.integers(-100, 100), max_size=2)),
        logprobs=draw(st.none() | st.booleans()),
        top_logprobs=draw(st.none() | st.integers(0, 20)),
        tools=tuple(draw(st.lists(tools, max_size=2))),
        tool_choice=draw(st.none() | tool_choices),
        parallel_tool_calls=draw(st.none() | st.booleans()),
        response_format=draw(st.none() | response_formats),
        reasoning=None if effort is None else Reasoning(effort=effort),
        modalities=tuple(draw(st.lists(st.sampled_from(["text", "audio"]), max_size=2))),
        audio=draw(st.none() | objects),
        user=draw(st.none() | words),
        metadata=draw(st.none() | st.dictionaries(words, words, max_size=2)),
        extra=extra,
        names=renamed,
    )


_counts = st.integers(0, 10**6)
_maybe_counts = st.none() | _counts


@st.composite
def usages(draw: Any) -> Usage:
    audio = {}
    extra = dict(draw(extras.map(lambda extra: {name: value for name, value in extra.items() if value is not None})))
    for name, counted in (
        ("prompt_tokens_details", "audio_input_tokens"),
        ("completion_tokens_details", "audio_output_tokens"),
    ):
        if details := draw(st.dictionaries(st.just("audio_tokens"), _counts)):
            extra[name] = details
            audio[counted] = details["audio_tokens"] or None
    return Usage(
        **audio,
        input_tokens=draw(_counts),
        output_tokens=draw(_counts),
        cache_read_tokens=draw(_maybe_counts),
        cache_write_tokens=draw(_maybe_counts),
        reasoning_tokens=draw(_maybe_counts),
        extra=extra,
    )


entries = st.builds(
    lambda token, logprob: {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []},
    words,
    st.floats(-9, 0),
)
arguments = objects.map(lambda value: orjson.dumps(value).decode()) | st.just("")
_annotations = st.lists(objects, min_size=1, max_size=2)
_citations = st.just(()) | _annotations.map(lambda values: parse_annotations(values, WIRE_FORMAT))
_top_extra = st.fixed_dictionaries({}, optional={"service_tier": st.just("flex"), "system_fingerprint": some_words})
_ends = st.sampled_from(["stop", "length", "content_filter"])


@st.composite
def results(draw: Any) -> ChatResult:
    """Whole answers whose parts stand in the order that a message of this format implies."""
    return ChatResult(
        model="m",
        id=draw(some_words.map(lambda text: f"chatcmpl-{text}")),
        created=draw(st.integers(1, 2**31)),
        choices=tuple(draw(_choice()) for _ in range(draw(st.integers(1, 3)))),
        usage=draw(st.none() | usages()),
        extra=draw(_top_extra),
    )


@st.composite
def _choice(draw: Any) -> Choice:
    parts: list[Part] = []
    if draw(st.booleans()):
        parts.append(Thinking(text=draw(some_words)))
    if draw(st.booleans()):
        parts.append(Text(text=draw(some_words), citations=draw(_citations)))
    if draw(st.booleans()):
        parts.append(Refusal(text=draw(some_words)))
    if draw(st.booleans()):
        parts.append(
            Audio(
                source=Data(media_type=MEDIA_TYPE, base64=draw(sounds)),
                reference=draw(some_words),
                transcript=draw(st.none() | some_words),
                extra={"expires_at": draw(_counts)},
            )
        )
    calls = [
        ToolCall(id=f"call_{number}", name=draw(some_words), arguments=draw(arguments), kind=draw(_kinds))
        for number in range(draw(st.integers(0, 2)))
    ]
    reason = "tool_calls" if calls else draw(_ends)
    logprobs = draw(st.none() | st.fixed_dictionaries({"content": st.lists(entries, min_size=1, max_size=2)}))
    return Choice(parts=(*parts, *calls), reason=reason, raw_reason=reason, logprobs=logprobs)


_kinds = st.sampled_from(["function", "custom"])


def _pieces(draw: Any, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _merge(draw: Any, tracks: list[list[Any]]) -> list[Any]:
    """Any interleaving of the tracks that keeps the order of each."""
    tracks = [list(track) for track in tracks if track]
    merged = []
    while tracks:
        track = draw(st.sampled_from(tracks))
        merged.append(track.pop(0))
        tracks = [other for other in tracks if other]
    return merged


@st.composite
def streams(draw: Any) -> list[StreamEvent]:
    """Whole streams: choices interleave, and so do the parallel tool calls and the audio of each.

    Within a choice no two parts of the same kind of words are neighbours, because the format cannot tell them from one.
    """
    counter = iter(range(10**6))
    start = ResponseStart(
        model="m",
        id=draw(some_words.map(lambda text: f"chatcmpl-{text}")),
        created=draw(st.integers(1, 2**31)),
        extra=draw(_top_extra),
    )
    tracks = [_choice_events(draw, number, counter.__next__) for number in range(draw(st.integers(1, 3)))]
    tracks.append([UsageReport(usage=usage) for usage in draw(st.lists(usages(), max_size=2))])
    return [start, *_numbered(_merge(draw, tracks))]


def _numbered(events: list[Any]) -> list[StreamEvent]:
    """`events` with parts numbered as they start."""
    numbers: dict[int, int] = {}
    return [
        replace(event, index=numbers.setdefault(event.index, len(numbers))) if hasattr(event, "index") else event
        for event in events
    ]


def _choice_events(draw: Any, number: int, next_part: Callable[[], int]) -> list[StreamEvent]:
    segments: list[list[StreamEvent]] = []
    last = ""
    calls = False
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from([k for k in ("text", "thinking", "refusal", "calls") if k != last]))
        last = kind
        if kind == "calls":
            calls = True
            group = [_call_events(draw, number, next_part) for _ in range(draw(st.integers(1, 3)))]
            segments.append(_merge(draw, group))
        else:
            segments.append(_words_events(draw, number, next_part(), kind))
    track = [event for segment in segments for event in segment]
    if draw(st.booleans()):
        track = _with_audio(draw, number, next_part(), track)
    reason = "tool_calls" if calls else draw(_ends)
    return [*track, Finish(reason=reason, raw=reason, choice=number)]


def _words_events(draw: Any, number: int, index: int, kind: Any) -> list[StreamEvent]:
    deltas = []
    for piece in draw(st.lists(some_words, min_size=1, max_size=3)):
        logprobs = (
            None if kind == "thinking" else draw(st.none() | st.lists(entries, min_size=1, max_size=2).map(tuple))
        )
        deltas.append(PartDelta(index=index, data=piece, logprobs=logprobs))
    extra = {"reasoning_details": draw(_annotations)} if kind == "thinking" and draw(st.booleans()) else {}
    end = PartEnd(index=index, citations=draw(_citations) if kind == "text" else (), extra=extra)
    return [PartStart(index=index, kind=kind, choice=number), *deltas, end]


def _call_events(draw: Any, number: int, next_part: Callable[[], int]) -> list[StreamEvent]:
    index = next_part()
    start = PartStart(
        index=index,
        kind="tool_call",
        choice=number,
        id=f"call_{index}",
        name=draw(some_words),
        tool_kind=draw(_kinds),
    )
    return [
        start,
        *(PartDelta(index=index, data=piece) for piece in _pieces(draw, draw(arguments))),
        PartEnd(index=index),
    ]


def _with_audio(draw: Any, number: int, index: int, track: list[StreamEvent]) -> list[StreamEvent]:
    """`track` with an audio part that begins between two other parts and ends with the choice."""
    starts = [place for place, event in enumerate(track) if isinstance(event, PartStart) and event.kind != "tool_call"]
    place = draw(st.sampled_from([*starts, len(track)]))
    deltas = draw(
        st.lists(
            st.builds(PartDelta, index=st.just(index), data=st.binary(max_size=5), transcript=words),
            max_size=3,
        )
    )
    start = PartStart(index=index, kind="audio", choice=number, id=draw(some_words), media_type=MEDIA_TYPE)
    end = PartEnd(index=index, extra={"expires_at": draw(_counts)})
    return [*track[:place], start, *_merge(draw, [track[place:], deltas]), end]
