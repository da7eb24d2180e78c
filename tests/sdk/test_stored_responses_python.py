"""Responses that an upstream keeps, by openai-python: only the account that got an id may use it, on every route."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Upstream, Wait, answer

FIRST = "/first/v1"
"""The path of the provider entry `first`."""
KEYS = {"a": "test-key-of-account-a", "b": "test-key-of-account-b"}
UPSTREAM_KEY = "upstream-key-0123456789"
CONF = """
plugins: {{openai: true}}
providers:
  first: {{plugin: openai, base_url: "{url}/first", api_key: "{key}", responses: true}}
  second: {{plugin: openai, base_url: "{url}/second", api_key: "{key}", responses: true}}
  shared: {{plugin: openai, base_url: "{url}/shared", api_key: "{key}", responses: true, shared_objects: [all]}}
models:
  one: {{provider: first}}
  two: {{provider: second}}
  both: {{targets: [{{provider: first, weight: 1}}, {{provider: second, weight: 1000000}}]}}
  shared: {{provider: shared}}
keys:
  - {{name: a, key: "{a}"}}
  - {{name: b, key: "{b}"}}
"""


def render_conf(url: str, more: str = "") -> str:
    return CONF.format(url=url, key=UPSTREAM_KEY, **KEYS) + more


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(render_conf(upstream_process.url), tmp_path_factory.mktemp("stored"))
    yield started
    started.stop()


def client_of(gateway: Gateway, account: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEYS[account], max_retries=0, timeout=20)


@pytest.fixture
def owner(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as client:
        yield client


@pytest.fixture
def stranger(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "b") as client:
        yield client


def message(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def response(name: str, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A response of the upstream with the id ``resp_NAME``."""
    output = items or (message(f"msg_{name}", f"text of {name}"),)
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": "up",
        "output": list(output),
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def events_of(body: dict[str, Any]) -> tuple[str, str]:
    """The frames of a streamed response: the first, and the last."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    created = {"type": "response.created", "sequence_number": 0, "response": begun}
    completed = {"type": "response.completed", "sequence_number": 1, "response": body}
    first, last = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in (created, completed))
    return first, last


def answer_stream(*frames: Any) -> Answer:
    return answer(*frames, headers={"content-type": "text/event-stream"})


def create(client: openai.OpenAI, upstream: Upstream, name: str, model: str = "one", **fields: Any) -> Any:
    """Create the response ``resp_NAME`` at the upstream."""
    upstream.script(answer(json.dumps(response(name))))
    return client.responses.create(model=model, input="Hi", **fields)


def create_streamed(client: openai.OpenAI, upstream: Upstream, name: str, model: str = "one") -> Any:
    upstream.script(answer_stream(*events_of(response(name))))
    *_, last = client.responses.create(model=model, input="Hi", stream=True)
    assert last.type == "response.completed"
    return last.response


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


# Strangers


def refer(**fields: Any) -> dict[str, Any]:
    return {"model": "one", "input": "Hi", **fields}


def in_input(item: dict[str, Any]) -> dict[str, Any]:
    return refer(input=[{"role": "user", "content": "Hi"}, item])


def in_tool(**tool: Any) -> dict[str, Any]:
    return refer(tools=[tool])


def in_chat(part: dict[str, Any]) -> dict[str, Any]:
    return {"model": "one", "messages": [{"role": "user", "content": [part]}]}


BODIES: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "previous_response_id": ("/responses", lambda name: refer(previous_response_id=f"resp_{name}")),
    "item_reference": ("/responses", lambda name: in_input({"type": "item_reference", "id": f"msg_{name}"})),
    "item_reference_without_type": ("/responses", lambda name: in_input({"id": f"msg_{name}"})),
    "reasoning": ("/responses", lambda name: in_input({"type": "reasoning", "id": f"rs_{name}", "summary": []})),
    "image": ("/responses", lambda name: in_input({"type": "image_generation_call", "id": f"ig_{name}"})),
    "conversation": ("/responses", lambda name: refer(conversation=f"conv_{name}")),
    "conversation_object": ("/responses", lambda name: refer(conversation={"id": f"conv_{name}"})),
    "prompt": ("/responses", lambda name: refer(prompt={"id": f"pmpt_{name}"})),
    "prompt_variable": (
        "/responses",
        lambda name: refer(prompt={"id": "", "variables": {"f": {"type": "input_file", "file_id": f"file-{name}"}}}),
    ),
    "input_file": (
        "/responses",
        lambda name: in_input({"role": "user", "content": [{"type": "input_file", "file_id": f"file-{name}"}]}),
    ),
    "input_image": (
        "/responses",
        lambda name: in_input({"role": "user", "content": [{"type": "input_image", "file_id": f"file-{name}"}]}),
    ),
    "tool_output": (
        "/responses",
        lambda name: in_input(
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_file", "file_id": f"file-{name}"}],
            }
        ),
    ),
    "file_search": ("/responses", lambda name: in_tool(type="file_search", vector_store_ids=[f"vs_{name}"])),
    "container": ("/responses", lambda name: in_tool(type="code_interpreter", container=f"cntr_{name}")),
    "container_files": (
        "/responses",
        lambda name: in_tool(type="code_interpreter", container={"type": "auto", "file_ids": [f"file-{name}"]}),
    ),
    "mask": ("/responses", lambda name: in_tool(type="image_generation", input_image_mask={"file_id": f"file-{name}"})),
    "shell": (
        "/responses",
        lambda name: in_tool(type="shell", environment={"type": "container_reference", "container_id": f"cntr_{name}"}),
    ),
    "skill": (
        "/responses",
        lambda name: in_tool(
            type="shell",
            environment={
                "type": "container_auto",
                "skills": [{"type": "skill_reference", "skill_id": f"skill_{name}"}],
            },
        ),
    ),
    "chat_file": ("/chat/completions", lambda name: in_chat({"type": "file", "file": {"file_id": f"file-{name}"}})),
    "chat_audio": (
        "/chat/completions",
        lambda name: {"model": "one", "messages": [{"role": "assistant", "audio": {"id": f"audio_{name}"}}]},
    ),
    "image_edit": (
        "/images/edits",
        lambda name: {"model": "one", "prompt": "x", "images": [{"file_id": f"file-{name}"}]},
    ),
}
ROUTES: dict[str, tuple[str, str]] = {
    "retrieve": ("GET", "/responses/resp_{}"),
    "stream": ("GET", "/responses/resp_{}?stream=true"),
    "input_items": ("GET", "/responses/resp_{}/input_items"),
    "cancel": ("POST", "/responses/resp_{}/cancel"),
    "delete": ("DELETE", "/responses/resp_{}"),
}
SECRET = "owned"
UNKNOWN = "nixda"  # of the same length


@pytest.fixture
def owned(owner: openai.OpenAI, upstream: Upstream) -> str:
    """The name in the ids of a response that account A owns, with every kind of object."""
    items = (
        message(f"msg_{SECRET}", "the secret of A"),
        {"type": "reasoning", "id": f"rs_{SECRET}", "summary": []},
        {"type": "image_generation_call", "id": f"ig_{SECRET}", "status": "completed", "result": "aGk="},
        {
            "type": "code_interpreter_call",
            "id": f"ci_{SECRET}",
            "container_id": f"cntr_{SECRET}",
            "status": "completed",
        },
    )
    upstream.script(answer(json.dumps(response(SECRET, *items))))
    assert owner.responses.create(model="one", input="Hi").id == f"resp_{SECRET}"
    upstream.reset()
    return SECRET


def send(gateway: Gateway, account: str, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEYS[account]}", "x-request-id": "same"}
    return httpx2.request(method, f"{gateway.url}/v1{path}", headers=headers, json=body, timeout=20)


def visible(found: httpx2.Response, name: str) -> tuple[int, dict[str, str], str]:
    """All that a caller sees of a response, with the name in its ids replaced."""
    headers = {key: value for key, value in found.headers.items() if key != "date"}
    return found.status_code, headers, found.text.replace(name, "NAME")


@pytest.mark.parametrize("case", BODIES)
def test_stranger_cannot_tell_an_owned_id_from_an_unknown_one(
    gateway: Gateway, upstream: Upstream, owned: str, case: str
) -> None:
    path, render = BODIES[case]
    theirs = send(gateway, "b", "POST", path, render(owned))
    nobodys = send(gateway, "b", "POST", path, render(UNKNOWN))
    assert visible(theirs, owned) == visible(nobodys, UNKNOWN)
    assert theirs.status_code in (400, 404)
    assert theirs.json()["error"]["code"].endswith(("_not_found", "_not_supported"))
    assert upstream.requests == []


@pytest.mark.parametrize("case", ROUTES)
def test_stranger_cannot_reach_a_stored_response(gateway: Gateway, upstream: Upstream, owned: str, case: str) -> None:
    method, path = ROUTES[case]
    theirs, nobodys = (send(gateway, "b", method, path.format(name)) for name in (owned, UNKNOWN))
    assert visible(theirs, owned) == visible(nobodys, UNKNOWN)
    assert theirs.status_code == 404
    assert upstream.requests == []
    upstream.script(answer(json.dumps(response(owned))))
    assert send(gateway, "a", "GET", f"/responses/resp_{owned}").status_code == 200  # it is still there


@pytest.mark.parametrize("case", ["previous_response_id", "item_reference", "reasoning", "image", "container"])
def test_owner_may_use_every_object_of_the_response(
    gateway: Gateway, upstream: Upstream, owned: str, case: str
) -> None:
    path, render = BODIES[case]
    upstream.script(answer(json.dumps(response("mine"))))
    assert send(gateway, "a", "POST", path, render(owned)).status_code == 200
    assert upstream.requests[0].json == render(owned)


def test_an_id_is_refused_before_the_vendors_error_says_more(gateway: Gateway) -> None:
    error = send(gateway, "b", "POST", "/responses", refer(previous_response_id="resp_x")).json()["error"]
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize("name", ["previous\\u005fresponse\\u005fid", "previous_response_id"])
def test_an_escaped_name_is_no_way_around(gateway: Gateway, upstream: Upstream, owned: str, name: str) -> None:
    raw = b'{"model": "one", "input": "Hi", "%b": "resp_%b"}' % (name.encode(), owned.encode())
    headers = {"authorization": f"Bearer {KEYS['b']}", "content-type": "application/json"}
    found = httpx2.post(f"{gateway.url}/v1/responses", content=raw, headers=headers, timeout=20)
    assert found.json()["error"]["code"] == "previous_response_not_found"
    assert upstream.requests == []


def test_shared_objects_may_be_named_by_everyone(gateway: Gateway, upstream: Upstream) -> None:
    for case, (path, render) in BODIES.items():
        if path == "/responses":
            upstream.reset()
            upstream.script(answer(json.dumps(response("of-shared"))))
            body = {**render(UNKNOWN), "model": "shared"}
            assert send(gateway, "b", "POST", path, body).status_code == 200, case
            assert upstream.requests[0].json == body


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


def test_a_model_of_another_provider_cannot_continue_a_response(owner: openai.OpenAI, upstream: Upstream) -> None:
    made = create(owner, upstream, "elsewhere")
    upstream.reset()
    with pytest.raises(openai.BadRequestError, match="Use the model 'one'") as caught:
        owner.responses.create(model="two", input="On", previous_response_id=made.id)
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
