"""The responses route on the common lane: dialects, streams, and what is kept."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest
from format_openai_calls import FakeMemory, call_for, text_of, wire_with
from openai.types.responses import Response
from responses_calls import CALLS, SDK, make_events, read_request, replied, response_call, streamed, whole

import tornado_gate_openai.format as plugin
from tornado_gate import sse
from tornado_gate.errors import InvalidField, NotFound, RequestError, UpstreamError
from tornado_gate.streams import stages
from tornado_gate.types import (
    Finish,
    Message,
    Opaque,
    PartDelta,
    PartEnd,
    PartStart,
    Refusal,
    ResponseRules,
    StoredObjectRequest,
    StreamError,
    StreamEvent,
    Text,
    ToolCall,
    ToolResult,
    replace,
)

THINKING: list[StreamEvent] = [
    make_events()[0],
    PartStart(index=0, kind="thinking"),
    PartDelta(index=0, data="hm"),
    PartEnd(index=0, signature=Opaque(issuer="p", value="secret-thoughts")),
    PartStart(index=1, kind="text"),
    PartDelta(index=1, data="Hello"),
    PartEnd(index=1),
    Finish(reason="stop"),
]


def test_the_contracts_client_gets_the_contracts_shape() -> None:
    answer = whole(response_call(), make_events("Hel", "lo"), instructions="Be brief.", reasoning={"effort": "low"})
    (message,) = answer["output"]
    assert answer.keys() == {"id", "object", "created_at", "status", "model", "output", "usage"}
    assert (answer["object"], answer["status"], answer["model"], answer["created_at"]) == (
        "response",
        "completed",
        "m",
        5,
    )
    assert message == {
        "id": message["id"],
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
    }
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (1, 2, 3)
    assert (usage["input_tokens"], usage["output_tokens"]) == (1, 2)


def test_the_contracts_dialect_has_messages_alone() -> None:
    answer = whole(response_call(), THINKING)
    assert [item["type"] for item in answer["output"]] == ["message"]
    assert answer["reasoning"] == {"effort": None, "summary": "hm"}
    assert answer["usage"]["total_tokens"] == 0


def test_the_contracts_dialect_always_has_a_text() -> None:
    answer = whole(response_call(), [make_events()[0], Finish(reason="length")])
    assert answer["output"][0]["content"] == [{"type": "text", "text": ""}]
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_refusal_is_a_text_in_the_contracts_dialect() -> None:
    events = [make_events()[0], PartStart(index=0, kind="refusal"), PartDelta(index=0, data="No."), PartEnd(index=0)]
    answer = whole(response_call(), [*events, Finish(reason="stop")])
    assert answer["output"][0]["content"] == [{"type": "text", "text": "No."}]


def test_an_answer_that_failed_says_so_in_both_dialects() -> None:
    memory = FakeMemory()
    for call in (response_call(memory), response_call(memory, user_agent=SDK["user-agent"])):
        answer = whole(call, [*make_events("Hi")[:-1], Finish(reason="error")])
        assert (answer["status"], answer["error"]["code"]) == ("failed", "server_error")
    assert memory.values == {}


def test_every_other_client_gets_the_vendors_shape() -> None:
    answer = whole(response_call(user_agent=SDK["user-agent"]), make_events("Hello"), metadata={"a": "b"})
    Response.model_validate(answer)
    assert answer["output"][0]["content"][0]["type"] == "output_text"
    assert (answer["metadata"], answer["store"]) == ({"a": "b"}, True)
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["input_tokens"] == 1


def test_a_stream_is_named_frames_without_done() -> None:
    reply = replied(response_call(), make_events("Hello"), stream=True)
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream; charset=utf-8", b": ping\n")
    raw = text_of(reply)
    assert raw.startswith(b"event: response.created\ndata: {")
    assert b"[DONE]" not in raw


def test_a_stream_that_fails_ends_with_a_failed_response_and_is_not_kept() -> None:
    memory = FakeMemory()
    events = streamed(response_call(memory), [*make_events("Hello")[:3], StreamError(error=UpstreamError("gone"))])
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert memory.values == {}


def test_a_failure_before_the_first_event_keeps_its_status() -> None:
    for stream in (False, True):
        with pytest.raises(UpstreamError, match="gone"):
            text_of(replied(response_call(), [make_events()[0], UpstreamError("gone")], stream=stream))


def test_encrypted_reasoning_is_shown_only_when_it_was_asked_for_and_kept_anyway() -> None:
    wanted = {"include": ["reasoning.encrypted_content"]}
    for fields, shown in (({"store": True}, False), (wanted, True)):
        memory = FakeMemory()
        answer = whole(response_call(memory), THINKING, **fields)
        assert ("secret-thoughts" in orjson.dumps(answer).decode()) is shown
        assert b"secret-thoughts" in next(iter(memory.values.values()))
        events = streamed(response_call(memory), THINKING, **fields)
        assert ("secret-thoughts" in orjson.dumps(events).decode()) is shown


def test_a_kept_response_is_continued_with_all_that_was_said() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), CALLS, instructions="Be brief.", tools=[])
    result = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    second = whole(
        response_call(memory),
        make_events("It is 1."),
        input=[result],
        previous_response_id=first["id"],
        instructions="Be long.",
    )
    request = read_request(response_call(memory), input="And now?", previous_response_id=second["id"])
    assert request.messages == (
        Message(role="user", parts=(Text(text="Hi"),)),
        Message(role="assistant", parts=(ToolCall(id="call_1", name="f", arguments="{}"),)),
        Message(role="tool", parts=(ToolResult(call_id="call_1", parts=(Text(text="1"),)),)),
        Message(role="assistant", parts=(Text(text="It is 1."),)),
        Message(role="user", parts=(Text(text="And now?"),)),
    )
    assert set(memory.seconds.values()) == {30 * 24 * 3600}


def test_a_stream_is_kept_before_its_last_event_goes_out() -> None:
    memory = FakeMemory()
    reply = replied(response_call(memory), make_events("Hello"), stream=True)

    async def read() -> None:
        async for chunk in reply.chunks:
            if b"event: response.completed" in chunk:
                assert len(memory.values) == 1
                return
        raise AssertionError("it never completed")

    asyncio.run(read())


def test_what_must_not_be_kept_is_not() -> None:
    memory = FakeMemory()
    whole(response_call(memory), make_events("Hello"), store=False)
    streamed(response_call(memory), make_events("Hello"), store=False)
    assert memory.values == {}


def test_a_reference_is_replaced_by_its_item() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), CALLS, tools=[])
    (item,) = first["output"]
    request = read_request(response_call(memory), input=[{"type": "item_reference", "id": item["id"]}])
    assert request.messages[0].parts == (ToolCall(id="call_1", name="f", arguments="{}"),)
    assert request.reply_state.items == (item,)
    again = read_request(response_call(memory), input=[{"id": item["id"]}], previous_response_id=first["id"])
    assert isinstance(again.messages[-1].parts[-1], ToolCall)


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"previous_response_id": "resp_x"}, 400, "previous_response_id", "previous_response_not_found"),
        ({"input": [{"type": "item_reference", "id": "msg_x"}]}, 404, "input.0.id", "item_not_found"),
    ],
)
def test_what_this_account_does_not_have_is_not_found(
    fields: dict[str, Any], status: int, param: str, code: str
) -> None:
    other = FakeMemory()
    whole(response_call(other), make_events("Hello"))
    with pytest.raises(RequestError) as caught:
        read_request(response_call(FakeMemory()), **fields)
    assert (caught.value.status, caught.value.param, caught.value.code) == (status, param, code)


def test_a_turn_that_is_gone_breaks_its_chain() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), make_events("Hello"))
    second = whole(response_call(memory), make_events("Hello"), previous_response_id=first["id"])
    asyncio.run(memory.delete(f"openai-responses:{first['id']}"))
    with pytest.raises(InvalidField) as caught:
        read_request(response_call(memory), previous_response_id=second["id"])
    assert first["id"] in caught.value.message


def test_an_unknown_conversation_is_not_found() -> None:
    with pytest.raises(NotFound) as caught:
        read_request(response_call(), conversation="conv_1")
    assert (caught.value.code, caught.value.param) == ("conversation_not_found", "conversation")


def test_what_the_gateway_does_itself_is_no_loss() -> None:
    request = read_request(
        response_call(),
        store=True,
        background=False,
        truncation="disabled",
        service_tier="auto",
        include=["reasoning.encrypted_content", "message.output_text.logprobs", "file_search_call.results"],
        stream=True,
        stream_options={"include_obfuscation": False},
        prompt_cache_key="k",
        user=None,
        max_tool_calls=3,
    )
    assert request.extra == {"include": ["file_search_call.results"], "prompt_cache_key": "k", "max_tool_calls": 3}


def test_what_it_does_not_is_left_to_be_lost() -> None:
    request = read_request(
        response_call(),
        truncation="auto",
        service_tier="flex",
        stream=True,
        stream_options={"include_obfuscation": True},
    )
    assert request.extra.keys() == {"truncation", "service_tier", "stream_options"}


def test_a_default_model_stands_in_for_a_missing_one() -> None:
    wire = wire_with({"input": "Hi"}, "/v1/responses")
    result: Any = plugin.translate_request(call_for("default", memory=FakeMemory()), wire)

    async def translate() -> Any:
        return await result

    assert asyncio.run(translate()).model == "default"


def test_calls_of_tools_are_shown_in_the_contracts_dialect_too() -> None:
    call = replace(response_call(), dialect="contract")
    (item,) = whole(call, CALLS, tools=[])["output"]
    assert (item["type"], item["call_id"], item["arguments"]) == ("function_call", "call_1", "{}")


# What was kept, read again


def stored(memory: FakeMemory, path: str, response_id: str, method: str = "GET", **query: str) -> Any:
    async def translate() -> Any:
        wire = wire_with(None, path, query, method=method, response_id=response_id)
        result: Any = plugin.translate_request(response_call(memory), wire)
        return await result

    reply = asyncio.run(translate())
    if isinstance(reply, StoredObjectRequest):
        raise reply.reference.not_found()  # as the core does for a response that no upstream keeps for this account
    assert (reply.status, reply.content_type) == (200, "application/json")
    return orjson.loads(text_of(reply))


RESPONSE = "/v1/responses/{response_id}"
ITEMS = "/v1/responses/{response_id}/input_items"


def test_a_kept_response_is_read_again_in_the_vendors_shape() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), THINKING)
    again = stored(memory, RESPONSE, first["id"])
    Response.model_validate(again)
    assert again["id"] == first["id"]
    assert "secret-thoughts" not in orjson.dumps(again).decode()


def test_input_items_are_listed_by_pages() -> None:
    memory = FakeMemory()
    items = [{"role": "user", "content": str(number)} for number in range(5)]
    first = whole(response_call(memory), make_events("Hello"), input=items)
    page = stored(memory, ITEMS, first["id"], limit="2")
    assert [item["content"][0]["text"] for item in page["data"]] == ["4", "3"]
    assert (page["object"], page["has_more"]) == ("list", True)
    rest = stored(memory, ITEMS, first["id"], after=page["last_id"])
    assert [item["content"][0]["text"] for item in rest["data"]] == ["2", "1", "0"]
    assert rest["has_more"] is False
    assert stored(memory, ITEMS, first["id"], order="asc", limit="1")["data"][0]["content"] == [
        {"type": "input_text", "text": "0"}
    ]


@pytest.mark.parametrize("limit", ["0", "101", "x", "", "-1", "²"])
def test_a_limit_out_of_bounds_is_refused(limit: str) -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), make_events("Hello"))
    with pytest.raises(InvalidField) as caught:
        stored(memory, ITEMS, first["id"], limit=limit)
    assert caught.value.param == "limit"


@pytest.mark.parametrize(("method", "path"), [("GET", RESPONSE), ("GET", ITEMS), ("DELETE", RESPONSE)])
def test_what_was_not_kept_is_not_found(method: str, path: str) -> None:
    memory = FakeMemory()
    whole(response_call(memory), make_events("Hello"))
    kept = dict(memory.values)
    with pytest.raises(NotFound) as caught:
        stored(memory, path, "resp_x", method)
    assert (caught.value.status, caught.value.param) == (404, "response_id")
    assert caught.value.code == "response_not_found"
    assert memory.values == kept


def test_a_deleted_response_is_gone_and_nothing_goes_on_from_it() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), make_events("Hello"))
    other = whole(response_call(memory), make_events("Hello"))
    answer = stored(memory, RESPONSE, first["id"], "DELETE")
    assert answer == {"id": first["id"], "object": "response", "deleted": True}
    for again in ("GET", "DELETE"):
        with pytest.raises(NotFound):
            stored(memory, RESPONSE, first["id"], again)
    with pytest.raises(InvalidField):
        read_request(response_call(memory), previous_response_id=first["id"])
    assert stored(memory, RESPONSE, other["id"])["id"] == other["id"]


def test_losses_of_a_conversation_that_goes_on_have_the_callers_paths() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), make_events("Hello"), input=[{"role": "user", "content": "Hi"}])
    items = [{"role": "user", "content": "And?"}, {"type": "reasoning", "summary": []}]
    request = read_request(
        response_call(memory), input=items, previous_response_id=first["id"], instructions="Be brief."
    )
    assert [request.path(number) for number in range(5)] == [
        "instructions",
        "previous_response_id",
        "previous_response_id",
        "input.0",
        "input.1",
    ]
    assert request.path(4, 0) == "input.1"
    request = read_request(response_call(memory), input="And?", previous_response_id=first["id"])
    assert request.path(2, 0) == "input"


@pytest.mark.parametrize(("dialect", "kind"), [("contract", "text"), ("vendor", "output_text")])
@pytest.mark.parametrize("headers", [{}, SDK])
def test_conf_decides_the_dialect_for_every_client(dialect: Any, kind: str, headers: dict[str, str]) -> None:
    call = replace(call_for("m", memory=FakeMemory(), headers=headers), dialect=dialect)
    assert whole(call, make_events("Hello"))["output"][0]["content"][0]["type"] == kind


def test_parts_of_the_models_are_no_losses_when_they_come_back() -> None:
    memory = FakeMemory()
    events = [make_events()[0], PartStart(index=0, kind="refusal"), PartDelta(index=0, data="No."), PartEnd(index=0)]
    first = whole(response_call(memory), [*events, Finish(reason="stop")])
    request = read_request(response_call(memory), previous_response_id=first["id"])
    assert request.messages[1] == Message(role="assistant", parts=(Refusal(text="No."),))


def test_background_needs_an_upstream_that_has_it() -> None:
    with pytest.raises(InvalidField, match="not supported by this model") as caught:
        read_request(response_call(), background=True)
    assert caught.value.param == "background"


def test_conf_says_how_long_a_response_is_kept() -> None:
    memory = FakeMemory()
    whole(replace(response_call(memory), responses=ResponseRules(seconds=60)), make_events("Hello"))
    assert set(memory.seconds.values()) == {60}


def test_a_kept_response_is_neither_streamed_again_nor_cancelled() -> None:
    memory = FakeMemory()
    first = whole(response_call(memory), make_events("Hello"))
    with pytest.raises(InvalidField) as caught:
        stored(memory, RESPONSE, first["id"], stream="true")
    assert caught.value.param == "stream"
    with pytest.raises(RequestError, match="background"):
        stored(memory, f"{RESPONSE}/cancel", first["id"], "POST")
    assert stored(memory, RESPONSE, first["id"], stream="false")["id"] == first["id"]


def test_large_events_are_rendered_in_a_thread_and_have_the_same_members(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[tuple[str, int]] = []
    render = sse.render

    def note(data: bytes, event: str = "") -> bytes:
        rendered.append((threading.current_thread().name, len(data)))
        return render(data, event)

    def events_of(word: str, count: int) -> list[StreamEvent]:
        first, start, _, *rest = make_events(word)
        return [first, start, *[PartDelta(index=0, data=word)] * count, *rest]

    monkeypatch.setattr(sse, "render", note)
    few, many = (
        streamed(response_call(), events_of("word", 2)),
        streamed(response_call(), events_of("word" * 1024, 256)),
    )
    ends = [event for event in many if event["type"] != "response.output_text.delta"]
    assert [event["type"] for event in ends] == [e["type"] for e in few if e["type"] != "response.output_text.delta"]
    assert [event["sequence_number"] for event in many] == list(range(len(many)))
    text = "word" * 1024 * 256
    assert [event["text"] for event in ends if event["type"] == "response.output_text.done"] == [text]
    assert ends[-1]["response"]["output"][0]["content"][0]["text"] == text
    here = threading.current_thread().name
    large = [name for name, size in rendered if size > stages.LARGE_BYTES]
    assert len(large) == 4
    assert here not in large
