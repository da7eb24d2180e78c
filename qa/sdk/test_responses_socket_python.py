"""openai-python's `client.responses.connect()`: the vendor's WebSocket mode of responses, to models of every provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from qa.sdk import responses_socket
from qa.sdk.responses_socket import (
    FIRST,
    KEY,
    TOOL,
    call_chats,
    call_claude,
    call_gemini,
    call_verbatim,
    client_of,
    create,
    create_all,
    receive,
    respond,
    send,
    text_of,
)
from tests.support.gateway import Gateway
from tests.support.stored_responses import answer_stream, events_of, message, response
from tests.support.upstream import Answer, Close, Upstream, answer, sse

gateway = responses_socket.gateway
client = responses_socket.client

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
NEXT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}


def test_the_events_are_those_of_the_stream(client: openai.OpenAI) -> None:
    request: dict[str, Any] = {"model": "local-chat", "input": "Say hello", "store": False}
    streamed = list(client.responses.create(stream=True, **request))
    with client.responses.connect() as connection:
        events = create_all(connection, **request)
    assert [event.type for event in events] == [event.type for event in streamed]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert text_of(events[-1]) == text_of(streamed[-1])
    assert all(event.stream_id is None for event in events)
    headers = events[0].headers
    assert headers["x-gate-provider"] == "local"
    assert not any(hasattr(event, "headers") for event in events[1:])


def test_a_verbatim_upstream_gets_the_body_and_its_events_come_back_unchanged(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    body = response("made", store=False, future_member={"kept": [1]})
    upstream.script(respond(body))
    with client.responses.connect() as connection:
        events = create_all(connection, model="verbatim", input="Hi", store=False, stream_id="main")
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", FIRST)
    assert request.json == {"model": "gpt-5", "input": "Hi", "store": False, "stream": True}
    assert events[-1].response.to_dict(mode="json") == {**body, "created_at": 1700000000.0}
    assert {event.stream_id for event in events} == {"main"}


CALLS: list[tuple[str, Callable[[], Answer]]] = [
    ("verbatim", lambda: respond(response("called", call_verbatim(), store=False, previous_response_id=None))),
    ("chats", call_chats),
    ("claude", call_claude),
    ("gemini", call_gemini),
]


@pytest.mark.parametrize(("model", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_tool_call_is_answered_though_nothing_is_stored(
    client: openai.OpenAI, upstream: Upstream, model: str, call: Callable[[], Answer]
) -> None:
    fields: dict[str, Any] = {"model": model, "store": False, "tools": [TOOL]}
    upstream.script(call())
    with client.responses.connect() as connection:
        first = create(connection, input="What is the weather in Oslo?", **fields).response
        (called,) = first.output
        assert (called.type, called.name, json.loads(called.arguments)) == (
            "function_call",
            "weather",
            {"city": "Oslo"},
        )
        upstream.script(call())
        output = {"type": "function_call_output", "call_id": called.call_id, "output": "7 degrees"}
        second = create(connection, input=[output], previous_response_id=first.id, **fields)
        assert second.type == "response.completed"
        assert second.response.previous_response_id == first.id
    sent = upstream.requests[1].body.decode()
    assert [sent.find(text) >= 0 for text in ("What is the weather in Oslo?", "Oslo", "7 degrees")] == [True] * 3
    assert sent.index("What is the weather") < sent.index("7 degrees")
    assert "previous_response_id" not in sent


def test_the_conversation_of_a_response_that_is_not_stored_is_sent_with_the_next(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}
    lost = {"type": "reasoning", "id": "rs_2", "summary": []}
    upstream.script(respond(response("one", reasoning, message("msg_1", "Hello"), store=False)))
    upstream.script(respond(response("two", lost, message("msg_2", "Again"), store=False)))
    upstream.script(respond(response("three", store=False)))
    fields: dict[str, Any] = {"model": "verbatim", "store": False}
    with client.responses.connect() as connection:
        one = create(connection, input="Hi", **fields).response
        two = create(connection, input=[NEXT], previous_response_id=one.id, **fields).response
        create(connection, input=[NEXT], previous_response_id=two.id, **fields)
    bodies = [request.json for request in upstream.requests]
    assert bodies[1]["input"] == [USER, reasoning, message("msg_1", "Hello"), NEXT]
    assert bodies[2]["input"] == [*bodies[1]["input"], message("msg_2", "Again"), NEXT], (
        "unreadable reasoning is left out"
    )
    assert all("previous_response_id" not in body for body in bodies)


@pytest.mark.parametrize(
    ("fields", "include"),
    [
        ({"store": False, "reasoning": {"effort": "low"}}, ["reasoning.encrypted_content"]),
        (
            {"store": False, "reasoning": {"effort": "low"}, "include": ["file_search_call.results"]},
            ["file_search_call.results", "reasoning.encrypted_content"],
        ),
        ({"store": False}, None),
        ({"store": False, "reasoning": {"effort": "none"}}, None),
        ({"reasoning": {"effort": "low"}}, None),
    ],
    ids=["reasoning", "other values", "no reasoning", "switched off", "stored"],
)
def test_encrypted_reasoning_is_requested_where_it_would_be_lost(
    client: openai.OpenAI, upstream: Upstream, fields: dict[str, Any], include: list[str] | None
) -> None:
    upstream.script(respond(response("made", store=fields.get("store", True))))
    with client.responses.connect() as connection:
        create(connection, model="verbatim", input="Hi", **fields)
    assert upstream.requests[0].json.get("include") == include


def test_a_stored_response_is_continued_by_its_id(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(respond(response("kept", store=True)), respond(response("next", store=True)))
    with client.responses.connect() as connection:
        first = create(connection, model="verbatim", input="Hi").response
        create(connection, model="verbatim", input="Go on", previous_response_id=first.id)
    second = upstream.requests[1].json
    assert (second["previous_response_id"], second["input"]) == ("resp_kept", "Go on")


def test_a_response_that_is_not_stored_continues_a_stored_one(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(respond(response("root", store=True)), respond(response("leaf", store=False)))
    upstream.script(respond(response("end", store=False)))
    with client.responses.connect() as connection:
        root = create(connection, model="verbatim", input="Hi").response
        leaf = create(connection, model="verbatim", input="Hi", store=False, previous_response_id=root.id).response
        create(connection, model="verbatim", input=[NEXT], store=False, previous_response_id=leaf.id)
    third = upstream.requests[2].json
    assert third["previous_response_id"] == "resp_root"
    assert third["input"] == [USER, message("msg_leaf", "text of leaf"), NEXT]


def test_a_stored_response_of_the_gateway_is_continued_over_http_and_back(client: openai.OpenAI) -> None:
    with client.responses.connect() as connection:
        first = create(connection, model="local-chat", input="Say hello").response
        second = client.responses.create(model="local-chat", input="And now?", previous_response_id=first.id)
        third = create(connection, model="local-chat", input="And then?", previous_response_id=second.id).response
    assert third.previous_response_id == second.id
    assert client.responses.retrieve(third.id).output_text == third.output_text


# Preparing a response


def test_a_prepared_response_is_continued_and_nothing_was_sent_for_it(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    fields: dict[str, Any] = {"model": "verbatim", "store": False, "tools": [TOOL], "instructions": "Be brief."}
    with client.responses.connect() as connection:
        events = create_all(connection, input=[USER], generate=False, **fields)
        assert [event.type for event in events] == ["response.created", "response.in_progress", "response.completed"]
        prepared = events[-1].response
        assert (prepared.output, prepared.status, prepared.usage.total_tokens) == ([], "completed", 0)
        assert not upstream.requests
        upstream.script(respond(response("made", store=False)))
        create(connection, input=[], previous_response_id=prepared.id, **fields)
        upstream.script(respond(response("later", store=False)))
        again = create(connection, input=[NEXT], previous_response_id="resp_made", generate=False, **fields).response
        create(connection, input=[NEXT], previous_response_id=again.id, **fields)
    bodies = [request.json for request in upstream.requests]
    assert bodies[0]["input"] == [USER]
    assert "generate" not in bodies[0]
    assert bodies[1]["input"] == [USER, message("msg_made", "text of made"), NEXT, NEXT]


def test_a_response_is_prepared_without_input(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(respond(response("made", store=True)))
    with client.responses.connect() as connection:
        prepared = create(connection, model="verbatim", generate=False).response
        create(connection, model="verbatim", input="Hi", previous_response_id=prepared.id)
        empty = create(connection, model="verbatim", generate=False).response
        refused = create(connection, model="verbatim", previous_response_id=empty.id)
    assert upstream.requests[0].json["input"] == [USER]
    assert (refused.type, refused.status, refused.error.param) == ("error", 400, "input")


@pytest.mark.parametrize("model", ["local-chat", "verbatim"])
def test_a_prepared_request_is_checked(client: openai.OpenAI, model: str) -> None:
    with client.responses.connect() as connection:
        unknown = create(connection, model="no-such-model", input="Hi", generate=False)
        wrong = create(connection, model=model, input="Hi", tools=[{"type": "function"}], generate=False)
    assert (unknown.status, unknown.error.code) == (404, "model_not_found")
    assert (wrong.status, wrong.error.param) == (400, "tools.0.name")


# Errors


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "no-such-model", "input": "Hi"}, 404, "model_not_found", "model"),
        ({"input": "Hi"}, 400, "missing_required_parameter", "model"),
        ({"model": "local-chat"}, 400, "missing_required_parameter", "input"),
        ({"model": "local-chat", "input": 5}, 400, "invalid_value", "input"),
        ({"model": "local-chat", "input": "Hi", "temperature": 9}, 400, "invalid_value", "temperature"),
        ({"model": "local-chat", "input": "Hi", "background": True}, 400, "unsupported_parameter", "background"),
        ({"model": "local-chat", "input": "Hi", "generate": 1}, 400, "invalid_value", "generate"),
        ({"model": "local-chat", "input": "Hi", "stream_id": ""}, 400, "invalid_stream_id", "stream_id"),
        ({"model": "local-chat", "input": "Hi", "stream_id": "a b"}, 400, "invalid_stream_id", "stream_id"),
        (
            {"model": "local-chat", "input": "Hi", "previous_response_id": "resp_x", "store": False},
            400,
            "previous_response_not_found",
            "previous_response_id",
        ),
    ],
    ids=lambda value: ",".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_an_error_is_a_message_and_the_connection_stays(
    client: openai.OpenAI, fields: dict[str, Any], status: int, code: str, param: str
) -> None:
    with client.responses.connect() as connection:
        send(connection, **fields)
        error = receive(connection)
        assert error.type == "error"
        assert (error.status, error.error.code, error.error.param) == (status, code, param)
        assert error.error.type
        assert error.error.message
        assert text_of(create(connection, model="local-chat", input="Say hello"))


def test_an_error_of_an_upstream_has_its_status_and_headers(client: openai.OpenAI, upstream: Upstream) -> None:
    busy = (
        '{"error": {"message": "Too fast.", "type": "rate_limit_error", "code": "rate_limit_exceeded", "param": null}}'
    )
    upstream.script(answer(busy, status=429, headers={"content-type": "application/json", "retry-after": "7"}))
    with client.responses.connect() as connection:
        error = create(connection, model="failing/busy", input="Hi", stream_id="main")
    assert (error.type, error.status, error.stream_id) == ("error", 429, "main")
    assert "Too fast." in error.error.message
    assert error.error.headers["retry-after"] == "7"
    assert error.to_dict()["headers"] == error.error.headers, "Codex reads them beside the error"
    assert error.error.headers["x-request-id"]


def test_an_upstream_that_breaks_off_ends_the_response_as_failed(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer_stream(events_of(response("cut", store=False))[0], Close()))
    with client.responses.connect() as connection:
        connection.response.create(model="failing/cut", input="Hi", store=False, stream_id="main")
        created, error, failed = receive(connection), receive(connection), receive(connection)
        assert (created.type, error.type, failed.type) == ("response.created", "error", "response.failed")
        assert (error.error.code, error.stream_id) == ("upstream_lost", "main")
        assert error.sequence_number == 1
        assert failed.response.status == "failed"


def test_paths_in_errors_count_the_items_of_the_message(client: openai.OpenAI) -> None:
    wrong: Any = [NEXT, {"type": "message", "role": "nobody", "content": "x"}]
    with client.responses.connect() as connection:
        first = create(connection, model="local-chat", input="Say hello", store=False).response
        error = create(connection, model="local-chat", input=wrong, store=False, previous_response_id=first.id)
    assert error.error.param == "input.1.role"
    assert "'input.1.role'" in error.error.message


def test_dropped_fields_are_listed_and_strict_requests_refused(gateway: Gateway, client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"model": "local-chat", "input": "Hi", "max_tool_calls": 3}
    with client.responses.connect() as connection:
        assert create_all(connection, **fields)[0].headers["x-gate-loss"] == "max_tool_calls"
    with client.responses.connect(extra_headers={"x-gate-strict": "1"}) as connection:
        error = create(connection, **fields)
    assert (error.status, error.error.code, error.error.param) == (400, "unsupported_parameter", "max_tool_calls")


def test_each_message_counts_as_a_request(gateway: Gateway) -> None:
    with client_of(gateway, f"slow-{KEY}") as slow, slow.responses.connect() as connection:
        first = create_all(connection, model="local-chat", input="Say hello")
        second = create(connection, model="local-chat", input="Say hello")
    assert first[0].headers["x-ratelimit-remaining-requests"] == "0"
    assert (second.status, second.error.code) == (429, "rate_limited")
    assert int(second.error.headers["retry-after"]) > 0


def test_a_key_is_limited_to_its_models(gateway: Gateway) -> None:
    with client_of(gateway, f"one-{KEY}") as limited, limited.responses.connect() as connection:
        assert create(connection, model="verbatim", input="Hi").error.code == "model_not_allowed"
        assert text_of(create(connection, model="local-chat", input="Say hello"))


def test_steering_is_refused_with_the_input(client: openai.OpenAI) -> None:
    with client.responses.connect() as connection:
        connection.response.steer(input="Stop that", previous_response_id="resp_1")
        failed = receive(connection)
    assert failed.type == "response.steer.failed"
    assert failed.error.code == "steering_not_supported"
    assert (failed.steer.input, failed.steer.previous_response_id) == ("Stop that", "resp_1")


def test_a_stream_without_its_end_frame_is_no_message(client: openai.OpenAI, upstream: Upstream) -> None:
    """Some compatible upstreams end a stream of responses with ``[DONE]``."""
    upstream.script(answer_stream("".join(events_of(response("made"))) + sse("[DONE]")))
    with client.responses.connect() as connection:
        create(connection, model="verbatim", input="Hi")
        assert create_all(connection, model="local-chat", input="Say hello")[0].type == "response.created"
