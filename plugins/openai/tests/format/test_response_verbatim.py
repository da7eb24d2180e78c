"""The verbatim lane of responses and of text completions."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from format_openai_calls import FakeMemory, call_for, chunks_of, text_of, wire_with
from responses_calls import CALLS, SDK, came_back, forwarded, frames, make_events, response_call, whole

import tornado_gate_openai.format as plugin
from tornado_gate import sse
from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRefused, UpstreamTimeout
from tornado_gate.testing import iterate
from tornado_gate.types import Call, Reply, UpstreamResponse, Usage, VerbatimRequest, replace
from tornado_gate.types.upstream_objects import make_record_name

JSON = "application/json"
EVENTS = "text/event-stream"
RESPONSE = {
    "id": "resp_up",
    "object": "response",
    "created_at": 5,
    "status": "completed",
    "model": "up",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
        },
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}


def framed(event: dict[str, Any]) -> bytes:
    return sse.render_json(event, event["type"])


STARTED = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
CREATED = framed({"type": "response.created", "sequence_number": 0, "response": STARTED})
DELTA = framed({"type": "response.output_text.delta", "sequence_number": 1, "delta": "Hi"})
COMPLETED = framed({"type": "response.completed", "sequence_number": 2, "response": RESPONSE})


def test_a_body_goes_up_as_it_came() -> None:
    raw = b'{ "input": "H\\u0069",\n "x": 1e2, "model": "m", "previous_response_id": "resp_theirs" }'
    request = forwarded(response_call(), raw)
    assert request.raw == raw
    assert (request.wire_format, request.path, request.stream) == ("openai-responses", "/v1/responses", False)


def test_a_wrong_body_goes_nowhere() -> None:
    with pytest.raises(InvalidField):
        forwarded(response_call(), temperature="hot")


def test_a_conversation_is_the_upstreams_to_keep() -> None:
    assert forwarded(response_call(), conversation="conv_1").body["conversation"] == "conv_1"


def test_a_turn_of_ours_goes_up_in_full() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), CALLS, tools=[])
    result = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    request = forwarded(response_call(memory), input=[result], previous_response_id=first["id"], x=1)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    assert orjson.loads(request.raw) == request.body
    called = [{name: value for name, value in item.items() if name != "id"} for item in first["output"]]
    assert request.body == {"model": "m", "input": [said, *called, result], "x": 1}


def test_a_turn_of_ours_leaves_its_reasoning_behind() -> None:
    memory = FakeMemory()
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "foreign"}
    first = whole(response_call(memory), make_events("Hello"), input=[reasoning, {"role": "user", "content": "Hi"}])
    request = forwarded(response_call(memory), previous_response_id=first["id"])
    assert b"foreign" not in request.raw


def test_references_to_items_of_ours_are_replaced_and_others_pass() -> None:
    memory = FakeMemory()
    (item,) = whole(response_call(memory), CALLS, tools=[])["output"]
    references = [{"type": "item_reference", "id": item["id"]}, {"type": "item_reference", "id": "msg_theirs"}]
    del item["id"]
    assert forwarded(response_call(memory), input=references).body["input"] == [item, references[1]]


def test_ids_that_the_gateway_made_do_not_go_up_nor_items_that_are_nothing_without_them() -> None:
    made = f"{'0123456789abcdef' * 2}0001"
    call = response_call()
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    read = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAAB"}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Well"}], "id": f"rs_{made}"}
    painted = {"type": "image_generation_call", "id": f"ig_{made}", "status": "completed", "result": "AA=="}
    asked = {"role": "user", "content": "And?"}
    sent = [thought, {**read, "id": f"rs_{made}"}, {**said, "id": f"msg_{made}"}, {**called, "id": f"fc_{made}"}]
    request = forwarded(call, input=[*sent, painted, asked])
    assert request.body["input"] == [read, said, called, asked]
    assert orjson.loads(request.raw) == request.body
    assert call.losses == ["input.0", "input.4"]


def test_ids_that_the_upstream_issued_go_up_whatever_their_form() -> None:
    memory = FakeMemory()
    made = f"rs_{'0123456789abcdef' * 2}0001"
    call = response_call(memory)
    asyncio.run(memory.put(make_record_name("item", made), {"provider": call.target.provider}, 60))
    items = [{"type": "reasoning", "id": made, "summary": []}, {"role": "user", "content": "And?"}]
    assert forwarded(call, input=items).body["input"] == items
    assert call.losses == []


def test_an_object_of_another_upstream_in_an_earlier_turn_is_refused_in_the_callers_words() -> None:
    memory = FakeMemory()
    part = {"type": "input_file", "file_id": "file-1"}
    first = whole(response_call(memory), make_events("Hi"), input=[{"role": "user", "content": [part]}])
    record = {"provider": "elsewhere", "model": "their-model"}
    asyncio.run(memory.put(make_record_name("file", "file-1"), record, 60))
    with pytest.raises(InvalidField, match="their-model") as caught:
        forwarded(response_call(memory), previous_response_id=first["id"])
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "object_kept_elsewhere")


def test_an_input_of_which_nothing_is_left_is_refused() -> None:
    thought = {"type": "reasoning", "summary": [], "id": f"rs_{'0' * 36}"}
    with pytest.raises(InvalidField) as caught:
        forwarded(response_call(), input=[thought])
    assert (caught.value.param, caught.value.code) == ("input", "empty_conversation")


def test_a_whole_answer_is_the_upstreams_with_usage_in_both_spellings() -> None:
    call = response_call(user_agent=SDK["user-agent"])
    answer = orjson.loads(text_of(came_back(call, orjson.dumps(RESPONSE), content_type=JSON)))
    usage = answer.pop("usage")
    assert answer == {name: value for name, value in RESPONSE.items() if name != "usage"}
    assert (usage["prompt_tokens"], usage["input_tokens"], usage["total_tokens"]) == (1, 1, 3)
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


def test_the_contracts_client_gets_the_contracts_shape_here_too() -> None:
    answer = orjson.loads(text_of(came_back(response_call(), orjson.dumps(RESPONSE), content_type=JSON)))
    (message,) = answer["output"]
    assert message["content"] == [{"type": "text", "text": "Hi"}]
    assert answer["usage"]["prompt_tokens"] == 1


@pytest.mark.parametrize(("dialect", "kind"), [("contract", "text"), ("vendor", "output_text")])
def test_conf_decides_the_dialect_here_too(dialect: Any, kind: str) -> None:
    call = replace(response_call(), dialect=dialect)
    answer = orjson.loads(text_of(came_back(call, orjson.dumps(RESPONSE), content_type=JSON)))
    assert answer["output"][-1]["content"][0]["type"] == kind


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no", "code": 422}},
        {**RESPONSE, "status": "failed", "error": {"code": "invalid_prompt", "message": "no"}},
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_failed_is_an_error(body: dict[str, Any], stream: bool) -> None:
    with pytest.raises(UpstreamRefused, match="no"):
        text_of(came_back(response_call(), orjson.dumps(body), content_type=JSON, stream=stream))


def test_frames_come_as_they_were_and_usage_is_noted() -> None:
    call = response_call()
    whole_stream = CREATED + DELTA + COMPLETED
    pieces = [whole_stream[place : place + 1] for place in range(len(whole_stream))]
    chunks = chunks_of(came_back(call, *pieces, content_type=EVENTS, stream=True))
    assert chunks == [CREATED, DELTA, COMPLETED]
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


def streamed(*pieces: Any) -> bytes:
    return text_of(came_back(response_call(), *pieces, content_type=EVENTS, stream=True))


def test_an_upstream_that_breaks_off_fails_the_response_that_it_began() -> None:
    events = frames(streamed(CREATED, DELTA, UpstreamTimeout("too slow")))
    assert [event["type"] for event in events[2:]] == ["error", "response.failed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert events[-1]["response"]["id"] == "resp_up"
    assert events[-1]["response"]["error"]["message"] == "too slow"


def test_a_stream_that_stops_early_failed() -> None:
    assert frames(streamed(CREATED, DELTA))[-1]["type"] == "response.failed"


def test_nothing_is_added_to_a_stream_that_ended() -> None:
    assert streamed(CREATED, COMPLETED, UpstreamError("reset")) == CREATED + COMPLETED
    failed = framed({"type": "response.failed", "response": {**STARTED, "status": "failed"}})
    error = framed({"type": "error", "message": "gone"})
    assert streamed(CREATED, error, failed, DELTA) == CREATED + error + failed


def test_an_error_in_the_first_event_is_raised() -> None:
    with pytest.raises(UpstreamError, match="it is wrong"):
        streamed(framed({"type": "error", "message": "it is wrong"}))


def test_a_whole_answer_to_a_stream_becomes_one_with_its_own_id() -> None:
    reply = came_back(response_call(), orjson.dumps(RESPONSE), content_type=JSON, stream=True)
    assert reply.content_type.startswith(EVENTS)
    events = frames(text_of(reply))
    assert {event["response"]["id"] for event in events if "response" in event} == {"resp_up"}
    assert "".join(event["delta"] for event in events if "delta" in event) == "Hi"
    assert events[-1]["type"] == "response.completed"


# Text completions


COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 5,
    "model": "up",
    "choices": [{"text": "Hi", "index": 0, "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


def completion(call: Call, *pieces: Any, content_type: str = JSON, **fields: Any) -> Reply:
    request = plugin.forward_request(call, wire_with({"model": "m", "prompt": "Once", **fields}, "/v1/completions"))
    assert isinstance(request, VerbatimRequest)
    incoming = UpstreamResponse(chunks=iterate(pieces), headers={"content-type": content_type})
    return plugin.forward_response(call, request, incoming)


def test_prompts_of_every_kind_go_up_as_they_came() -> None:
    for prompt in ("Once", ["a", "b"], [1, 2], [[1], [2]]):
        body = {"model": "m", "prompt": prompt, "suffix": "end", "best_of": 2, "logprobs": 3}
        request = plugin.forward_request(call_for(), wire_with(body, "/v1/completions"))
        assert isinstance(request, VerbatimRequest)
        assert (request.raw, request.wire_format) == (orjson.dumps(body), "openai-completions")


def test_a_stream_of_text_asks_for_usage_and_hides_it() -> None:
    request = plugin.forward_request(
        call_for(), wire_with({"model": "m", "prompt": "Once", "stream": True}, "/v1/completions")
    )
    assert isinstance(request, VerbatimRequest)
    assert request.body["stream_options"] == {"include_usage": True}
    word = sse.render_json({**COMPLETION, "usage": None})
    totals = sse.render_json({**COMPLETION, "choices": []})
    call = call_for()
    raw = text_of(completion(call, word + totals, b"data: [DONE]\n\n", content_type=EVENTS, stream=True))
    assert raw == word + b"data: [DONE]\n\n"
    assert (call.meter.usage, call.meter.finish_reason) == (Usage(input_tokens=1, output_tokens=2), "stop")


def test_a_whole_completion_comes_as_it_was() -> None:
    raw = orjson.dumps(COMPLETION)
    assert chunks_of(completion(call_for(), raw)) == [raw]


@pytest.mark.parametrize("include_usage", [False, True])
def test_a_whole_completion_to_a_stream_becomes_one(include_usage: bool) -> None:
    options = {"stream_options": {"include_usage": include_usage}}
    raw = text_of(completion(call_for(), orjson.dumps(COMPLETION), stream=True, **options))
    *found, done = [line.removeprefix(b"data: ") for line in raw.strip().split(b"\n\n")]
    chunks = [orjson.loads(line) for line in found]
    assert done == b"[DONE]"
    assert chunks[0]["choices"] == COMPLETION["choices"]
    assert len(chunks) == (2 if include_usage else 1)
    assert chunks[-1].get("usage") == (COMPLETION["usage"] if include_usage else None)
