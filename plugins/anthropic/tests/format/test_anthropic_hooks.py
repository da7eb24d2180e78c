"""The hooks of the common lane."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anthropic.types import Message as VendorMessage
from anthropic.types import MessageTokensCount, ModelInfo
from anthropic.types.shared.error_response import ErrorResponse
from format_anthropic_calls import QUESTION, ROUTES, VERSION, call_for, chunks_of, text_of, wire_with

import tornado_gate_anthropic.format as plugin
from tornado_gate.errors import InvalidField, UnknownModel, UnsupportedOperation, UpstreamError
from tornado_gate.streams import batches
from tornado_gate.streams.events import replay
from tornado_gate.testing import iterate
from tornado_gate.types import (
    ChatRequest,
    ChatResult,
    Choice,
    CountTokensRequest,
    Finish,
    Model,
    ModelList,
    ModelsRequest,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    TokenCount,
    Usage,
    UsageReport,
    VerbatimRequest,
)

RESULT = ChatResult(
    model="upstream-name",
    id="chatcmpl-1",
    choices=(Choice(parts=(Text(text="Hi"),), reason="stop"),),
    usage=Usage(input_tokens=1, output_tokens=2),
)
STREAM: list[StreamEvent] = [
    ResponseStart(model="upstream-name", id="msg_theirs"),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    Finish(reason="stop"),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
]


def read_request(**fields: Any) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_with(QUESTION | fields))
    assert isinstance(request, ChatRequest)
    return request


def replied(events: Any, **fields: Any) -> Reply:
    return plugin.translate_response(call_for("asked-name"), read_request(**fields), iterate(events))


def replied_together(events: list[StreamEvent]) -> Reply:
    """Return the streamed reply to events that arrive together."""

    async def together() -> list[StreamEvent]:
        return events

    return plugin.translate_response(
        call_for("asked-name"), read_request(stream=True), batches.DeferredItems(together, iterate([]))
    )


def frames(raw: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event."""
    found = []
    for frame in raw.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        found.append((name.removeprefix("event: "), orjson.loads(data.removeprefix("data: "))))
    return found


def test_the_routes_are_the_vendors() -> None:
    assert {(route.method, route.path, route.operation, route.wire_format) for route in ROUTES.values()} == {
        ("POST", "/v1/messages", "chat", "anthropic-messages"),
        ("POST", "/v1/messages/count_tokens", "count_tokens", "anthropic-messages"),
        ("GET", "/v1/models", "models", ""),
        ("GET", "/v1/models/{model}", "models", ""),
    }


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/{model}"])
def test_the_model_list_is_claimed_by_callers_of_this_format_alone(path: str) -> None:
    claims = ROUTES[path].claims
    assert claims is not None
    assert claims(VERSION, {})
    assert not claims({"x-api-key": "k"}, {"limit": "3"})


def test_a_body_becomes_a_request() -> None:
    request = read_request(temperature=0.5, stream=True, top_k=3, service_tier="auto")
    assert (request.model, request.temperature, request.stream, request.top_k) == ("m", 0.5, True, 3)
    assert (request.max_tokens, request.extra) == (9, {"service_tier": "auto"})


def test_a_whole_answer_is_the_vendors() -> None:
    reply = replied(replay(RESULT))
    assert (reply.content_type, reply.status, reply.keep_alive) == ("application/json", 200, b"")
    (raw,) = chunks_of(reply)
    answer = VendorMessage.model_validate_json(raw)
    assert answer.id.startswith("msg_")
    assert (answer.model, answer.stop_reason) == ("asked-name", "end_turn")
    assert answer.content[0].type == "text"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (1, 2)


def test_an_answer_that_fails_raises_its_error() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([*STREAM[:3], StreamError(error=UpstreamError("gone"))]))


def test_a_stream_has_named_events_and_ends_with_a_stop() -> None:
    reply = replied(STREAM, stream=True)
    assert reply.content_type == "text/event-stream; charset=utf-8"
    assert reply.keep_alive == b'event: ping\ndata: {"type": "ping"}\n\n'
    events = frames(text_of(reply))
    assert all(name == data["type"] for name, data in events)
    assert [name for name, _ in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert (events[0][1]["message"]["id"], events[0][1]["message"]["model"]) == ("msg_theirs", "asked-name")
    usage = {name: count for name, count in events[-2][1]["usage"].items() if count is not None}
    assert usage == {"input_tokens": 1, "output_tokens": 2}


def test_what_one_event_of_ours_becomes_is_one_chunk() -> None:
    chunks = chunks_of(replied(STREAM, stream=True))
    assert [[name for name, _ in frames(chunk)] for chunk in chunks] == [
        ["message_start"],
        ["content_block_start", "content_block_delta"],
        ["content_block_stop"],
        ["message_delta", "message_stop"],
    ]


def test_what_comes_together_is_one_chunk() -> None:
    chunks = chunks_of(replied_together(STREAM))
    assert len(chunks) == 2  # and what ends the message
    assert frames(b"".join(chunks)) == frames(text_of(replied(STREAM, stream=True)))


def test_what_came_together_with_a_failure_is_given_before_it() -> None:
    events = [*STREAM[:3], StreamError(error=UpstreamError("broke off")), *STREAM[3:]]
    names = [name for name, _ in frames(text_of(replied_together(events)))]
    assert names == ["message_start", "content_block_start", "content_block_delta", "error"]


def test_a_stream_that_fails_ends_with_an_error_event_and_nothing_more() -> None:
    error = UpstreamError("gone", param="p")
    events = frames(text_of(replied([*STREAM[:3], StreamError(error=error)], stream=True)))
    told = {"message": "gone", "type": "api_error", "param": "p", "code": "upstream_error"}
    assert events[-1] == ("error", {"type": "error", "error": told, "request_id": "req_1"})
    assert not {"message_delta", "message_stop"} & {name for name, _ in events}


def test_an_answer_that_the_model_could_not_finish_ends_with_an_error_event() -> None:
    events = frames(text_of(replied([*STREAM[:4], Finish(reason="error", raw="MALFORMED")], stream=True)))
    assert events[-1][0] == "error"
    assert "message_stop" not in {name for name, _ in events}


def test_a_failure_before_the_first_event_is_raised() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([STREAM[0], UpstreamError("gone")], stream=True))


def test_an_error_is_a_body_or_an_event() -> None:
    error = UnknownModel("x")
    body = plugin.translate_error(call_for(), error, False)
    assert orjson.loads(body) == {
        "type": "error",
        "error": {**error.body(), "type": "not_found_error"},
        "request_id": "req_1",
    }
    ErrorResponse.model_validate_json(body)
    assert plugin.translate_error(call_for(), error, True) == b"event: error\ndata: " + body + b"\n\n"
    assert "request_id" not in orjson.loads(plugin.translate_error(None, error, False))


def test_a_token_count_is_the_vendors() -> None:
    request = plugin.translate_request(
        call_for(operation="count_tokens"), wire_with(QUESTION, "/v1/messages/count_tokens")
    )
    assert isinstance(request, CountTokensRequest)
    assert request.chat == read_request()
    raw = text_of(plugin.translate_response(call_for(), request, iterate([TokenCount(input_tokens=7)])))
    assert MessageTokensCount.model_validate_json(raw).input_tokens == 7


def test_a_count_that_is_not_there_is_an_upstream_error() -> None:
    request = CountTokensRequest(model="m", chat=read_request())
    with pytest.raises(UpstreamError):
        text_of(plugin.translate_response(call_for(), request, iterate([])))


FACTS = {"display_name": "GPT", "input_token_limit": 128, "output_token_limit": None}
MODELS = tuple(
    Model(
        id=f"m{number}",
        owner="o",
        operations=frozenset({"chat"}),
        created=1_700_000_000,
        facts=FACTS if not number else {},
    )
    for number in range(25)
)


def listed(**query: str) -> Any:
    request = plugin.translate_request(call_for(""), wire_with(path="/v1/models", query=query))
    assert isinstance(request, ModelsRequest)
    return orjson.loads(text_of(plugin.translate_response(call_for(), request, iterate([ModelList(models=MODELS)]))))


def test_a_model_is_the_vendors() -> None:
    wire = wire_with(path="/v1/models/{model}", model="openai/gpt-4o")
    request = plugin.translate_request(call_for(), wire)
    assert isinstance(request, ModelsRequest)
    assert request.model == "openai/gpt-4o"
    events = iterate([ModelList(models=MODELS[:1], single=True)])
    body = orjson.loads(text_of(plugin.translate_response(call_for(), request, events)))
    assert (body["type"], body["id"], body["display_name"]) == ("model", "m0", "GPT")
    assert body["created_at"] == "2023-11-14T22:13:20Z"
    assert (body["max_input_tokens"], body["max_tokens"]) == (128, None)
    assert set(body) == set(ModelInfo.model_fields)
    ModelInfo.model_validate(body)


@pytest.mark.parametrize(
    ("query", "first", "last", "more"),
    [
        ({}, "m0", "m19", True),
        ({"limit": "1000"}, "m0", "m24", False),
        ({"limit": "25"}, "m0", "m24", False),
        ({"after_id": "m19"}, "m20", "m24", False),
        ({"after_id": "m2", "limit": "2"}, "m3", "m4", True),
        ({"before_id": "m20", "limit": "5"}, "m15", "m19", True),
        ({"before_id": "m3"}, "m0", "m2", False),
        ({"after_id": "m24"}, None, None, False),
        ({"before_id": "m0"}, None, None, False),
    ],
)
def test_the_model_list_comes_page_by_page(query: dict[str, str], first: Any, last: Any, more: bool) -> None:
    page = listed(**query)
    assert (page["first_id"], page["last_id"], page["has_more"]) == (first, last, more)
    if first is not None:
        assert [page["data"][0]["id"], page["data"][-1]["id"]] == [first, last]


@pytest.mark.parametrize(
    ("param", "query"),
    [
        ("limit", {"limit": "0"}),
        ("limit", {"limit": "1001"}),
        ("limit", {"limit": "x"}),
        ("limit", {"limit": "٣"}),
        ("limit", {"limit": "-1"}),
        ("before_id", {"after_id": "m1", "before_id": "m2"}),
        ("after_id", {"after_id": "nobody"}),
        ("before_id", {"before_id": "nobody"}),
    ],
)
def test_a_page_that_does_not_exist_is_refused(param: str, query: dict[str, str]) -> None:
    with pytest.raises(InvalidField) as caught:
        listed(**query)
    assert caught.value.param == param


def test_a_request_of_another_operation_has_no_answer() -> None:
    request = VerbatimRequest(wire_format="w", operation="images", path="/", raw=b"{}", body={})
    with pytest.raises(UnsupportedOperation):
        plugin.translate_response(call_for(), request, iterate([]))
