"""Events and whole results are the same thing; an order that is not allowed is noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import GateError, PluginError, UpstreamError, UpstreamTimeout
from tornado_gate.streams.event_order import OrderChecker
from tornado_gate.streams.events import OrderError, collect, iterate_events, render_collected, render_result, replay
from tornado_gate.streams.events import check_events as checked_events
from tornado_gate.streams.stages import LARGE_BYTES
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    Finish,
    Opaque,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    Refusal,
    ResponseStart,
    SpeechChunk,
    SpeechEnd,
    SpeechStart,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    VendorPart,
)

SIGNATURES = st.none() | st.builds(Opaque, issuer=st.just("acme"), value=st.text(max_size=5))
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=st.text(), signature=SIGNATURES),
    st.builds(Refusal, text=st.text()),
    st.builds(Thinking, text=st.text(), signature=SIGNATURES, redacted=st.booleans()),
    st.builds(ToolCall, id=st.text(max_size=5), name=st.text(max_size=5), arguments=st.text(), signature=SIGNATURES),
    st.builds(Audio, source=st.just(Data(media_type="audio/wav", base64="AAAA")), reference=st.just("a1")),
    st.builds(VendorPart, wire_format=st.just("x"), value=st.just({"type": "new"})),
)
COUNTS = st.none() | st.integers(0, 10)
RESULTS = st.builds(
    ChatResult,
    model=st.text(max_size=5),
    id=st.none() | st.text(max_size=5),
    usage=st.none() | st.builds(Usage, input_tokens=COUNTS, output_tokens=COUNTS, reasoning_tokens=COUNTS),
    choices=st.lists(
        st.builds(Choice, parts=st.lists(PARTS, max_size=4).map(tuple), reason=st.sampled_from(["stop", "length"])),
        min_size=1,
        max_size=3,
    ).map(tuple),
)

START = ResponseStart(model="m")
TEXT = (PartStart(index=0, kind="text"), PartDelta(index=0, data="hi"), PartEnd(index=0))
FINISH = Finish(reason="stop")


async def given_events(events: Iterable[StreamEvent | Exception]) -> AsyncIterator[StreamEvent]:
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


def blame(error: OrderError, where: str) -> GateError:
    return PluginError("acme", f"{where}: {error}")


def checked(events: Iterable[StreamEvent | Exception]) -> list[StreamEvent]:
    async def read() -> list[StreamEvent]:
        return [event async for event in checked_events(given_events(events), blame)]

    return asyncio.run(read())


@given(RESULTS)
def test_a_replayed_result_is_collected_again(result: ChatResult) -> None:
    assert asyncio.run(collect(iterate_events(replay(result)))) == result


@given(RESULTS)
def test_a_replayed_result_has_events_in_order(result: ChatResult) -> None:
    events = list(replay(result))
    assert checked(events) == events


def test_logprobs_of_a_choice_come_back() -> None:
    entry = {"token": "hi", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    choice = Choice(parts=(Text(text="hi"),), reason="stop", logprobs={"content": [entry]})
    result = ChatResult(model="m", choices=(choice,))
    assert asyncio.run(collect(iterate_events(replay(result)))) == result


@pytest.mark.parametrize(
    "events",
    [
        [TEXT[0]],
        [START, START],
        [START, TEXT[1]],
        [START, TEXT[2]],
        [START, TEXT[0], TEXT[0]],
        [START, TEXT[0], FINISH],
        [START, *TEXT, FINISH, FINISH],
        [START, *TEXT, FINISH, PartStart(index=1, kind="text")],
        [FINISH],
        [UsageReport(usage=Usage())],
    ],
)
def test_a_wrong_order_is_the_plugins_fault(events: list[StreamEvent]) -> None:
    try:
        late = checked(events)
    except PluginError:
        return
    assert isinstance(late[-1], StreamError)
    assert isinstance(late[-1].error, PluginError)


def test_a_stream_that_just_stops_ends_with_an_error() -> None:
    events = checked([START, *TEXT[:2]])
    assert events[:3] == [START, *TEXT[:2]]
    assert isinstance(events[-1], StreamError)
    assert isinstance(events[-1].error, UpstreamError)


def test_a_stream_that_stops_before_it_said_anything_raises() -> None:
    with pytest.raises(UpstreamError):
        checked([START])


def test_a_failure_before_the_first_word_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        checked([START, UpstreamTimeout("late")])
    with pytest.raises(UpstreamTimeout):
        checked([START, StreamError(error=UpstreamTimeout("late"))])


def test_a_failure_after_the_first_word_becomes_an_event() -> None:
    error = UpstreamTimeout("late")
    assert checked([START, *TEXT[:2], error])[-1] == StreamError(error=error)


def test_collecting_a_failed_stream_raises_its_error() -> None:
    with pytest.raises(UpstreamTimeout):
        asyncio.run(collect(given_events([START, StreamError(error=UpstreamTimeout("late"))])))


def test_collecting_half_a_stream_raises() -> None:
    with pytest.raises(UpstreamError):
        asyncio.run(collect(given_events([START, *TEXT])))


LONG = "x" * (LARGE_BYTES + 1)
LARGE_PARTS = [Text(text=LONG), ToolCall(id="c", name="f", arguments=LONG), Thinking(text=LONG), Refusal(text=LONG)]


def result_of(part: Part, **fields: object) -> ChatResult:
    return ChatResult(model="m", choices=(Choice(parts=(part,), reason="stop", **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize("part", LARGE_PARTS, ids=lambda part: type(part).__name__)
def test_a_large_answer_is_rendered_in_a_thread_and_a_small_one_where_it_is(part: Part) -> None:
    seen: list[tuple[str, ChatResult]] = []

    def render(result: ChatResult) -> bytes:
        seen.append((threading.current_thread().name, result))
        return b"rendered"

    async def read(result: ChatResult) -> list[bytes]:
        chunks = [chunk async for chunk in render_collected(iterate_events(replay(result)), render)]
        return [*chunks, await render_result(result, render)]

    large, small = result_of(part), result_of(Text(text="x"))
    assert asyncio.run(read(large)) == asyncio.run(read(small)) == [b"rendered", b"rendered"]
    assert [result for _, result in seen] == [large, large, small, small]
    here = threading.current_thread().name
    assert [name == here for name, _ in seen] == [False, False, True, True]


def test_many_log_probabilities_make_an_answer_large() -> None:
    async def find_thread(result: ChatResult) -> str:
        return await render_result(result, lambda result: threading.current_thread().name)

    entries = {"content": [{"token": "a", "logprob": -0.1}] * LARGE_BYTES}
    assert asyncio.run(find_thread(result_of(Text(text="x"), logprobs=entries))) != threading.current_thread().name


SPEECH = (SpeechStart(media_type="audio/mpeg"), SpeechChunk(data=b"12"), SpeechEnd())


def find_fault(*events: StreamEvent) -> str:
    """Return the rule that the last event violates; "" if there is none."""
    checker = OrderChecker()
    for event in events[:-1]:
        checker.check(event)
    try:
        checker.check(events[-1])
    except OrderError as error:
        return str(error)
    return ""


def test_speech_starts_once_and_ends_once() -> None:
    start, chunk, end = SPEECH
    assert find_fault(start, chunk, chunk, end) == ""
    assert find_fault(start, start) == "a second SpeechStart"
    assert find_fault(start, chunk, start) == "a second SpeechStart"
    assert find_fault(chunk) == "SpeechChunk before SpeechStart"
    assert find_fault(end) == "SpeechEnd before SpeechStart"
    assert find_fault(*SPEECH, end) == "SpeechEnd after the end"


def test_a_response_of_another_operation_is_complete_with_its_last_event_only() -> None:
    checker = OrderChecker()
    for event in SPEECH:
        assert not checker.is_complete()
        checker.check(event)
    assert checker.is_complete()


def test_events_of_another_operation_are_no_part_of_a_chat_response() -> None:
    start, *_ = SPEECH
    assert find_fault(START, *TEXT, FINISH) == ""
    assert find_fault(START, *TEXT, FINISH, start) == "SpeechStart in a chat response"
    assert find_fault(START, TEXT[0], start) == "SpeechStart in a chat response"
