"""Hypothesis strategies for requests, results and streams that this wire format can say without loss."""

from __future__ import annotations

import base64
from typing import Any

import orjson
from hypothesis import strategies as st

from tornado_gate.types import (
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
from tornado_gate_anthropic.wire.messages.citations import parse_citations
from tornado_gate_anthropic.wire.messages.server_tools import parse_vendor_block

WIRE_FORMAT = "anthropic-messages"

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
arguments = objects.map(lambda value: orjson.dumps(value).decode())
ids = st.from_regex(r"toolu_[a-zA-Z0-9_-]{1,6}", fullmatch=True) | some_words
signatures = some_words.map(lambda text: Opaque(issuer="", value=text)) | objects.map(
    lambda value: Opaque(issuer="", value=value)
)


def with_source(part: type[Any], **fields: Any) -> st.SearchStrategy[Any]:
    """A part whose extra may hold unknown members of its source."""
    inside = st.dictionaries(_unknown_names, values, min_size=1, max_size=2).map(lambda extra: {"source": extra})
    return st.builds(part, extra=st.builds(lambda a, b: a | b, extras, st.just({}) | inside), **fields)


_encoded = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
_links = st.builds(Link, url=some_words.map(lambda path: f"https://example.com/{path}"))
_stored = st.builds(FileReference, id=some_words)
_texts = words.map(lambda text: Data(media_type="text/plain", base64=base64.b64encode(text.encode()).decode()))
texts = st.builds(Text, text=some_words, extra=extras)
images = with_source(Image, source=st.builds(Data, media_type=st.just("image/png"), base64=_encoded) | _links | _stored)
files = with_source(
    File,
    source=st.builds(Data, media_type=st.just("application/pdf"), base64=_encoded) | _texts | _links | _stored,
    name=st.none() | some_words,
)
vendor_parts = st.builds(
    VendorPart,
    wire_format=st.just(WIRE_FORMAT),
    value=objects.map(lambda value: value | {"type": "search_result"}),
)
thinking = st.builds(Thinking, text=words, signature=signatures, extra=extras) | st.builds(
    Thinking, redacted=st.just(True), signature=signatures, extra=extras
)
tool_calls = st.builds(ToolCall, id=ids, name=some_words, arguments=arguments, extra=extras)
plain_text = some_words.map(lambda text: (Text(text=text),))


def arrays(part: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(part, min_size=1, max_size=3).map(tuple)


def _messages(role: Any, parts: Any, plain: bool, extra: Any = extras) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), parts=parts, plain=st.just(plain), extra=extra)


_user_parts = arrays(texts | images | files | vendor_parts)
_users = _messages("user", plain_text, True) | _messages("user", _user_parts, False)
_assistants = _messages("assistant", plain_text, True) | _messages(
    "assistant", arrays(texts | thinking | tool_calls | vendor_parts), False
)


@st.composite
def _results(draw: Any) -> list[Message]:
    """A user's turn that begins with results: one message of role "tool", and perhaps one of role "user"."""
    plain = draw(st.booleans())
    parts = st.just(()) | plain_text if plain else arrays(texts | images | files | vendor_parts)
    results = draw(
        st.lists(
            st.builds(ToolResult, call_id=ids, parts=parts, is_error=st.booleans(), extra=extras),
            min_size=1,
            max_size=2,
        )
    )
    told = draw(st.booleans())
    extra = draw(extras)
    tool = Message(role="tool", parts=tuple(results), plain=plain, extra={} if told else extra)
    return [tool, Message(role="user", parts=draw(_user_parts), plain=False, extra=extra)] if told else [tool]


@st.composite
def conversations(draw: Any) -> tuple[tuple[Message, ...], dict[str, str]]:
    """Turns of a user and an assistant by turns, and the paths that a caller knows them by."""
    messages: list[Message] = []
    paths: list[str] = []
    if draw(st.booleans()):
        plain = draw(st.booleans())
        parts = draw(plain_text if plain else arrays(texts))
        messages.append(Message(role="system", parts=parts, plain=plain))
        paths.append("system")
    for number in range(draw(st.integers(1, 4))):
        turn = [draw(_assistants)] if number % 2 else draw(_users.map(lambda message: [message]) | _results())
        messages += turn
        paths += [f"messages.{number}"] * len(turn)
    named = {f"messages.{number}": path for number, path in enumerate(paths) if path != f"messages.{number}"}
    return tuple(messages), named


tools = st.builds(
    Tool,
    name=some_words,
    description=st.none() | words,
    parameters=objects,
    strict=st.none() | st.booleans(),
    extra=extras,
) | st.builds(
    VendorTool, wire_format=st.just(WIRE_FORMAT), value=objects.map(lambda value: value | {"type": "web_search"})
)
_choices = st.builds(ToolChoice, mode=st.sampled_from(["auto", "none", "required"])) | st.builds(
    ToolChoice, mode=st.just("tool"), name=some_words
)
_vendor_choices = st.builds(
    ToolChoice, mode=st.just("vendor"), vendor=objects.map(lambda value: value | {"type": "x_choice"})
)
_reasonings = st.one_of(
    st.none(),
    st.builds(Reasoning, effort=st.sampled_from(["low", "max"])),
    st.builds(
        Reasoning,
        effort=st.sampled_from([None, "high"]),
        enabled=st.just(True),
        budget_tokens=st.none() | st.integers(1024, 9999),
    ).flatmap(
        lambda reasoning: st.sampled_from(
            [reasoning, replace(reasoning, visible=True), replace(reasoning, visible=True, summary="auto")]
        )
    ),
    st.just(Reasoning(enabled=False)),
)
FIXED_NAMES = {
    "stop": "stop_sequences",
    "user": "metadata.user_id",
    "response_format": "output_config.format",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}


@st.composite
def requests(draw: Any) -> ChatRequest:
    """Requests that came in this format: parsing what is rendered of one gives it back."""
    messages, named = draw(conversations())
    reasoning = draw(_reasonings)
    if reasoning is not None:
        named["reasoning"] = "output_config.effort" if reasoning.enabled is None else "thinking"
        if reasoning.visible:
            named["reasoning.summary"] = "thinking.display"
    choice = draw(st.none() | _choices | _vendor_choices)
    flag = choice is not None and choice.mode in ("auto", "required", "tool")
    extra = dict(draw(extras))
    if draw(st.booleans()):
        extra["metadata.x_team"] = draw(values)
    if choice is not None and choice.mode != "vendor" and draw(st.booleans()):
        extra["tool_choice.x_more"] = draw(values)
    if reasoning is not None and reasoning.enabled is not None and draw(st.booleans()):
        extra["thinking.x_mode"] = "new"
    numbers = st.none() | st.floats(0, 1)
    return ChatRequest(
        model=draw(some_words),
        messages=messages,
        wire_format=WIRE_FORMAT,
        stream=draw(st.booleans()),
        max_tokens=draw(st.integers(0, 100)),
        temperature=draw(numbers),
        top_p=draw(numbers),
        top_k=draw(st.none() | st.integers(0, 9)),
        stop=tuple(draw(st.lists(words, max_size=2))),
        tools=tuple(draw(st.lists(tools, max_size=2))),
        tool_choice=choice,
        parallel_tool_calls=draw(st.none() | st.booleans()) if flag else None,
        response_format=draw(st.none() | st.builds(ResponseFormat, kind=st.just("json_schema"), schema=objects)),
        reasoning=reasoning,
        user=draw(st.none() | words),
        extra=extra,
        names=FIXED_NAMES | named,
    )


_counts = st.integers(0, 10**6)


@st.composite
def usages(draw: Any) -> Usage:
    read, written = draw(st.none() | _counts), draw(st.none() | _counts)
    return Usage(
        input_tokens=draw(_counts) + (read or 0) + (written or 0),
        output_tokens=draw(_counts),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=draw(st.none() | _counts),
        extra=draw(st.just({}) | st.just({"server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}})),
    )


_ends = st.sampled_from(
    [
        ("stop", "end_turn", None),
        ("stop", "stop_sequence", "END"),
        ("length", "max_tokens", None),
        ("length", "model_context_window_exceeded", None),
        ("content_filter", "refusal", None),
        ("length", "pause_turn", None),
    ]
)
_citations = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("char_location"),
            "cited_text": words,
            "document_index": st.integers(0, 5),
            "document_title": st.none() | words,
            "start_char_index": st.integers(0, 9),
            "end_char_index": st.integers(0, 9),
        }
    ),
    min_size=1,
    max_size=2,
)
_answer_texts = st.builds(Text, text=some_words, citations=st.just(()) | _citations.map(parse_citations))
_answer_calls = st.builds(ToolCall, id=ids, name=some_words, arguments=arguments)
_answer_thinking = st.builds(Thinking, text=some_words, signature=st.none() | signatures) | st.builds(
    Thinking, redacted=st.just(True), signature=signatures
)
_server_tools = st.fixed_dictionaries(
    {"type": st.just("server_tool_use"), "id": some_words, "name": st.just("web_search"), "input": objects}
).map(parse_vendor_block)
_answer_parts = _answer_texts | _answer_calls | _answer_thinking | _server_tools


@st.composite
def results(draw: Any) -> ChatResult:
    """Whole answers that this format can say."""
    parts = tuple(draw(st.lists(_answer_parts, max_size=4)))
    reason, raw, stop = draw(_ends)
    if any(isinstance(part, ToolCall) for part in parts):
        reason, raw, stop = "tool_calls", "tool_use", None
    return ChatResult(
        model="m",
        id=draw(some_words.map(lambda text: f"msg_{text}")),
        choices=(Choice(parts=parts, reason=reason, raw_reason=raw, stop_sequence=stop),),
        usage=draw(usages()),
        extra=draw(st.just({}) | st.just({"container": {"id": "container_1"}})),
    )


def _pieces(draw: Any, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def streams(draw: Any) -> list[StreamEvent]:
    """Whole streams of any provider, in which parts overlap as they like."""
    tracks = [_track(draw, part) for part in draw(st.lists(_answer_parts, max_size=5))]
    merged: list[Any] = []
    while tracks:
        place = draw(st.integers(0, len(tracks) - 1))
        merged.append((place, tracks[place].pop(0)))
        tracks = [track for track in tracks if track]
    events = [event for _, event in merged]
    events += [UsageReport(usage=usage) for usage in draw(st.lists(usages(), max_size=2))]
    calls = any(isinstance(event, PartStart) and event.kind == "tool_call" for event in events)
    reason, raw, stop = ("tool_calls", "tool_use", None) if calls else draw(_ends)
    events.append(Finish(reason=reason, raw=raw, stop_sequence=stop))
    events += [UsageReport(usage=draw(usages()))]
    return [ResponseStart(model="m", id="msg_1"), *_numbered(events)]


def _numbered(events: list[Any]) -> list[StreamEvent]:
    """`events` with parts numbered as they start; before that, a part's index is the identity of its start."""
    numbers: dict[int, int] = {}
    return [
        replace(event, index=numbers.setdefault(event.index, len(numbers))) if hasattr(event, "index") else event
        for event in events
    ]


_serial = iter(range(10**9))


def _track(draw: Any, part: Part) -> list[Any]:
    index = next(_serial)
    match part:
        case Text(text=text):
            deltas = [PartDelta(index=index, data=piece) for piece in _pieces(draw, text)]
            return [PartStart(index=index, kind="text"), *deltas, PartEnd(index=index, citations=part.citations)]
        case Thinking():
            deltas = [PartDelta(index=index, data=piece) for piece in _pieces(draw, part.text)]
            start = PartStart(index=index, kind="thinking", redacted=part.redacted)
            return [start, *deltas, PartEnd(index=index, signature=part.signature)]
        case ToolCall():
            deltas = [PartDelta(index=index, data=piece) for piece in _pieces(draw, part.arguments)]
            start = PartStart(index=index, kind="tool_call", id=part.id, name=part.name)
            return [start, *deltas, PartEnd(index=index)]
        case _:
            return [PartStart(index=index, kind="vendor", part=part), PartEnd(index=index)]
