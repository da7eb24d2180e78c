"""The verbatim lane."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from format_openai_calls import QUESTION, call_for, chunks_of, text_of, wire_with
from hypothesis import given
from hypothesis import strategies as st

import tornado_gate_openai.format as plugin
from tornado_gate import sse
from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRefused, UpstreamTimeout
from tornado_gate.testing import iterate
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, Usage, VerbatimRequest
from tornado_gate_openai.format.stream_adapters import ChatAdapter

EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json; charset=utf-8"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2}

WORD = b'data: {"choices":[{"index":0,"delta":{"content":"\\u0041"},"finish_reason":null}],"usage":null}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
TOTALS = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
BROKEN = b'data: {"error":{"message":"broken","type":"server_error","param":"","code":"x"}}\n\n'


def forwarded(**fields: Any) -> VerbatimRequest:
    return plugin.forward_request(call_for(), wire_with(QUESTION | fields))


def replied(call: Call, *pieces: Any, headers: dict[str, str] = EVENTS, **fields: Any) -> Reply:
    incoming = UpstreamResponse(chunks=iterate(pieces), headers=headers)
    return plugin.forward_response(call, forwarded(**fields), incoming)


def streamed(*pieces: Any, include_usage: bool = False) -> bytes:
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    return text_of(replied(call_for(), *pieces, stream=True, **options))


def error_in(raw: bytes) -> Any:
    """The error in the last frame; nothing may follow it."""
    assert raw.endswith(b"\n\n")
    return orjson.loads(raw[:-2].rpartition(b"data: ")[2])["error"]


def test_a_body_goes_up_as_it_came() -> None:
    raw = b'{ "messages": [{"content":"\\u0048i","role":"user"}],\n "x": 1e2, "model": "m", "temperature": 1.0 }'
    request = plugin.forward_request(call_for(), wire_with(raw))
    assert request.raw == raw
    assert (request.wire_format, request.operation, request.path) == ("openai-chat", "chat", "/v1/chat/completions")
    assert (request.stream, request.body["x"]) == (False, 100.0)


def test_a_wrong_body_goes_nowhere() -> None:
    with pytest.raises(InvalidField) as caught:
        forwarded(temperature="hot")
    assert caught.value.param == "temperature"


def test_a_stream_asks_for_usage() -> None:
    request = forwarded(stream=True, stream_options={"include_obfuscation": False})
    wanted = {"include_obfuscation": False, "include_usage": True}
    assert orjson.loads(request.raw)["stream_options"] == request.body["stream_options"] == wanted
    assert request.stream is True


def test_a_stream_that_asks_for_usage_itself_is_not_touched() -> None:
    body = QUESTION | {"stream": True, "stream_options": {"include_usage": True}}
    assert plugin.forward_request(call_for(), wire_with(body)).raw == orjson.dumps(body)


def test_a_whole_answer_comes_as_it_was() -> None:
    call = call_for()
    raw = b'{"usage": {"prompt_tokens": 1, "completion_tokens": 2},\n "choices": [{"finish_reason": "length"}]}'
    reply = replied(call, raw[:20], raw[20:], headers=JSON)
    assert reply.content_type == JSON["content-type"]
    assert chunks_of(reply) == [raw]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "length")


def test_a_whole_answer_that_is_no_json_is_an_upstream_error() -> None:
    with pytest.raises(UpstreamError, match="not valid JSON"):
        text_of(replied(call_for(), b"<html>", headers=JSON))


def test_a_whole_answer_that_is_an_error_keeps_its_status() -> None:
    with pytest.raises(UpstreamRefused) as caught:
        text_of(replied(call_for(), b'{"error": {"message": "m", "code": 422}}', headers=JSON))
    assert caught.value.status == 422


def test_frames_come_as_they_were_and_usage_is_noted() -> None:
    call = call_for()
    options = {"include_usage": True}
    reply = replied(call, WORD + FINISH + TOTALS + DONE, stream=True, stream_options=options)
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream", b": ping\n\n")
    assert chunks_of(reply) == [WORD + FINISH + TOTALS + DONE]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


def test_usage_that_was_not_asked_for_is_noted_and_hidden() -> None:
    call = call_for()
    assert text_of(replied(call, WORD, FINISH, TOTALS, DONE, stream=True)) == WORD + FINISH + DONE
    assert call.meter.usage == Usage(input_tokens=1, output_tokens=2)


def test_usage_on_a_chunk_with_choices_is_left_alone() -> None:
    finish = FINISH.replace(b"null", b'{"prompt_tokens":1}')
    assert streamed(WORD, finish, DONE) == WORD + finish + DONE


@given(data=st.data())
def test_chunks_end_at_frame_borders_however_the_bytes_are_cut(data: st.DataObject) -> None:
    crlf = WORD.replace(b"\n\n", b"\r\n\r\n")
    whole = b": hello\n\n" + WORD + crlf + b": ping\r\n\r\n" + FINISH + DONE
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    chunks = chunks_of(replied(call_for(), *pieces, stream=True))
    assert b"".join(chunks) == whole
    assert all(chunk.endswith((b"\n\n", b"\r\n\r\n")) for chunk in chunks)


def test_one_byte_at_a_time_gives_the_same() -> None:
    whole = WORD + FINISH + TOTALS + DONE
    assert streamed(*(whole[place : place + 1] for place in range(len(whole)))) == WORD + FINISH + DONE


def test_an_error_in_the_first_data_is_raised_even_after_comments() -> None:
    with pytest.raises(UpstreamError, match="broken"):
        streamed(b": waiting\n\n", BROKEN)


def test_an_error_in_the_first_data_may_lack_its_border() -> None:
    with pytest.raises(UpstreamError, match="broken"):
        streamed(BROKEN.rstrip())


def test_a_later_error_passes_and_nothing_follows() -> None:
    assert streamed(WORD, BROKEN + WORD, DONE) == WORD + BROKEN


def test_an_upstream_that_breaks_off_becomes_an_error_frame() -> None:
    raw = streamed(WORD, UpstreamTimeout("too slow"))
    assert raw.startswith(WORD)
    assert error_in(raw) == {"message": "too slow", "type": "timeout_error", "param": "", "code": "upstream_timeout"}


def test_an_upstream_that_breaks_off_before_its_first_frame_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        streamed(b": ping\n\n", WORD[:10], UpstreamTimeout("too slow"))


def test_a_break_after_done_is_no_error() -> None:
    assert streamed(WORD, FINISH, DONE, UpstreamError("reset")) == WORD + FINISH + DONE


@pytest.mark.parametrize("last", [b"", WORD[:30], b": ping\n\n"])
def test_a_stream_that_stops_early_ends_with_an_error(last: bytes) -> None:
    assert error_in(streamed(WORD, last))["message"] == "The upstream's stream ended before the response was complete."


@pytest.mark.parametrize("only", [(), (b": ping\n\n",), (b"data: {",)])
def test_a_stream_without_a_whole_frame_is_an_upstream_error(only: tuple[bytes, ...]) -> None:
    with pytest.raises(UpstreamError, match="ended before the response was complete"):
        streamed(*only)


def test_a_missing_done_is_added_after_a_finish() -> None:
    assert streamed(WORD, FINISH) == WORD + FINISH + DONE


def test_a_last_frame_without_its_border_gets_one() -> None:
    assert streamed(WORD, FINISH, DONE.rstrip()) == WORD + FINISH + DONE


def test_a_frame_without_end_is_an_error() -> None:
    raw = streamed(WORD, b"data: " + b"x" * (sse.MAX_FRAME_BYTES + 1))
    assert error_in(raw)["code"] == "upstream_event_too_large"


def test_a_stream_that_nobody_asked_for_passes() -> None:
    assert text_of(replied(call_for(), WORD, FINISH, DONE, headers=EVENTS)) == WORD + FINISH + DONE


WHOLE = {
    "id": "chatcmpl-1",
    "model": "up",
    "created": 5,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": USAGE,
}


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_whole_answer_to_a_stream_becomes_one(include_usage: bool) -> None:
    call = call_for()
    options = {"stream_options": {"include_usage": include_usage}}
    reply = replied(call, orjson.dumps(WHOLE), headers=JSON, stream=True, **options)
    assert reply.content_type.startswith("text/event-stream")
    raw = text_of(reply)
    assert raw.endswith(DONE)
    frames = [orjson.loads(line[6:]) for line in raw.removesuffix(DONE).strip().split(b"\n\n")]
    assert {(frame["id"], frame["object"], frame["model"]) for frame in frames} == {
        ("chatcmpl-1", "chat.completion.chunk", "up")
    }
    deltas = [choice["delta"] for frame in frames for choice in frame["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hi"
    assert (frames[-1]["choices"] == []) is include_usage
    assert call.meter.usage == Usage(input_tokens=1, output_tokens=2)


def test_an_error_in_place_of_a_stream_keeps_its_status() -> None:
    with pytest.raises(UpstreamRefused):
        text_of(replied(call_for(), b'{"error": {"message": "m", "code": 422}}', headers=JSON, stream=True))


@pytest.mark.parametrize(
    ("stream", "content_type"), [(True, "text/event-stream; charset=utf-8"), (False, "application/json")]
)
def test_without_a_content_type_the_request_decides(stream: bool, content_type: str) -> None:
    assert replied(call_for(), headers={}, stream=stream).content_type == content_type


def test_a_chunk_of_whole_frames_with_nothing_to_note_is_handed_on_as_it_came() -> None:
    several = WORD + b": ping\n\n" + WORD
    assert chunks_of(replied(call_for(), WORD, several, WORD, FINISH, stream=True)) == [
        WORD,
        several,
        WORD,
        FINISH,
        DONE,
    ]


SPACES = st.sampled_from(["", " ", "  ", "\t"])
MEMBERS = st.sampled_from(
    [
        '"usage"{0}:{1}null',
        '"usage"{0}:{1}{{"prompt_tokens":1}}',
        '"error"{0}:{1}null',
        '"error"{0}:{1}{{"message":"m"}}',
        '"object"{0}:{1}"error"',
        '"choices"{0}:{1}[{{"finish_reason"{0}:{1}null}}]',
        '"choices"{0}:{1}[{{"finish_reason"{0}:{1}"stop"}}]',
        '"choices"{0}:{1}[{{"finish_reason":null}},{{"finish_reason"{0}:{1}"stop"}}]',
        '"x"{0}:{1}"\\"usage\\": {{}}, \\"finish_reason\\":\\"stop\\""',
    ]
)


@given(st.lists(st.tuples(MEMBERS, SPACES, SPACES), min_size=1, max_size=3), st.booleans())
def test_what_is_quiet_has_nothing_to_note(members: list[tuple[str, str, str]], done: bool) -> None:
    frames = [f"data: {{{member.format(*spaces)}}}\n\n".encode() for member, *spaces in members]
    frames += [DONE] if done else []
    call = call_for()
    meter = ChatAdapter().meter(call, forwarded())
    noted = [meter.note(frame) for frame in frames]
    if ChatAdapter().is_quiet(b"".join(frames)):
        assert not any(noted)
        assert (call.meter, meter.finished, meter.done) == (Meter(), False, False)


@pytest.mark.parametrize(
    "frame",
    [
        WORD,
        WORD.replace(b":null", b": null"),
        WORD + WORD.replace(b":null", b": null"),
        b": ping\n\n",
        b'data: {"choices":[]}\n\n',
    ],
)
def test_what_most_frames_look_like_is_quiet(frame: bytes) -> None:
    assert ChatAdapter().is_quiet(frame * 3)


@given(data=st.data())
def test_however_frames_are_mixed_and_cut_the_same_comes_down(data: st.DataObject) -> None:
    frames = data.draw(st.lists(st.sampled_from([WORD, TOTALS, b": ping\n\n", WORD.replace(b"\n", b"\r\n")])))
    whole = b"".join([WORD, *frames, FINISH, TOTALS, DONE, WORD])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    call = call_for()
    came = text_of(replied(call, *pieces, stream=True))
    assert came == b"".join([WORD, *(frame for frame in frames if frame != TOTALS), FINISH, DONE])
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


def test_pictures_of_a_chat_are_counted_whole_and_streamed() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    whole = {"choices": [{"message": {"content": "", "images": [picture, picture]}, "finish_reason": "stop"}]}
    call = call_for()
    text_of(replied(call, orjson.dumps(whole), headers=JSON, modalities=["image", "text"]))
    assert call.meter.images == 2
    frame = sse.render_json({"choices": [{"index": 0, "delta": {"images": [picture]}, "finish_reason": None}]})
    call = call_for()
    passed = text_of(replied(call, frame, WORD, frame, FINISH, DONE, stream=True, modalities=["image", "text"]))
    assert (call.meter.images, passed.count(b"image_url")) == (2, 4)
    odd = [b'data: {"choices":7,"x":{"images":1}}\n\n', b'data: {"choices":[{"delta":{"images":{}}}]}\n\n']
    call = call_for()
    text_of(replied(call, *odd, FINISH, DONE, stream=True, modalities=["image", "text"]))
    assert call.meter.images == 0
