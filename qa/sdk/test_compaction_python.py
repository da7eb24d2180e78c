"""Compactions of conversations by openai-python: forwarded to upstreams that have them, written by the model elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from qa.sdk.stateful_gateway import (
    COMPACTED,
    TRANSLATED,
    UPSTREAM_KEY,
    asked,
    client_of,
    make_answer,
    render_conf,
    send,
    serve,
)
from tests.support.gateway import Gateway
from tests.support.lanes import generated, message_start
from tests.support.scripts import chunk, usage_chunk
from tests.support.stored_responses import answer_stream, response
from tests.support.upstream import DONE, Pause, Upstream, answer, sse

SUMMARY = "Bob wants a red fox. We agreed on oil paint."
CALLS: Any = [
    {"type": "message", "role": "user", "content": "I am Bob. Paint a fox."},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Foxes are red."}],
        "encrypted_content": "abc",
    },
    {"type": "function_call", "call_id": "c1", "name": "get_paint", "arguments": '{"kind": "oil"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "there is oil paint"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin Patch"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "patched"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here it is."}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "In oil, please."}]},
]


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(upstream_process, tmp_path_factory.mktemp("compaction")) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as made:
        yield made


STOP_BLOCK = {"type": "content_block_stop", "index": 0}


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def claude_event(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def plain(items: Any) -> Any:
    """The items of a response as a client sends them back."""
    return [json.loads(item.model_dump_json(exclude_unset=True, warnings=False)) for item in items]


# Forwarded


def test_an_upstream_with_the_route_gets_the_request_unchanged(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(COMPACTED)))
    found = client.responses.with_raw_response.compact(
        model="vendor", input=CALLS, instructions="Be brief.", prompt_cache_key="k"
    )
    (request,) = upstream.requests
    assert request.path == "/vendor/v1/responses/compact"
    assert request.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    sent = {"model": "up-vendor", "input": CALLS, "instructions": "Be brief.", "prompt_cache_key": "k"}
    assert request.json == sent
    assert json.loads(found.text) == COMPACTED
    assert found.headers["x-gate-provider"] == "vendor"


def test_usage_of_a_forwarded_compaction_is_counted(
    gateway: Gateway, client: openai.OpenAI, upstream: Upstream
) -> None:
    before = count_tokens(gateway)
    upstream.script(answer(json.dumps(COMPACTED)))
    client.responses.compact(model="vendor", input="Hi")
    assert count_tokens(gateway) == before + 45


def count_tokens(gateway: Gateway) -> float:
    text = httpx2.get(f"{gateway.url}/metrics", timeout=20).text
    lines = [line for line in text.splitlines() if line.startswith("tornado_gate_tokens_total")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_a_compaction_of_the_vendor_comes_back_to_the_vendor_unchanged(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    upstream.script(answer(json.dumps(COMPACTED)), answer(json.dumps(response("on"))))
    compacted = client.responses.compact(model="vendor", input="I am Bob.")
    window: Any = [*plain(compacted.output), {"role": "user", "content": "Go on"}]
    client.responses.create(model="vendor", input=window)
    assert upstream.requests[1].json["input"] == window


def test_only_the_owner_can_compact_a_response_that_an_upstream_keeps(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(response("owned"))), answer(json.dumps(COMPACTED)))
    assert send(gateway, "a", "POST", "/responses", {"model": "vendor", "input": "Hi"}).status_code == 200
    body = {"model": "vendor", "previous_response_id": "resp_owned"}
    theirs = send(gateway, "b", "POST", "/responses/compact", body)
    unknown = send(gateway, "b", "POST", "/responses/compact", {**body, "previous_response_id": "resp_nobod"})
    assert theirs.json()["error"]["code"] == unknown.json()["error"]["code"] == "previous_response_not_found"
    assert len(upstream.requests) == 1
    assert send(gateway, "a", "POST", "/responses/compact", body).status_code == 200
    assert upstream.requests[1].json == {"model": "up-vendor", "previous_response_id": "resp_owned"}


def test_the_vendors_refusal_is_passed_on(client: openai.OpenAI, upstream: Upstream) -> None:
    error = {"message": "This model cannot compact.", "type": "invalid_request_error", "param": "model", "code": None}
    upstream.script(answer(json.dumps({"error": error}), status=400))
    with pytest.raises(openai.BadRequestError, match="This model cannot compact"):
        client.responses.compact(model="vendor", input="Hi")


def test_a_compaction_may_take_longer_than_the_first_event_of_other_responses(
    upstream: Upstream, tmp_path: Path
) -> None:
    conf = render_conf(upstream.url).replace(
        "    compact: true\n", "    compact: true\n    timeouts: {first_event: 0.5}\n"
    )
    gateway = Gateway.start(conf, tmp_path)
    try:
        upstream.script(answer(Pause(1), json.dumps(COMPACTED)), answer(Pause(1), json.dumps(response("late"))))
        body = {"model": "vendor", "input": "Hi"}
        assert send(gateway, "a", "POST", "/responses/compact", body).json() == COMPACTED
        assert send(gateway, "a", "POST", "/responses", body).json()["error"]["code"] == "upstream_timeout"
    finally:
        gateway.stop()


# Written by the model


@pytest.mark.parametrize("model", TRANSLATED)
def test_a_model_without_the_route_writes_a_summary(client: openai.OpenAI, upstream: Upstream, model: str) -> None:
    upstream.script(make_answer(model, SUMMARY), make_answer(model, "A red fox."))
    compacted = client.responses.compact(model=model, input=CALLS, instructions="You are a painter.")
    assert compacted.object == "response.compaction"
    assert (compacted.usage.input_tokens, compacted.usage.output_tokens) == (9, 4)
    *kept, item = plain(compacted.output)
    assert [(one["role"], one["content"][0]["text"]) for one in kept] == [
        ("user", "I am Bob. Paint a fox."),
        ("user", "In oil, please."),
    ]
    assert (item["type"], item["id"][:4]) == ("compaction", "cmp_")
    question = asked(model, upstream.requests[0].json)
    for piece in (
        "You are a painter",
        "I am Bob",
        "Foxes are red",
        "get_paint",
        "there is oil",
        "*** Begin Patch",
        "patched",
    ):
        assert piece in question, piece
    assert "tools" not in upstream.requests[0].json
    assert question.index("In oil, please") < question.index("will be replaced by a summary")

    window: Any = [*kept, item, {"role": "user", "content": "Which colour?"}]
    assert client.responses.create(model=model, input=window).output_text == "A red fox."
    question = asked(model, upstream.requests[1].json)
    assert question.index("In oil, please") < question.index(SUMMARY) < question.index("Which colour?")
    assert "get_paint" not in question


def test_a_response_that_only_its_upstream_keeps_cannot_be_compacted_without_the_route(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.script(answer(json.dumps(response("bare"))))
    with serve(upstream, tmp_path, "responses: {copies: false}\n") as gateway:
        assert send(gateway, "a", "POST", "/responses", {"model": "bare", "input": "Hi"}).status_code == 200
        for route in ("compact", "input_tokens"):
            body = {"model": "bare", "previous_response_id": "resp_bare"}
            found = send(gateway, "a", "POST", f"/responses/{route}", body)
            assert (found.status_code, found.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert len(upstream.requests) == 1


def test_a_fallback_writes_the_summary_when_the_upstream_with_the_route_fails(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    upstream.script(answer('{"error": {"message": "busy"}}', status=503), make_answer("claude", SUMMARY))
    compacted = client.responses.with_raw_response.compact(model="fallback", input=CALLS)
    assert compacted.headers["x-gate-provider"] == "claude"
    assert [item["type"] for item in plain(compacted.parse().output)] == ["message", "message", "compaction"]


def test_a_service_tier_without_effect_is_no_loss(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer("claude", SUMMARY))
    found = client.responses.with_raw_response.compact(model="claude", input="Hi", service_tier="auto")
    assert "x-gate-loss" not in found.headers


@pytest.mark.parametrize("model", TRANSLATED)
def test_a_summary_is_streamed_by_the_upstream(client: openai.OpenAI, upstream: Upstream, model: str) -> None:
    """Because a whole response may take no longer than ``timeouts.first_event`` until its first bytes."""
    events: dict[str, list[Any]] = {
        "chats": [
            chunk(role="assistant", content="The "),
            chunk(content="fox."),
            chunk(reason="stop"),
            usage_chunk(),
            DONE,
        ],
        "gemini": [generated("The ", None), generated("fox.")],
    }
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}
    claude = [
        message_start("The "),
        "".join(map(claude_event, (text_delta("fox."), STOP_BLOCK, stop, {"type": "message_stop"}))),
    ]
    upstream.script(answer_stream(*(claude if model == "claude" else [sse(one) for one in events[model]])))
    compacted = client.responses.compact(model=model, input="I am Bob.")
    assert compacted.usage.output_tokens == 4
    (request,) = upstream.requests
    assert request.json.get("stream") is True or ":streamGenerateContent" in request.path
    upstream.script(answer(json.dumps(response("read"))))
    client.responses.create(model="vendor", input=plain(compacted.output))
    assert "The fox." in json.dumps(upstream.requests[1].json)


def test_a_summary_is_read_by_every_other_model(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer("claude", SUMMARY), answer(json.dumps(response("on"))), make_answer("gemini", "Yes."))
    compacted = client.responses.compact(model="claude", input=CALLS)
    window: Any = [*plain(compacted.output), {"role": "user", "content": "Go on"}]
    client.responses.create(model="vendor", input=window)
    sent = upstream.requests[1].json["input"]
    assert [item["type"] for item in sent[:3]] == ["message"] * 3
    assert SUMMARY in sent[2]["content"][0]["text"]
    assert "encrypted_content" not in json.dumps(sent)
    client.responses.create(model="gemini", input=window)
    assert SUMMARY in asked("gemini", upstream.requests[2].json)


def test_a_kept_conversation_is_compacted_by_its_id(
    gateway: Gateway, client: openai.OpenAI, upstream: Upstream
) -> None:
    upstream.script(make_answer("chats", "Nice to meet you."), make_answer("claude", SUMMARY))
    first = client.responses.create(model="chats", input="I am Bob.")
    body = {"model": "claude", "previous_response_id": first.id}
    theirs = send(gateway, "b", "POST", "/responses/compact", body)
    assert (theirs.status_code, theirs.json()["error"]["code"]) == (400, "previous_response_not_found")
    compacted = client.responses.compact(model="claude", previous_response_id=first.id)
    question = asked("claude", upstream.requests[1].json)
    assert question.index("I am Bob.") < question.index("Nice to meet you.")
    assert [item["type"] for item in plain(compacted.output)] == ["message", "compaction"]


def test_a_compaction_is_compacted_again(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer("claude", SUMMARY), make_answer("claude", "Shorter."))
    first = client.responses.compact(model="claude", input="I am Bob.")
    second = client.responses.compact(model="claude", input=plain(first.output))
    assert SUMMARY in asked("claude", upstream.requests[1].json)
    assert [item["type"] for item in plain(second.output)] == ["message", "compaction"]


@pytest.mark.parametrize("model", TRANSLATED)
@pytest.mark.parametrize("stream", [False, True])
def test_a_trigger_in_the_input_makes_exactly_one_compaction_item(
    client: openai.OpenAI, upstream: Upstream, model: str, stream: bool
) -> None:
    """As Codex compacts with ``remote_compaction_v2``."""
    tools: Any = [{"type": "function", "name": "get_paint", "parameters": {"type": "object"}, "strict": False}]
    trigger: Any = [*CALLS, {"type": "compaction_trigger"}]
    upstream.script(make_answer(model, SUMMARY), make_answer(model, "A red fox."))
    if stream:
        events = list(client.responses.create(model=model, input=trigger, tools=tools, stream=True, store=False))
        items = [event.item for event in events if event.type == "response.output_item.done"]
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.usage is not None
        assert last.response.usage.total_tokens == 13
        assert plain(last.response.output) == plain(items)
    else:
        items = client.responses.create(model=model, input=trigger, tools=tools, store=False).output
    assert [item.type for item in items] == ["compaction"]
    assert "tools" not in upstream.requests[0].json
    window: Any = [*plain(items), {"role": "user", "content": "Which colour?"}]
    client.responses.create(model=model, input=window)
    assert SUMMARY in asked(model, upstream.requests[1].json)


def test_a_compacted_response_is_continued_by_its_id(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(make_answer("claude", SUMMARY), make_answer("claude", "A red fox."))
    trigger: Any = [*CALLS, {"type": "compaction_trigger"}]
    compacted = client.responses.create(model="claude", input=trigger)
    assert plain(client.responses.retrieve(compacted.id).output) == plain(compacted.output)
    client.responses.create(model="claude", input="Which colour?", previous_response_id=compacted.id)
    question = asked("claude", upstream.requests[1].json)
    assert SUMMARY in question
    assert "get_paint" not in question


def test_a_trigger_is_left_to_an_upstream_with_responses(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(
        answer(json.dumps(response("triggered", {"id": "cmp_1", "type": "compaction", "encrypted_content": "x"})))
    )
    trigger: Any = [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]
    assert client.responses.create(model="vendor", input=trigger).output[0].type == "compaction"
    assert upstream.requests[0].json["input"] == trigger


@pytest.mark.parametrize("model", ["chats", "claude"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_without_a_summary_is_an_error(
    gateway: Gateway, upstream: Upstream, model: str, stream: bool
) -> None:
    upstream.script(make_answer(model, ""))
    items = [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]
    body = {"model": model, "input": items, "stream": True} if stream else {"model": model, "input": "Hi"}
    found = send(gateway, "a", "POST", "/responses" if stream else "/responses/compact", body)
    if stream:
        assert "response.completed" not in found.text
        assert "wrote no complete summary" in found.text
    else:
        assert (found.status_code, found.json()["error"]["code"]) == (502, "upstream_response_failed")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "claude"}, "input"),
        ({"model": "vendor"}, "input"),
        ({"model": "claude", "input": 5}, "input"),
        ({"model": "claude", "input": "Hi", "stream": True}, "stream"),
        (
            {"model": "claude", "input": "Hi", "previous_response_id": "resp_x", "conversation": "conv_x"},
            "previous_response_id",
        ),
        (
            {"model": "claude", "input": [{"type": "compaction", "encrypted_content": "tornado-gate.summary.1.e30="}]},
            "input.0.encrypted_content",
        ),
        (
            {"model": "claude", "input": [{"type": "compaction", "encrypted_content": "tornado-gate.summary.1.%%%"}]},
            "input.0.encrypted_content",
        ),
    ],
)
def test_a_wrong_body_is_a_400_that_names_the_field(
    gateway: Gateway, upstream: Upstream, body: dict[str, Any], param: str
) -> None:
    found = send(gateway, "a", "POST", "/responses/compact", body)
    assert (found.status_code, found.json()["error"]["param"]) == (400, param)
    assert upstream.requests == []


def test_the_embedded_model_compacts_too(client: openai.OpenAI) -> None:
    compacted = client.responses.compact(model="local", input="I am Bob.")
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    window: Any = [*plain(compacted.output), {"role": "user", "content": "Go on"}]
    assert client.responses.create(model="local", input=window).output_text
