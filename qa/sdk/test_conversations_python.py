"""Conversations by openai-python: kept by the gateway, continued at every model, and private to their account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from qa.sdk.stateful_gateway import COMPACTED, KEYS, TRANSLATED, asked, client_of, make_answer, render_conf, send, serve
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.stored_responses import answer_stream, events_of, message, response
from tests.support.upstream import Upstream, answer

REASONING: Any = {"type": "reasoning", "id": "rs_x", "summary": []}
SEARCH: Any = {
    "type": "web_search_call",
    "id": "ws_x",
    "status": "completed",
    "action": {"type": "search", "query": "fox"},
}


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(upstream_process, tmp_path_factory.mktemp("conversations")) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as made:
        yield made


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def texts(client: openai.OpenAI, conversation_id: str) -> list[str]:
    """The texts of the messages of a conversation, oldest first."""
    listed = client.conversations.items.list(conversation_id, order="asc", limit=100)
    return [item.content[0].text for item in listed if item.type == "message"]  # type: ignore[union-attr]


# The objects


def test_a_conversation_is_made_changed_and_deleted(client: openai.OpenAI, upstream: Upstream) -> None:
    made = client.conversations.create(metadata={"topic": "foxes"}, items=[user("Hi")])
    assert (made.object, made.id[:5], made.metadata) == ("conversation", "conv_", {"topic": "foxes"})
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "bears"})
    assert (changed.id, changed.created_at, changed.metadata) == (made.id, made.created_at, {"topic": "bears"})
    assert client.conversations.retrieve(made.id) == changed
    assert texts(client, made.id) == ["Hi"]
    deleted = client.conversations.delete(made.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (made.id, "conversation.deleted", True)
    for ask in (client.conversations.retrieve, client.conversations.delete, client.conversations.items.list):
        with pytest.raises(openai.NotFoundError) as caught:
            ask(made.id)
        assert (caught.value.code, caught.value.param) == ("conversation_not_found", "conversation_id")
    assert upstream.requests == []


def test_a_conversation_may_be_made_of_nothing(gateway: Gateway, client: openai.OpenAI) -> None:
    made = client.conversations.create()
    assert made.metadata == {}
    assert client.conversations.items.list(made.id).data == []
    assert send(gateway, "a", "POST", "/conversations").json()["object"] == "conversation"


def test_items_are_added_listed_in_pages_read_and_deleted(client: openai.OpenAI) -> None:
    conversation = client.conversations.create(items=[user("one")])
    call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said: Any = {"type": "message", "role": "assistant", "content": "two"}
    added = client.conversations.items.create(conversation.id, items=[said, call, user("three")])
    assert (added.object, added.has_more) == ("list", False)
    assert [item.type for item in added.data] == ["message", "function_call", "message"]
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    first = added.data[0]
    assert first.type == "message"
    assert (first.role, first.status, first.content[0].type) == ("assistant", "completed", "output_text")

    newest = client.conversations.items.list(conversation.id, limit=2)
    assert [item.id for item in newest.data] == [added.data[2].id, added.data[1].id]
    assert newest.has_more
    assert newest.get_next_page().data[0].id == added.data[0].id
    assert len(list(client.conversations.items.list(conversation.id, limit=1))) == 4
    assert texts(client, conversation.id) == ["one", "two", "three"]

    assert client.conversations.items.retrieve(str(first.id), conversation_id=conversation.id) == first
    assert client.conversations.items.delete(str(first.id), conversation_id=conversation.id) == conversation
    assert texts(client, conversation.id) == ["one", "three"]
    for ask in (client.conversations.items.retrieve, client.conversations.items.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            ask(str(first.id), conversation_id=conversation.id)
        assert caught.value.code == "item_not_found"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"items": "Hi"}, "items"),
        ("", {"items": [{"role": "user"}]}, "items.0.content"),
        ("", {"items": [user("x")] * 21}, "items"),
        ("", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items.0"),
        (
            "",
            {"items": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
            "items.0.content.0.file_id",
        ),
        ("", {"metadata": {"a": 1}}, "metadata.a"),
        ("", {"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ("", {"metadata": {"a": "x" * 513}}, "metadata.a"),
        ("/{id}", {}, "metadata"),
        ("/{id}/items", {}, "items"),
        ("/{id}/items", {"items": []}, "items"),
        ("/{id}/items?limit=0", None, "limit"),
    ],
)
def test_a_wrong_body_is_a_400_that_names_the_field(gateway: Gateway, path: str, body: Any, param: str) -> None:
    made = send(gateway, "a", "POST", "/conversations", {}).json()["id"]
    method = "GET" if body is None else "POST"
    found = send(gateway, "a", method, "/conversations" + path.format(id=made), body)
    assert (found.status_code, found.json()["error"]["param"]) == (400, param)


# Other accounts

ROUTES: dict[str, tuple[str, str, Any]] = {
    "retrieve": ("GET", "/conversations/{}", None),
    "update": ("POST", "/conversations/{}", {"metadata": {}}),
    "delete": ("DELETE", "/conversations/{}", None),
    "list": ("GET", "/conversations/{}/items", None),
    "add": ("POST", "/conversations/{}/items", {"items": [user("x")]}),
    "read": ("GET", "/conversations/{}/items/msg_x", None),
    "remove": ("DELETE", "/conversations/{}/items/msg_x", None),
    **{
        f"{route} {model}": ("POST", f"/responses{route}", {"model": model, "input": "Hi", "conversation": "{}"})
        for model in ("vendor", "claude", "local")
        for route in ("", "/compact", "/input_tokens")
    },
}


@pytest.mark.parametrize("case", ROUTES)
def test_a_stranger_cannot_tell_a_conversation_from_an_unknown_one(
    gateway: Gateway, client: openai.OpenAI, upstream: Upstream, case: str
) -> None:
    owned, unknown = client.conversations.create(items=[user("the secret of A")]).id, "conv_" + "0" * 32
    method, path, body = ROUTES[case]
    found = []
    for name in (owned, unknown):
        given = {key: name if value == "{}" else value for key, value in body.items()} if body else None
        answered = send(gateway, "b", method, path.format(name), given)
        headers = {key: value for key, value in answered.headers.items() if key != "date"}
        found.append((answered.status_code, headers, answered.text.replace(name, "NAME")))
    assert found[0] == found[1]
    assert found[0][0] == 404
    assert upstream.requests == []
    assert texts(client, owned) == ["the secret of A"]


# In responses


@pytest.mark.parametrize("model", TRANSLATED)
@pytest.mark.parametrize("stream", [False, True])
def test_a_response_continues_a_conversation_at_a_translated_model(
    client: openai.OpenAI, upstream: Upstream, model: str, stream: bool
) -> None:
    conversation = client.conversations.create(items=[user("I am Bob.")])
    upstream.script(make_answer(model, "Hello Bob."), make_answer(model, "You are Bob."))
    if stream:
        *_, last = client.responses.create(model=model, input="Hi", conversation=conversation.id, stream=True)
        assert last.type == "response.completed"
        made = last.response
    else:
        made = client.responses.create(model=model, input="Hi", conversation={"id": conversation.id})
    assert made.conversation is not None
    assert made.conversation.id == conversation.id
    assert texts(client, conversation.id) == ["I am Bob.", "Hi", "Hello Bob."]
    client.responses.create(model=model, input="Who am I?", conversation=conversation.id)
    question = asked(model, upstream.requests[1].json)
    places = [question.index(text) for text in ("I am Bob.", "Hi", "Hello Bob.", "Who am I?")]
    assert places == sorted(places)
    assert "conversation" not in upstream.requests[1].json


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_continues_a_conversation_at_an_upstream_with_responses(
    client: openai.OpenAI, upstream: Upstream, stream: bool
) -> None:
    name = f"turn-{stream}"
    conversation = client.conversations.create(items=[user("I am Bob.")])
    first = response(name, REASONING, SEARCH, message(f"msg_{name}", "Hello Bob."))
    scripted = answer_stream(*events_of(first)) if stream else answer(json.dumps(first))
    upstream.script(scripted, answer(json.dumps(response("second"))), make_answer("claude", "Yes."))
    if stream:
        events = list(client.responses.create(model="vendor", input="Hi", conversation=conversation.id, stream=True))
        assert [event.type for event in events] == ["response.created", "response.completed"]
        assert all(event.response.conversation.id == conversation.id for event in events)  # type: ignore[union-attr]
    else:
        made = client.responses.create(model="vendor", input="Hi", conversation=conversation.id)
        assert made.conversation is not None
        assert made.conversation.id == conversation.id
    sent = upstream.requests[0].json
    assert "conversation" not in sent
    assert [item["content"][0]["text"] for item in sent["input"]] == ["I am Bob.", "Hi"]
    assert "id" not in sent["input"][0]
    assert texts(client, conversation.id) == ["I am Bob.", "Hi", "Hello Bob."]

    client.responses.create(model="vendor", input="On", conversation=conversation.id)
    sent = upstream.requests[1].json["input"]
    assert sent[2:5] == [REASONING, SEARCH, message(f"msg_{name}", "Hello Bob.")]  # the upstream knows their ids

    found = client.responses.with_raw_response.create(model="claude", input="And?", conversation=conversation.id)
    assert found.headers["x-gate-loss"] == "conversation"  # the search is known to the other upstream only
    question = asked("claude", upstream.requests[2].json)
    assert "Hello Bob." in question
    assert "rs_x" not in question


def test_a_conversation_moves_between_upstreams(client: openai.OpenAI, upstream: Upstream) -> None:
    conversation = client.conversations.create()
    first = response("moved", {**REASONING, "encrypted_content": "of-vendor"}, message("msg_moved", "Hello Bob."))
    upstream.script(make_answer("claude", "Hello."), answer(json.dumps(first)), answer(json.dumps(response("other"))))
    for model in ("claude", "vendor", "other"):
        client.responses.create(model=model, input=f"to {model}", conversation=conversation.id)
    _, second, third = (request.json for request in upstream.requests)
    assert [item["role"] for item in second["input"]] == ["user", "assistant", "user"]
    assert [item["role"] for item in third["input"]] == ["user", "assistant", "user", "assistant", "user"]
    assert "of-vendor" not in json.dumps(third)
    assert all("id" not in item for item in third["input"])


def test_a_response_that_is_not_stored_is_added_too(client: openai.OpenAI, upstream: Upstream) -> None:
    conversation = client.conversations.create()
    upstream.script(answer(json.dumps(response("unstored", store=False))), make_answer("claude", "Yes."))
    client.responses.create(model="vendor", input="one", conversation=conversation.id, store=False)
    client.responses.create(model="claude", input="two", conversation=conversation.id, store=False)
    assert texts(client, conversation.id) == ["one", "text of unstored", "two", "Yes."]


def test_a_failed_response_adds_nothing(client: openai.OpenAI, upstream: Upstream) -> None:
    conversation = client.conversations.create(items=[user("Hi")])
    failed = response("failed", status="failed", error={"code": "server_error", "message": "no"}) | {"output": []}
    upstream.script(answer("{}", status=500), answer(json.dumps(failed)), answer("{}", status=500))
    for model in ("vendor", "vendor", "claude"):
        with pytest.raises(openai.InternalServerError):
            client.responses.create(model=model, input="On", conversation=conversation.id)
    assert texts(client, conversation.id) == ["Hi"]


def test_a_tool_loop_runs_in_a_conversation(client: openai.OpenAI) -> None:
    conversation = client.conversations.create()
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools: Any = [{"type": "function", "name": "get_weather", "parameters": city, "strict": False}]
    first = client.responses.create(
        model="local", input="What is the weather in Paris?", tools=tools, conversation=conversation.id
    )
    (call,) = (item for item in first.output if item.type == "function_call")
    result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}]
    second = client.responses.create(model="local", input=result, tools=tools, conversation=conversation.id)
    assert "18 degrees" in second.output_text
    kinds = [item.type for item in client.conversations.items.list(conversation.id, order="asc")]
    assert kinds == ["message", "function_call", "function_call_output", "message"]


def test_a_stored_response_of_a_conversation_is_continued_by_its_id(client: openai.OpenAI, upstream: Upstream) -> None:
    conversation = client.conversations.create(items=[user("I am Bob.")])
    upstream.script(make_answer("chats", "Hello Bob."), make_answer("chats", "Later."), make_answer("chats", "Yes."))
    first = client.responses.create(model="chats", input="Hi", conversation=conversation.id)
    client.responses.create(model="chats", input="Much later", conversation=conversation.id)
    client.responses.create(model="chats", input="On", previous_response_id=first.id)
    question = asked("chats", upstream.requests[2].json)
    assert question.index("I am Bob.") < question.index("Hello Bob.") < question.index('"On"')
    assert "Much later" not in question
    assert texts(client, conversation.id)[-1] == "Later."  # a response without `conversation` is not added


@pytest.mark.parametrize("model", ["vendor", "claude", "local"])
def test_a_conversation_and_a_previous_response_exclude_each_other(gateway: Gateway, model: str) -> None:
    conversation = send(gateway, "a", "POST", "/conversations", {}).json()["id"]
    body = {"model": model, "input": "Hi", "conversation": conversation, "previous_response_id": "resp_x"}
    for route in ("/responses", "/responses/input_tokens", "/responses/compact"):
        error = send(gateway, "a", "POST", route, body).json()["error"]
        assert (error["code"], error["param"]) == ("mutually_exclusive_parameters", "previous_response_id")


def test_a_conversation_has_no_background_responses(gateway: Gateway, upstream: Upstream) -> None:
    conversation = send(gateway, "a", "POST", "/conversations", {}).json()["id"]
    for model in ("vendor", "claude"):
        body = {"model": model, "input": "Hi", "conversation": conversation, "background": True}
        found = send(gateway, "a", "POST", "/responses", body)
        assert (found.status_code, found.json()["error"]["param"]) == (400, "background")
    assert upstream.requests == []


def test_a_conversation_is_counted_and_compacted(client: openai.OpenAI, upstream: Upstream) -> None:
    conversation = client.conversations.create(items=[user("I am Bob. " * 100)])
    count = client.responses.input_tokens.count(model="chats", input="Hi", conversation=conversation.id)
    assert count.input_tokens > 250
    upstream.script(answer('{"object": "response.input_tokens", "input_tokens": 7}'))
    assert client.responses.input_tokens.count(model="vendor", conversation=conversation.id).input_tokens == 7
    assert upstream.requests[0].json["input"][0]["content"][0]["text"].startswith("I am Bob.")


# Conf, restarts and bounds


def test_nothing_is_kept_where_conf_forbids_it(upstream: Upstream, tmp_path: Path) -> None:
    with serve(upstream, tmp_path, "responses: {store: never}\n") as gateway:
        made = send(gateway, "a", "POST", "/conversations", {})
        assert (made.status_code, made.json()["error"]["code"]) == (400, "conversation_not_found")
        assert "responses: {store: never}" in made.json()["error"]["message"]
        for model in ("vendor", "claude"):
            body = {"model": model, "input": "Hi", "conversation": "conv_" + "0" * 32}
            assert send(gateway, "a", "POST", "/responses", body).json()["error"]["code"] == "conversation_not_found"
    assert upstream.requests == []


def test_a_conversation_survives_a_kill_and_is_shared_by_processes(upstream: Upstream, tmp_path: Path) -> None:
    conf = render_conf(upstream.url, "server: {processes: 2}\n")
    gateway = Gateway.start(conf, tmp_path)
    with client_of(gateway, "a") as client:
        conversation = client.conversations.create(items=[user("zero")], metadata={"n": "0"})
    for number in range(4):  # new connections reach both processes
        upstream.script(make_answer("claude", f"answer {number}"))
        body = {"model": "claude", "input": f"question {number}", "conversation": conversation.id}
        assert send(gateway, "a", "POST", "/responses", body).status_code == 200
    gateway.child.kill()
    again = Gateway.start(conf, tmp_path)
    try:
        with client_of(again, "a") as client:
            expected = [text for number in range(4) for text in (f"question {number}", f"answer {number}")]
            assert texts(client, conversation.id) == ["zero", *expected]
            assert client.conversations.retrieve(conversation.id) == conversation
        assert send(again, "b", "GET", f"/conversations/{conversation.id}").status_code == 404
    finally:
        again.stop()


SCRIPTED: dict[str, Any] = {
    "claude": [
        *(make_answer("claude", text) for text in ("Hello Bob.", "The summary.", "Yes.")),
        answer('{"input_tokens": 33}'),
    ],
    "vendor": [
        answer(json.dumps(response("node", message("msg_node", "Hello Bob.")))),
        answer(json.dumps(COMPACTED)),
        answer(json.dumps(response("next", message("msg_next", "Yes.")))),
        answer('{"object": "response.input_tokens", "input_tokens": 33}'),
    ],
    "local": [],
}


@pytest.mark.parametrize("model", SCRIPTED)
def test_the_vendors_sdk_for_node_does_the_same(gateway: Gateway, upstream: Upstream, model: str) -> None:
    upstream.script(*SCRIPTED[model])
    found = run_script("conversations.mjs", f"{gateway.url}/v1", KEYS["a"], model)
    assert found["texts"][:2] == ["I am Bob.", "Hi"]
    assert found["conversation"] == found["id"]
    assert found["kinds"] == ["message", "compaction"]
    assert found["count"]["object"] == "response.input_tokens"
    assert found["deleted"] == {"id": found["id"], "object": "conversation.deleted", "deleted": True}
    assert found["gone"]["code"] == "conversation_not_found"
    if model == "local":
        assert found["answer"]
        return
    assert (found["texts"][2], found["answer"], found["count"]["input_tokens"]) == ("Hello Bob.", "Yes.", 33)
    sent = json.dumps(upstream.requests[2].json)
    assert ("The summary." if model == "claude" else COMPACTED["output"][1]["encrypted_content"]) in sent
