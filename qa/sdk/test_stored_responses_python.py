"""Responses that an upstream keeps, by openai-python: their owner uses them as at the vendor, at the provider that keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.support import stored_responses
from tests.support.gateway import Gateway
from tests.support.stored_responses import (
    FIRST,
    UPSTREAM_KEY,
    answer_stream,
    client_of,
    create,
    create_streamed,
    events_of,
    message,
    refer,
    render_conf,
    response,
    send,
)
from tests.support.upstream import Upstream, Wait, answer

gateway = stored_responses.gateway
owner = stored_responses.owner

CREATORS = [pytest.param(create, id="whole"), pytest.param(create_streamed, id="streamed")]


@pytest.mark.parametrize("make", CREATORS)
def test_owner_continues_a_response_at_the_provider_that_keeps_it(
    owner: openai.OpenAI, upstream: Upstream, make: Callable[..., Any]
) -> None:
    first = make(owner, upstream, f"continued-{make.__name__}")
    upstream.reset()
    upstream.script(answer(json.dumps(response("next"))))
    # The weights favour the other entry a million to one
    owner.responses.create(model="both", input="Go on", previous_response_id=first.id)
    (request,) = upstream.requests
    assert request.path == f"{FIRST}/responses"
    assert request.json["previous_response_id"] == first.id


def test_owner_uses_stored_responses_as_at_the_vendor(owner: openai.OpenAI, upstream: Upstream) -> None:
    made = create(owner, upstream, "whole-life")
    item = {"type": "message", "id": "msg_in", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    page = {"object": "list", "data": [item], "has_more": False, "first_id": "msg_in", "last_id": "msg_in"}
    deleted = {"id": made.id, "object": "response", "deleted": True}
    gone = answer('{"error": {"message": "Response with id not found.", "type": "invalid_request_error"}}', status=404)
    upstream.reset()
    upstream.script(
        answer(json.dumps(response("whole-life"))), answer(json.dumps(page)), answer(json.dumps(deleted)), gone
    )
    include: Any = ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert owner.responses.retrieve(made.id, include=include).output_text == "text of whole-life"
    (listed,) = owner.responses.input_items.list(made.id, limit=5, order="asc").data
    assert getattr(listed, "id", "") == "msg_in"
    owner.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        owner.responses.retrieve(made.id)
    sent = [(request.method, request.path) for request in upstream.requests]
    path = f"{FIRST}/responses/resp_whole-life"
    lists = "include%5B%5D=reasoning.encrypted_content&include%5B%5D=message.output_text.logprobs"
    assert sent == [("GET", f"{path}?{lists}"), ("GET", f"{path}/input_items?limit=5&order=asc"), ("DELETE", path)]
    assert all(request.headers["authorization"] == f"Bearer {UPSTREAM_KEY}" for request in upstream.requests)


def test_background_response_is_polled_streamed_and_cancelled(owner: openai.OpenAI, upstream: Upstream) -> None:
    name = "background"
    queued = response(name, status="queued", background=True, usage=None) | {"output": []}
    running = {**queued, "status": "in_progress"}
    done = response(name, background=True)
    cancelled = {**running, "status": "cancelled"}
    upstream.script(answer(json.dumps(queued)), answer(json.dumps(running)), answer(json.dumps(done)))
    made = owner.responses.create(model="one", input="Hi", background=True)
    assert made.status == "queued"
    assert owner.responses.retrieve(made.id).status == "in_progress"
    polled = owner.responses.with_raw_response.retrieve(made.id)
    assert polled.parse().output_text == "text of background"
    upstream.reset()
    upstream.script(answer_stream(events_of(done)[1]), answer(json.dumps(cancelled)))
    events = list(owner.responses.retrieve(made.id, stream=True, starting_after=0))
    assert [event.type for event in events] == ["response.completed"]
    assert owner.responses.cancel(made.id).status == "cancelled"
    sent = [(request.method, request.path) for request in upstream.requests]
    path = f"{FIRST}/responses/resp_background"
    assert sent == [("GET", f"{path}?stream=true&starting_after=0"), ("POST", f"{path}/cancel")]


def test_usage_of_a_background_response_is_counted_once(gateway: Gateway, upstream: Upstream) -> None:
    name = "metered"
    queued = response(name, status="queued", background=True, usage=None) | {"output": []}
    done = json.dumps(response(name, background=True))
    before = count_tokens(gateway)
    upstream.script(answer(json.dumps(queued)), answer(json.dumps(queued)), answer(done), answer(done), answer(done))
    assert send(gateway, "a", "POST", "/responses", refer(background=True)).status_code == 200
    for _ in range(4):
        assert send(gateway, "a", "GET", f"/responses/resp_{name}").status_code == 200
    assert count_tokens(gateway) == before + 3


def count_tokens(gateway: Gateway) -> float:
    """All tokens that the gateway has counted, of requests and of responses."""
    text = httpx2.get(f"{gateway.url}/metrics", timeout=20).text
    return sum(
        float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("tornado_gate_tokens_total")
    )


def test_streamed_response_may_be_continued_when_its_last_event_arrives(
    owner: openai.OpenAI, upstream: Upstream
) -> None:
    first, last = events_of(response("at-once"))
    upstream.script(answer_stream(first, last, Wait("end of the stream")), answer(json.dumps(response("after"))))
    stream = owner.responses.create(model="one", input="Hi", stream=True)
    for event in stream:
        if event.type == "response.completed":
            break
    assert owner.responses.create(model="one", input="On", previous_response_id="resp_at-once").id == "resp_after"
    upstream.tell("end of the stream")
    stream.close()


def test_interrupted_stream_leaves_a_response_that_its_owner_can_delete(
    owner: openai.OpenAI, upstream: Upstream
) -> None:
    first, _ = events_of(response("interrupted"))
    deleted = {"id": "resp_interrupted", "object": "response", "deleted": True}
    upstream.script(answer_stream(first, Wait("never")))
    stream = owner.responses.create(model="one", input="Hi", stream=True)
    assert next(iter(stream)).type == "response.created"
    stream.close()
    upstream.wait_until_closed(len(upstream.requests) - 1)
    upstream.script(answer(json.dumps(deleted)))
    wait_until(lambda: delete(owner, "resp_interrupted"))


def delete(client: openai.OpenAI, response_id: str) -> bool:
    try:
        client.responses.delete(response_id)
    except openai.NotFoundError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when `condition` is true. The gateway may see later than the upstream that its caller has disconnected."""
    for _ in range(1000):
        if condition():
            return
    raise AssertionError("the condition did not become true")


def test_a_client_that_stores_nothing_sends_its_own_items_back(owner: openai.OpenAI, upstream: Upstream) -> None:
    items = (
        {"type": "web_search_call", "id": "ws_unstored", "status": "completed"},
        {"type": "reasoning", "id": "rs_unstored", "summary": [], "encrypted_content": "abc"},
        message("msg_unstored", "Hello"),
    )
    upstream.script(
        answer(json.dumps(response("unstored", *items, store=False))), answer(json.dumps(response("again")))
    )
    first = owner.responses.create(model="one", input="Hi", store=False)
    turn: Any = [{"role": "user", "content": "Hi"}, *items, {"role": "user", "content": "On"}]
    assert owner.responses.create(model="one", input=turn, store=False).id == "resp_again"
    with pytest.raises(openai.BadRequestError):
        owner.responses.create(model="one", input="On", previous_response_id=first.id)


def test_a_model_of_another_provider_cannot_continue_a_response_without_a_copy(
    upstream: Upstream, tmp_path: Path
) -> None:
    gateway = Gateway.start(render_conf(upstream.url, "responses: {copies: false}\n"), tmp_path)
    try:
        with client_of(gateway, "a") as owner:
            made = create(owner, upstream, "elsewhere")
            upstream.reset()
            with pytest.raises(openai.BadRequestError, match="Use the model 'one'") as caught:
                owner.responses.create(model="two", input="On", previous_response_id=made.id)
    finally:
        gateway.stop()
    assert (caught.value.code, caught.value.param) == ("object_kept_elsewhere", "previous_response_id")
    assert upstream.requests == []


def test_an_upstreams_error_does_not_show_its_key(owner: openai.OpenAI, upstream: Upstream) -> None:
    made = create(owner, upstream, "masked")
    upstream.script(answer(json.dumps(response("masked", metadata={"leak": UPSTREAM_KEY}))))
    assert UPSTREAM_KEY not in owner.responses.with_raw_response.retrieve(made.id).text


# Processes and restarts


def test_ownership_survives_a_kill_and_is_shared_by_processes(upstream: Upstream, tmp_path: Path) -> None:
    conf = render_conf(upstream.url, "server: {processes: 2}\n")
    gateway = Gateway.start(conf, tmp_path)
    with client_of(gateway, "a") as owner:
        made = create(owner, upstream, "durable")
    check_ownership(gateway, upstream, made.id, times=8)  # new connections reach both processes
    gateway.child.kill()
    again = Gateway.start(conf, tmp_path)
    try:
        check_ownership(again, upstream, made.id, times=2)
    finally:
        again.stop()


def check_ownership(gateway: Gateway, upstream: Upstream, response_id: str, times: int) -> None:
    for _ in range(times):
        upstream.script(answer(json.dumps(response("durable"))))
        assert send(gateway, "a", "GET", f"/responses/{response_id}").json()["id"] == response_id
        assert send(gateway, "b", "GET", f"/responses/{response_id}").status_code == 404


def test_a_removed_provider_is_named_as_the_cause(upstream: Upstream, tmp_path: Path) -> None:
    conf = render_conf(upstream.url)
    gateway = Gateway.start(conf, tmp_path)
    with client_of(gateway, "a") as owner:
        made = create(owner, upstream, "orphan", model="two")
    gateway.stop()
    lines = [line for line in conf.splitlines() if "second" not in line and "both" not in line]
    again = Gateway.start("\n".join(lines), tmp_path)
    try:
        found = send(again, "a", "GET", f"/responses/{made.id}")
        assert (found.status_code, found.json()["error"]["code"]) == (404, "provider_removed")
        assert send(again, "b", "GET", f"/responses/{made.id}").json()["error"]["code"] == "response_not_found"
    finally:
        again.stop()
