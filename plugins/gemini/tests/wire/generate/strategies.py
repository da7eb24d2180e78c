"""Hypothesis strategies for requests and results that this wire format can say without loss."""

from __future__ import annotations

import base64
from itertools import pairwise
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
    Image,
    Link,
    Message,
    Opaque,
    Part,
    Reasoning,
    ResponseFormat,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    VendorPart,
    VendorTool,
)
from tornado_gate_gemini.wire.generate.server_tools import parse_server_tool

WIRE_FORMAT = "gemini-generate"

words = st.text(st.characters(codec="utf-8"), max_size=12)
some_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
names = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=5
)
objects = st.dictionaries(words, values, max_size=3)
extras = st.dictionaries(
    names.map(lambda name: f"x{name}"), scalars.filter(lambda value: value is not None), max_size=2
)
base64s = st.binary(min_size=1, max_size=9).map(lambda raw: base64.b64encode(raw).decode())
opaques = base64s | st.sampled_from(["gAAA-_==", "not base64", ""]) | st.dictionaries(names, words, max_size=2)
signatures = st.none() | st.builds(Opaque, issuer=st.just(""), value=opaques)
own_signatures = st.none() | st.builds(Opaque, issuer=st.just(""), value=base64s)

texts = st.builds(Text, text=some_words, signature=own_signatures, extra=extras)
thoughts = st.builds(Thinking, text=some_words, signature=own_signatures, extra=extras)
links = names.map(lambda name: f"https://example.com/{name}")
images = st.builds(
    Image,
    source=st.builds(Data, media_type=st.just("image/png"), base64=base64s)
    | st.builds(Link, url=links, media_type=st.just("image/webp")),
    extra=extras,
)
sounds = st.builds(Audio, source=st.builds(Data, media_type=st.just("audio/wav"), base64=base64s), extra=extras)
files = st.builds(
    File,
    source=st.builds(Data, media_type=st.sampled_from(["application/pdf", "video/mp4"]), base64=base64s),
    name=st.none() | some_words,
    extra=extras,
)
vendor_parts = st.builds(
    VendorPart,
    wire_format=st.just(WIRE_FORMAT),
    value=st.dictionaries(names, words, min_size=1, max_size=2).map(lambda value: {"toolCall": value}),
)
json_objects = objects.map(lambda value: orjson.dumps(value).decode())
results_text = some_words.filter(lambda text: not text.lstrip().startswith("{"))


@st.composite
def _turn(draw: Any, number: int) -> list[Message]:
    """What a user says, what the model says with calls, and their results."""
    said = tuple(draw(st.lists(texts | images | sounds | files | vendor_parts, min_size=1, max_size=3)))
    answer: list[Part] = draw(st.lists(thoughts | texts | vendor_parts, max_size=2).filter(_are_apart))
    ids = [f"call_{number}_{place}" for place in range(draw(st.integers(0, 2)))]
    answer += [
        ToolCall(id=one, name=draw(names), arguments=draw(json_objects), signature=draw(own_signatures)) for one in ids
    ]
    messages = [Message(role="user", parts=said, plain=_plain(said))]
    if answer:
        messages.append(Message(role="assistant", parts=tuple(answer), plain=_plain(tuple(answer))))
    if ids:
        results = tuple(
            ToolResult(
                call_id=one, name=draw(names), parts=(Text(text=draw(results_text)),), is_error=draw(st.booleans())
            )
            for one in ids
        )
        messages.append(Message(role="tool", parts=results))
        closing = (Text(text=draw(some_words)),)
        messages.append(Message(role="assistant", parts=closing))
    return messages


def _are_apart(parts: list[Any]) -> bool:
    """Whether no part continues the one before it: pieces of one text, or of one thought, are joined."""
    return not any(
        type(one) is type(other) and isinstance(one, Text | Thinking) and not one.signature and not one.extra
        for one, other in pairwise(parts)
    )


def _plain(parts: tuple[Part, ...]) -> bool:
    return sum(not isinstance(part, ToolCall | Thinking) for part in parts) <= 1


@st.composite
def _conversations(draw: Any) -> tuple[Message, ...]:
    messages: list[Message] = []
    if draw(st.booleans()):
        system = tuple(draw(st.lists(texts, min_size=1, max_size=2)))
        messages.append(Message(role="system", parts=system, plain=len(system) == 1))
    for number in range(draw(st.integers(1, 2))):
        turn = draw(_turn(number))
        if messages and messages[-1].role == "user":
            turn = turn[1:] if turn[0].role == "user" else turn
        messages += turn
    return tuple(messages)


tools = st.builds(
    Tool,
    name=names,
    description=st.none() | words,
    parameters=st.none() | st.just({"type": "object", "properties": {"a_b": {"type": "string"}}}),
    extra=st.just({}) | st.just({"behavior": "BLOCKING"}),
)
vendor_tools = st.sampled_from(["googleSearch", "codeExecution", "urlContext"]).map(
    lambda name: VendorTool(wire_format=WIRE_FORMAT, value={name: {}}, server=parse_server_tool(name, {}))
)


@st.composite
def _toolboxes(draw: Any) -> tuple[Any, ...]:
    """Functions first: the vendor has them in one entry."""
    return (*draw(st.lists(tools, max_size=2)), *draw(st.lists(vendor_tools, max_size=2)))


choices = (
    st.sampled_from([ToolChoice(mode="auto"), ToolChoice(mode="none"), ToolChoice(mode="required")])
    | names.map(lambda name: ToolChoice(mode="tool", name=name))
    | st.booleans().map(lambda must: ToolChoice(mode="allowed", names=("a", "b"), required=must))
    | st.just(ToolChoice(mode="vendor", vendor={"mode": "VALIDATED"}))
)
formats = st.sampled_from(
    [
        ResponseFormat(kind="text"),
        ResponseFormat(kind="json_object"),
        ResponseFormat(kind="json_schema", schema={"type": "object", "additionalProperties": False}),
    ]
)
reasonings = st.sampled_from(
    [
        Reasoning(effort="low"),
        Reasoning(effort="high", summary="auto"),
        Reasoning(budget_tokens=512),
        Reasoning(summary="auto"),
    ]
)
fractions = st.floats(0, 1)
requests = st.builds(
    ChatRequest,
    model=st.just("m"),
    messages=_conversations(),
    wire_format=st.just(WIRE_FORMAT),
    n=st.none() | st.integers(1, 8),
    max_tokens=st.none() | st.integers(1, 10**6),
    temperature=st.none() | fractions,
    top_p=st.none() | fractions,
    top_k=st.none() | st.integers(0, 100),
    stop=st.lists(some_words, max_size=5).map(tuple),
    seed=st.none() | st.integers(0, 2**31),
    presence_penalty=st.none() | fractions,
    frequency_penalty=st.none() | fractions,
    logprobs=st.none() | st.booleans(),
    top_logprobs=st.none() | st.integers(0, 20),
    tools=_toolboxes(),
    tool_choice=st.none() | choices,
    response_format=st.none() | formats,
    reasoning=st.none() | reasonings,
    modalities=st.sampled_from([(), ("text",), ("text", "image")]),
    extra=st.sampled_from(
        [
            {},
            {"safetySettings": [{"category": "a", "threshold": "b"}], "cachedContent": "c"},
            {"generationConfig.mediaResolution": "LOW", "toolConfig.retrievalConfig": {"languageCode": "en"}},
            {"generationConfig.thinkingConfig": {"xother": 1}},
        ]
    ),
)

_counts = st.integers(0, 10**6)


@st.composite
def usages(draw: Any) -> Usage:
    reasoning, tools = draw(st.none() | _counts), draw(st.none() | _counts)
    return Usage(
        input_tokens=draw(_counts),
        output_tokens=draw(_counts) + (reasoning or 0),
        cache_read_tokens=draw(st.none() | _counts),
        reasoning_tokens=reasoning,
        tool_input_tokens=tools,
        extra={} if tools is None else {"toolUsePromptTokenCount": tools, "trafficType": "ON_DEMAND"},
    )


said_texts = st.builds(Text, text=some_words, signature=signatures)
said_thoughts = st.builds(Thinking, text=some_words, signature=signatures)
said_calls = st.builds(ToolCall, id=some_words, name=names, arguments=json_objects, signature=signatures)
said_parts = said_texts | said_thoughts | said_calls | st.builds(Image, source=images.map(lambda one: one.source))


@st.composite
def _candidates(draw: Any) -> Choice:
    parts = tuple(draw(st.lists(said_parts, max_size=4)))
    calls = any(isinstance(part, ToolCall) for part in parts)
    reason, raw = draw(
        st.sampled_from(
            [
                ("tool_calls" if calls else "stop", "STOP"),
                ("length", "MAX_TOKENS"),
                ("content_filter", "RECITATION"),
                ("error", "MALFORMED_FUNCTION_CALL"),
                ("error", "OTHER"),
            ]
        )
    )
    return Choice(
        parts=parts,
        reason=reason,
        raw_reason=raw,
        extra=draw(st.sampled_from([{}, {"safetyRatings": [], "avgLogprobs": -0.5}])),
    )


results = st.builds(
    ChatResult,
    model=st.just("m"),
    id=some_words,
    choices=st.lists(_candidates(), min_size=1, max_size=2).map(tuple),
    usage=st.none() | usages(),
)
