"""Guards on streams: what is held back and for how long, the order of events, and what passes unchanged."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import GateError
from tornado_gate.guards.text_events import Event, EventTexts
from tornado_gate.guards.text_parts import TextPart
from tornado_gate.guards.text_streams import guard_stream
from tornado_gate.testing import iterate
from tornado_gate.types.text_maps import Shape, TextMap
from tornado_gate.types.texts import GuardedText, Span, find_spans
from tornado_gate_anthropic.fields import MESSAGES
from tornado_gate_gemini import fields as gemini
from tornado_gate_openai.fields import chat_answers, image_answers, realtime_texts, response_answers

SECRET = re.compile(r"<[^>]{0,12}>")
LONGEST = 14
FIXTURES = Path(__file__).parents[2] / "plugins"
RECORDED = [
    ("format-openai", "*.reply.sse", chat_answers.CHAT),
    ("format-openai", "responses/*.reply.sse", response_answers.RESPONSES),
    ("format-anthropic", "*.reply.sse", MESSAGES),
    ("format-gemini", "*.reply.sse", gemini.GENERATE),
]


async def mask(texts: list[GuardedText]) -> list[Span]:
    return find_spans(texts, SECRET, lambda _: "#")


async def allow(texts: list[GuardedText]) -> list[Span]:
    return []


def run(text_map: TextMap, chunks: list[Any], review: Any = mask, lookahead: int = LONGEST) -> list[bytes]:
    async def collect() -> list[bytes]:
        return [
            chunk async for chunk in guard_stream(text_map, iterate(chunks), lookahead, review, lambda unread: None)
        ]

    return asyncio.run(collect())


def feed(texts: EventTexts, values: list[Any], *, final: bool = False) -> list[Any]:
    for value in values:
        texts.add(value, value)
    if final:
        texts.end()
    return asyncio.run(texts.review(mask, final=final))


def open_texts(shape: Shape | None, lookahead: int = LONGEST) -> EventTexts:
    assert shape is not None
    return EventTexts(shape, lookahead, lambda _event, value: value, lambda unread: None)


def frame(value: Any, name: str = "") -> bytes:
    return sse.render_json(value, name)


def say(text: str, **choice: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **choice}]}


def join_said(values: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for value in values for choice in value.get("choices", ()))


@settings(max_examples=60)
@given(
    st.lists(st.text(st.sampled_from("<>ab "), min_size=1, max_size=20), min_size=1, max_size=12),
    st.integers(LONGEST, 40),
)
def test_no_more_than_the_lookahead_is_held_back(pieces: list[str], lookahead: int) -> None:
    texts = open_texts(chat_answers.CHAT.event, lookahead)
    whole = "".join(pieces)
    replaced = SECRET.sub("#", whole)
    said, heard = "", 0
    for piece in pieces:
        said += join_said(feed(texts, [say(piece)]))
        heard += len(piece)
        spans = [found.span() for found in SECRET.finditer(whole[:heard])]
        border = heard - lookahead
        decided = whole[: min([max(border, 0), *(start for start, end in spans if start < border < end)])]
        assert len(said) >= len(SECRET.sub("#", decided))
        assert replaced.startswith(said)
    said += join_said(feed(texts, [say("", finish_reason="stop")], final=True))
    assert said == replaced


@pytest.mark.parametrize(("plugin", "pattern", "text_map"), RECORDED)
@pytest.mark.parametrize("size", [7, 400])
def test_recorded_streams_are_complete(plugin: str, pattern: str, text_map: TextMap, size: int) -> None:
    """The texts of all events added up are the same, and events without text are the same bytes in the same order."""
    for path in sorted((FIXTURES / plugin / "tests" / "fixtures").glob(pattern)):
        raw = path.read_bytes()
        chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
        passed = b"".join(run(text_map, chunks, allow))
        before, after = ([one for one in sse.split(data) if one.strip()] for data in (raw, passed))
        assert [one for one in after if one in before], path.name
        assert _add_up(after, text_map) == _add_up(before, text_map), path.name
        quiet = [one for one in before if b"delta" not in one and b'"text"' not in one]
        left = iter(after)
        assert all(one in left for one in quiet), f"{path.name}: an event is missing or out of order"


def _add_up(frames: list[bytes], text_map: TextMap) -> dict[str, str]:
    from tornado_gate.guards.text_walks import find_texts

    found: dict[str, str] = {}
    for raw in frames:
        parsed = sse.parse(raw)
        if parsed is None or parsed.data == b"[DONE]":
            continue
        assert text_map.event is not None
        for text in find_texts(orjson.loads(parsed.data), text_map.event).texts:
            found[text.place] = found.get(text.place, "") + text.text if text.is_delta else text.text
    return found


def test_comments_and_pings_do_not_wait() -> None:
    ping = frame({"type": "ping"}, "ping")
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
    out = run(MESSAGES, [frame(delta), b": alive\n\n", ping], allow)
    assert out[1:3] == [b":\n\n", ping]


def test_nothing_but_reviewed_data_and_names_of_events_passes() -> None:
    """Comments, ids and unknown fields of an upstream's events have no JSON, in which a guard would see them."""
    value = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    data = orjson.dumps(value)
    asked: list[str] = []

    async def note(texts: list[GuardedText]) -> list[Span]:
        asked.extend(text.text for text in texts)
        return []

    frames = [
        b": secret\n\n",
        b"id: secret\ndata: %b\n\n" % data,
        b"event: named\ndata: %b\n\n" % data,
        b"event: named\nsecret: x\r\ndata: %b\r\n\r\n" % data,
        b"data: %b\n: secret\n\n" % data,
        b"retry: 4111111111111111\n\n",
        b": secret\ndata: [DONE]\n\n",
    ]
    out = b"".join(run(MESSAGES, frames, note))
    assert b"secret" not in out
    assert b"4111" not in out
    assert out.count(data) == 4
    assert asked.count("named") == 1


def test_an_error_event_comes_after_the_text_before_it() -> None:
    error = frame({"error": {"message": "It <failed>.", "type": "server_error"}})
    values = [
        orjson.loads(one[6:]) for one in sse.split(b"".join(run(chat_answers.CHAT, [frame(say("So <far>")), error])))
    ]
    assert [join_said(values[:-1]), values[-1]["error"]["message"]] == ["So #", "It #."]


def test_a_block_ends_the_stream() -> None:
    async def block(texts: list[GuardedText]) -> list[Span]:
        raise GateError("No.", status=400)

    with pytest.raises(GateError, match="No"):
        run(chat_answers.CHAT, [frame(say("Hello " * 9))], block)


def test_unknown_members_and_usage_survive() -> None:
    usage = {"id": "c", "choices": [], "usage": {"total_tokens": 3}, "x_new": 1}
    frames = [frame(say("<a>", x_part=7)), frame(say("", finish_reason="stop")), frame(usage), b"data: [DONE]\n\n"]
    out = b"".join(run(chat_answers.CHAT, frames))
    assert out.endswith(b"".join(frames[1:]))
    assert orjson.loads(sse.split(out)[1][6:])["choices"][0]["x_part"] == 7


def test_parallel_choices_and_calls_are_held_back_apart() -> None:
    def call(number: int, text: str) -> dict[str, Any]:
        function = {"function": {"arguments": text}, "index": number}
        return {"choices": [{"index": 1, "delta": {"tool_calls": [function]}}]}

    values = [call(0, '{"a": "<x'), say("<y"), call(1, '{"b": "<z'), call(0, '>"}'), say("> "), call(1, '>"}')]
    out = feed(open_texts(chat_answers.CHAT.event), values, final=True)
    calls = ["", ""]
    for value in out:
        for one in value["choices"][0]["delta"].get("tool_calls", ()):
            calls[one["index"]] += one["function"]["arguments"]
    assert calls == ['{"a": "#"}', '{"b": "#"}']
    assert join_said(out) == "# "


def test_reasoning_ends_when_the_answer_begins() -> None:
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm <s>"}}]}
    out = feed(open_texts(chat_answers.CHAT.event), [thought, say("Yes")], final=True)
    order = [
        next(iter(value["choices"][0]["delta"].items())) for value in out if any(value["choices"][0]["delta"].values())
    ]
    assert order == [("reasoning_content", "Hm #"), ("content", "Yes")]


def test_a_replacement_that_may_grow_is_held_back_up_to_a_limit() -> None:
    async def everything(texts: list[GuardedText]) -> list[Span]:
        return [Span(number, text.sent, len(text.text), "#") for number, text in enumerate(texts)]

    frames = [frame(say("x" * 1000)) for _ in range(80)]
    out = run(chat_answers.CHAT, frames, everything)
    assert b"x" not in b"".join(out).replace(b"index", b"")
    values = [orjson.loads(one[6:]) for one in sse.split(b"".join(out))]
    assert 2 <= join_said(values).count("#") < 10


def test_responses_repeat_what_was_replaced_also_in_citations() -> None:
    place: dict[str, Any] = {"item_id": "m", "output_index": 0, "content_index": 0}
    text = "<secret> says [1] ok"
    note = {"type": "url_citation", "url": "u", "title": "by <me>", "start_index": 14, "end_index": 17}
    part = {"type": "output_text", "text": text, "annotations": [note], "logprobs": [{"token": "<secret>"}]}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    pieces = [text[:4], text[4:9], text[9:]]
    values = [
        *(
            {"type": "response.output_text.delta", **place, "delta": one, "logprobs": [{"token": one}]}
            for one in pieces
        ),
        {"type": "response.output_text.annotation.added", **place, "annotation_index": 0, "annotation": note},
        {"type": "response.output_text.done", **place, "text": text, "logprobs": [{"token": "<secret>"}]},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "instructions": "Be <kind>.", "output": [item]}},
    ]
    numbered = [{**value, "sequence_number": number} for number, value in enumerate(values)]
    out = feed(open_texts(response_answers.RESPONSES.event), numbered, final=True)
    assert [value["sequence_number"] for value in out] == list(range(len(values)))
    assert "secret" not in str(out)
    assert "<" not in str(out)
    last = out[-1]["response"]["output"][0]["content"][0]
    assert last["text"] == "# says [1] ok" == out[4]["text"] == "".join(value["delta"] for value in out[:3])
    assert last["text"][last["annotations"][0]["start_index"] : last["annotations"][0]["end_index"]] == "[1]"
    assert last["logprobs"] == out[4]["logprobs"] == []


def test_a_text_that_was_only_repeated_is_reviewed_once() -> None:
    seen: list[str] = []

    async def count(texts: list[GuardedText]) -> list[Span]:
        seen.extend(text.text for text in texts)
        return []

    names = ("created", "in_progress", "completed")
    frames = [frame({"type": f"response.{name}", "response": {"instructions": "Be kind."}}) for name in names]
    run(response_answers.RESPONSES, frames, count)
    assert seen == ["Be kind."]


def test_transcripts_of_a_realtime_session_agree_with_their_ends() -> None:
    texts = open_texts(realtime_texts.SERVER)
    place: dict[str, Any] = {"response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}
    name = "response.output_audio_transcript"
    item = {
        "id": "i",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_audio", "transcript": "My <key>"}],
    }
    audio = {"type": "response.output_audio.delta", **place, "delta": "UklGRg=="}
    values = [
        {"type": f"{name}.delta", "event_id": "1", **place, "delta": "My <k"},
        audio,
        {"type": f"{name}.delta", "event_id": "2", **place, "delta": "ey>"},
        {"type": f"{name}.done", "event_id": "3", **place, "transcript": "My <key>"},
        {"type": "response.output_item.done", "event_id": "4", "output_index": 0, "item": item},
        {"type": "response.done", "event_id": "5", "response": {"id": "r", "output": [item]}},
    ]
    out = [one for value in values for one in feed(texts, [value])]
    assert "".join(value["delta"] for value in out if value["type"] == f"{name}.delta") == "My #"
    assert audio in out
    assert "key" not in str(out)
    assert str(out).count("My #") == 3 or str(out).count("'transcript': 'My #'") == 3


def test_a_part_remembers_what_arrived() -> None:
    part = TextPart("assistant", "place")
    for piece in ("Hel", "", "lo"):
        part.add(piece)
    assert part.is_same("Hello")
    assert not part.is_same("Hallo")


def test_an_image_stream_passes_as_it_is() -> None:
    frames = [frame({"type": "image_generation.completed", "b64_json": "A" * 9000}, "image_generation.completed")]
    assert run(image_answers.GENERATIONS, frames, mask) == frames


def test_a_stream_that_breaks_off_inside_an_event_says_what_it_has() -> None:
    assert b"".join(run(chat_answers.CHAT, [frame(say("Hi <x>")), b'data: {"cho'])).count(b"Hi #") == 1
    assert Event(b"", None).value is None


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_number_in_the_arguments_of_a_streamed_call_is_replaced_by_a_string(size: int) -> None:
    arguments = '{"card": 4111111111111111, "list": [12, 4111111111111111], "name": "x"}'

    async def mask(texts: list[GuardedText]) -> list[Span]:
        return find_spans(texts, re.compile("4111111111111111"), lambda _: "***")

    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    }
    pieces = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": arguments[at : at + size]},
        }
        for at in range(0, len(arguments), size)
    ]
    events = [start, *pieces, {"type": "content_block_stop", "index": 0}]
    out = b"".join(run(MESSAGES, [frame(event, event["type"]) for event in events], mask))
    values = [orjson.loads(sse.parse(raw).data) for raw in sse.split(out)]  # type: ignore[union-attr]
    said = "".join(value["delta"]["partial_json"] for value in values if "delta" in value)
    assert said == '{"card": "***", "list": [12, "***"], "name": "x"}'
