"""Hypothesis strategies for requests, results and event streams that this wire format can say without loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from plugins.openai.tests.wire.chat.strategies import objects, some_words, sounds, words
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
    Opaque,
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
)
from tornado_gate_openai.wire.chat.citations import parse_annotations
from tornado_gate_openai.wire.responses.request import FIELD_NAMES
from tornado_gate_openai.wire.responses.server_tools import parse_vendor_item

WIRE_FORMAT = "openai-responses"

said = st.booleans() | st.integers(-5, 5) | words | st.lists(words, min_size=1, max_size=2)
extras = st.dictionaries(st.sampled_from(["x_one", "x_two"]), said, max_size=2)
texts = st.builds(Text, text=words, extra=extras)
refusals = st.builds(Refusal, text=words, extra=extras)
data = st.builds(Data, media_type=st.sampled_from(["image/png", "application/pdf"]), base64=sounds)
links = st.builds(Link, url=some_words.map(lambda path: f"https://example.com/{path}"))
references = st.builds(FileReference, id=some_words)
images = st.builds(Image, source=data | links | references, detail=st.sampled_from([None, "auto"]), extra=extras)
files = st.builds(File, source=data | links | references, name=st.none() | some_words, extra=extras)
audio = st.builds(
    Audio, source=st.builds(Data, media_type=st.sampled_from(["audio/wav", "audio/mpeg"]), base64=sounds), extra=extras
)


def vendor(kind: str) -> st.SearchStrategy[VendorPart]:
    value = objects.map(lambda members: members | {"type": kind})
    return st.builds(VendorPart, wire_format=st.just(WIRE_FORMAT), value=value)


def several(part: st.SearchStrategy[Any], least: int = 1) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(part, min_size=least, max_size=3).map(tuple)


@st.composite
def _asked(draw: Any) -> Message:
    role = draw(st.sampled_from(["system", "developer", "user"]))
    if draw(st.booleans()):
        return Message(role=role, parts=(Text(text=draw(words)),), extra=draw(extras))
    parts = draw(several(texts | images | files | audio | vendor("input_video")))
    alone = len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra
    return Message(role=role, parts=parts, plain=alone, extra=draw(extras))


signatures = some_words.map(lambda value: Opaque(issuer="", value=value))
thinking = st.builds(Thinking, text=words, signature=signatures, extra=extras) | st.builds(
    Thinking, redacted=st.just(True), signature=signatures
)
calls = st.builds(
    ToolCall,
    id=some_words,
    name=some_words,
    arguments=words,
    kind=st.sampled_from(["function", "custom"]),
    extra=extras,
)


@st.composite
def _answered(draw: Any) -> list[Message]:
    """What the model said in one turn, and the results of the tools that it called."""
    parts = draw(several(texts | refusals | thinking | calls | vendor("web_search_call")))
    plain = sum(isinstance(part, Text) for part in parts) <= 1
    turn = Message(role="assistant", parts=parts, plain=plain)
    results = [draw(_result(part.id)) for part in parts if isinstance(part, ToolCall)]
    return [turn, *results, draw(_asked())]


@st.composite
def _result(draw: Any, call_id: str) -> Message:
    plain = draw(st.booleans())
    parts = (Text(text=draw(words)),) if plain else draw(several(texts | images | files))
    result = ToolResult(call_id=call_id, parts=parts, name=draw(st.none() | some_words))
    return Message(role="tool", parts=(result,), plain=plain, extra=draw(extras))


_foreign = vendor("mcp_approval_response").map(lambda part: Message(role="user", parts=(part,)))
messages = st.lists(_asked().map(lambda one: [one]) | _answered() | _foreign.map(lambda one: [one]), max_size=3).map(
    lambda groups: tuple(message for group in groups for message in group)
)
tools = st.builds(
    Tool,
    name=some_words,
    description=st.none() | words,
    parameters=st.none() | objects,
    strict=st.none() | st.booleans(),
    extra=extras,
) | st.builds(
    VendorTool, wire_format=st.just(WIRE_FORMAT), value=objects.map(lambda value: value | {"type": "file_search"})
)
tool_choices = (
    st.builds(ToolChoice, mode=st.sampled_from(["auto", "none", "required"]))
    | st.builds(ToolChoice, mode=st.just("tool"), name=some_words)
    | st.builds(
        ToolChoice, mode=st.just("allowed"), names=st.lists(some_words, max_size=2).map(tuple), required=st.booleans()
    )
    | st.builds(ToolChoice, mode=st.just("vendor"), vendor=objects.map(lambda value: value | {"type": "custom"}))
)
formats = st.builds(ResponseFormat, kind=st.sampled_from(["text", "json_object"]), extra=extras) | st.builds(
    ResponseFormat,
    kind=st.just("json_schema"),
    name=some_words,
    description=st.none() | words,
    schema=objects,
    strict=st.none() | st.booleans(),
    extra=extras,
)
_efforts = st.builds(Reasoning, effort=st.sampled_from(["low", "high"]), summary=st.sampled_from([None, "auto"]))


@st.composite
def requests(draw: Any) -> ChatRequest:
    """Requests that came in this format: parsing what is rendered of one gives it back."""
    extra = dict(draw(extras))
    for name, value in (("text", {"verbosity": "low"}), ("reasoning", {"mode": "pro"}), ("include", ["a", "b"])):
        if draw(st.booleans()):
            extra[name] = value
    top_logprobs = draw(st.none() | st.integers(0, 20))
    numbers = st.none() | st.floats(0, 1)
    return ChatRequest(
        model=draw(some_words),
        messages=draw(messages),
        wire_format=WIRE_FORMAT,
        stream=draw(st.booleans()),
        max_tokens=draw(st.none() | st.integers(1, 100)),
        temperature=draw(numbers),
        top_p=draw(numbers),
        logprobs=True if top_logprobs else draw(st.none() | st.just(True)),
        top_logprobs=top_logprobs,
        tools=tuple(draw(st.lists(tools, max_size=2))),
        tool_choice=draw(st.none() | tool_choices),
        parallel_tool_calls=draw(st.none() | st.booleans()),
        response_format=draw(st.none() | formats),
        reasoning=draw(st.none() | _efforts),
        user=draw(st.none() | words),
        metadata=draw(st.none() | st.dictionaries(words, words, max_size=2)),
        extra=extra,
        names=FIELD_NAMES,
    )


_counts = st.integers(0, 10**6)
usages = st.builds(
    Usage,
    input_tokens=_counts,
    output_tokens=_counts,
    cache_read_tokens=_counts,
    cache_write_tokens=_counts,
    reasoning_tokens=_counts,
    extra=st.dictionaries(st.just("x_more"), _counts),
)
entries = st.builds(
    lambda token, logprob: {"bytes": [1], "top_logprobs": [], "token": token, "logprob": logprob},
    words,
    st.floats(-9, 0),
)
_citations = st.builds(
    lambda title: {"type": "url_citation", "title": title, "url": "u", "start_index": 0, "end_index": 1}, words
)
annotations = st.lists(_citations, max_size=2).map(lambda values: parse_annotations(values, WIRE_FORMAT))
_searches = objects.map(lambda members: parse_vendor_item(members | {"type": "web_search_call"}))
_pictures = st.builds(Image, source=st.builds(Data, media_type=st.just("image/png"), base64=sounds.filter(bool)))
_ends = st.sampled_from([("stop", "completed"), ("length", "max_output_tokens"), ("content_filter", "content_filter")])


def _result_parts(draw: Any) -> list[Part]:
    """Parts as an answer has them. The ids of calls are unlike."""
    said = draw(
        st.lists(
            st.builds(Text, text=some_words, citations=annotations)
            | st.builds(Refusal, text=some_words)
            | st.builds(Thinking, text=some_words, signature=st.none() | signatures)
            | st.builds(Thinking, redacted=st.just(True), signature=signatures)
            | _pictures
            | _searches,
            max_size=4,
        )
    )
    called = draw(st.lists(st.sampled_from(["function", "custom"]), max_size=2))
    return [
        *said,
        *(
            ToolCall(id=f"call_{number}", name=draw(some_words), arguments=draw(words), kind=kind)
            for number, kind in enumerate(called)
        ),
    ]


@st.composite
def results(draw: Any) -> ChatResult:
    """Whole answers."""
    parts = tuple(_result_parts(draw))
    reason, raw = draw(_ends)
    if reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        reason = "tool_calls"
    logprobs = None
    if any(isinstance(part, Text) for part in parts) and draw(st.booleans()):
        logprobs = {"content": draw(st.lists(entries, min_size=1, max_size=2))}
    return ChatResult(
        model="m",
        id="resp_" + "0" * 32,
        created=draw(st.integers(1, 2**31)),
        choices=(Choice(parts=parts, reason=reason, raw_reason=raw, logprobs=logprobs),),
        usage=draw(st.none() | usages),
        extra=draw(st.fixed_dictionaries({}, optional={"service_tier": st.just("flex")})),
    )


def _pieces(draw: Any, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if start < end]


@st.composite
def streams(draw: Any) -> list[StreamEvent]:
    """Whole streams whose calls of tools overlap."""
    start = ResponseStart(model="m", id="resp_" + "0" * 32, created=draw(st.integers(1, 2**31)))
    events: list[StreamEvent] = [start]
    parts = _result_parts(draw)
    tracks: list[list[StreamEvent]] = []
    for index, part in enumerate(parts):
        track = _part_events(draw, index, part)
        if isinstance(part, ToolCall):
            tracks.append(track)
        else:
            events += track
    events += _overlapping(draw, tracks)
    reason, raw = draw(_ends)
    if reason == "stop" and tracks:
        reason = "tool_calls"
    events += [UsageReport(usage=usage) for usage in draw(st.lists(usages, max_size=1))]
    return [*events, Finish(reason=reason, raw=raw)]


def _overlapping(draw: Callable[..., Any], tracks: list[list[StreamEvent]]) -> list[StreamEvent]:
    """Any interleaving of the tracks in which parts begin in their order."""
    starts = [track[0] for track in tracks]
    rest = [track[1:] for track in tracks]
    merged: list[StreamEvent] = list(starts)
    while any(rest):
        track = draw(st.sampled_from([track for track in rest if track]))
        merged.append(track.pop(0))
    return merged


def _part_events(draw: Any, index: int, part: Part) -> list[StreamEvent]:
    end = PartEnd(index=index)
    match part:
        case Text(text=text, citations=citations):
            kind: Any = "text"
            end = PartEnd(index=index, citations=citations)
        case Refusal(text=text):
            kind = "refusal"
        case Thinking(text=text, signature=signature, redacted=redacted):
            start = PartStart(index=index, kind="thinking", redacted=redacted)
            deltas = [PartDelta(index=index, data=piece) for piece in _pieces(draw, text)]
            return [start, *deltas, PartEnd(index=index, signature=signature)]
        case ToolCall(arguments=text):
            start = PartStart(index=index, kind="tool_call", id=part.id, name=part.name, tool_kind=part.kind)
            return [start, *(PartDelta(index=index, data=piece) for piece in _pieces(draw, text)), end]
        case _:
            return [PartStart(index=index, kind="vendor", part=part), end]
    deltas = [PartDelta(index=index, data=piece) for piece in _pieces(draw, text)]
    return [PartStart(index=index, kind=kind), *deltas, end]
