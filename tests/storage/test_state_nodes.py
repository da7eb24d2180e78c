"""Two gateways with one database, as on two machines: what one of them has begun, the other continues. Real processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.databases import empty
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.stored_responses import answer_stream, events_of, response
from tests.support.upstream import Upstream, answer
from tornado_gate.database import calls

KEYS = {"ann": "key-of-ann-at-the-nodes", "bob": "key-of-bob-at-the-nodes", "root": "key-of-root-at-the-nodes"}
CONF = """
database: {address}
state: {{store: database}}
plugins: {{local: true, openai: true, anthropic: true}}
providers:
  local: {{plugin: local}}
  keeper: {{plugin: openai, base_url: "{url}/keeper", api_key: key-of-the-keeper, responses: true, shared_objects: []}}
  thinker: {{plugin: anthropic, base_url: "{url}/thinker", api_key: key-of-the-thinker}}
models:
  local-chat: {{provider: local}}
  local-realtime: {{provider: local}}
  kept: {{provider: keeper, model: gpt-5.2}}
  thinking: {{provider: thinker, model: claude-sonnet-4-5}}
keys:
  - {{name: ann, key: {ann}}}
  - {{name: bob, key: {bob}}}
  - {{name: root, key: {root}, role: administrator}}
"""
THOUGHT = {"type": "thinking", "thinking": "It is about the weather.", "signature": "signature-of-the-thinker"}
USE = {"type": "tool_use", "id": "toolu_nodes", "name": "weather", "input": {"city": "Ulm"}}
SESSION = {"session": {"type": "realtime", "model": "local-realtime"}}


class Nodes(NamedTuple):
    a: Gateway
    b: Gateway


@pytest.fixture(scope="module")
def address(migrated_postgres: str) -> str:
    empty(migrated_postgres)
    return migrated_postgres


@pytest.fixture(scope="module")
def nodes(upstream_process: Upstream, address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    conf = CONF.format(address=address, url=upstream_process.url, **KEYS)
    started = Nodes(*(Gateway.start(conf, tmp_path_factory.mktemp(name)) for name in ("a", "b")))
    yield started
    for gateway in started:
        gateway.stop()


def send(
    gateway: Gateway, method: str, path: str, body: Any = None, key: str = KEYS["ann"], **headers: str
) -> httpx.Response:
    return httpx.request(
        method,
        gateway.url + path,
        json=body,
        headers={"authorization": f"Bearer {key}", **headers},
        timeout=30,
        trust_env=False,
    )


def succeed(*request: Any, **rest: Any) -> Any:
    done = send(*request, **rest)
    assert done.status_code == 200, done.text
    return done.json()


def respond(gateway: Gateway, **fields: Any) -> Any:
    return succeed(gateway, "POST", "/v1/responses", {"model": "local-chat", "input": [user("Hi")], **fields})


def count_tokens(response: Any) -> int:
    """The tokens of the input: of the request and of all turns before."""
    return int(response["usage"]["input_tokens"])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def code_of(done: httpx.Response) -> tuple[int, str]:
    return done.status_code, done.json()["error"]["code"]


# Kept responses and conversations


def test_a_kept_response_is_read_continued_and_deleted_at_another_node(nodes: Nodes) -> None:
    first = respond(nodes.a)
    second = respond(nodes.b, previous_response_id=first["id"])
    third = respond(nodes.a, previous_response_id=second["id"])
    for response_id in (first["id"], second["id"], third["id"]):
        for node in nodes:
            assert succeed(node, "GET", f"/v1/responses/{response_id}")["id"] == response_id
            stranger = send(node, "GET", f"/v1/responses/{response_id}", key=KEYS["bob"])
            assert code_of(stranger) == (404, "response_not_found")
    assert count_tokens(first) < count_tokens(second) < count_tokens(third), "the model gets all turns"
    (item,) = succeed(nodes.b, "GET", f"/v1/responses/{third['id']}/input_items")["data"]
    assert item["content"][0]["text"] == "Hi"
    assert succeed(nodes.b, "DELETE", f"/v1/responses/{first['id']}")["deleted"]
    assert code_of(send(nodes.a, "GET", f"/v1/responses/{first['id']}")) == (404, "response_not_found")
    body = {"model": "local-chat", "input": [user("Hi")], "previous_response_id": second["id"]}
    assert code_of(send(nodes.a, "POST", "/v1/responses", body)) == (400, "previous_response_not_found")


def test_a_kept_response_is_continued_over_websocket_at_another_node(nodes: Nodes) -> None:
    first = respond(nodes.a)
    over_socket = create_over_socket(nodes.b, previous_response_id=first["id"])
    third = respond(nodes.a, previous_response_id=over_socket["id"])
    assert third["previous_response_id"] == over_socket["id"]
    assert count_tokens(first) < count_tokens(over_socket) < count_tokens(third), "the model gets all turns"


def create_over_socket(gateway: Gateway, **fields: Any) -> Any:
    headers = {"Authorization": f"Bearer {KEYS['ann']}"}
    url = gateway.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(url, additional_headers=headers, proxy=None) as client:
        body = {"type": "response.create", "model": "local-chat", "input": [user("And?")], **fields}
        client.send(json.dumps(body))
        while (event := json.loads(client.recv(timeout=20)))["type"] != "response.completed":
            assert event["type"] != "error", event
        return event["response"]


def test_a_conversation_grows_at_every_node(nodes: Nodes) -> None:
    made = succeed(nodes.a, "POST", "/v1/conversations", {"items": [user("Remember 7.")], "metadata": {"topic": "x"}})
    path = f"/v1/conversations/{made['id']}"
    respond(nodes.b, conversation=made["id"])
    create_over_socket(nodes.a, conversation=made["id"])
    succeed(nodes.b, "POST", f"{path}/items", {"items": [user("Added.")]})
    for node in nodes:
        items = succeed(node, "GET", f"{path}/items?order=asc")["data"]
        assert [item["role"] for item in items] == ["user", "user", "assistant", "user", "assistant", "user"]
        assert code_of(send(node, "GET", path, key=KEYS["bob"]))[0] == 404
    assert succeed(nodes.b, "DELETE", path)["deleted"]
    assert code_of(send(nodes.a, "GET", path)) == (404, "conversation_not_found")


# Objects of upstreams, signatures


def test_a_response_that_the_upstream_keeps_is_known_at_another_node(nodes: Nodes, upstream: Upstream) -> None:
    body = {"model": "kept", "input": "Hi", "background": True}
    upstream.script(answer(json.dumps(response("far", status="queued", background=True))))
    assert succeed(nodes.a, "POST", "/v1/responses", body)["status"] == "queued"
    assert code_of(send(nodes.b, "GET", "/v1/responses/resp_far", key=KEYS["bob"]))[0] == 404
    upstream.script(answer(json.dumps(response("far", background=True))))
    read = succeed(nodes.b, "GET", "/v1/responses/resp_far")
    assert (read["status"], read["output"][0]["content"][0]["text"]) == ("completed", "text of far")
    upstream.script(answer_stream(*events_of(response("near", previous_response_id="resp_far"))))
    follow = {"model": "kept", "input": "And?", "previous_response_id": "resp_far", "stream": True}
    assert "text of near" in send(nodes.b, "POST", "/v1/responses", follow).text
    upstream.script(answer(json.dumps({"id": "resp_near", "object": "response", "deleted": True})))
    succeed(nodes.a, "DELETE", "/v1/responses/resp_near")
    assert code_of(send(nodes.b, "GET", "/v1/responses/resp_near"))[0] == 404


def test_thinking_that_a_client_drops_is_restored_at_another_node(nodes: Nodes, upstream: Upstream) -> None:
    begin_tool_loop(nodes.a, upstream)
    upstream.reset()
    assert continue_tool_loop(nodes.b, upstream) == [THOUGHT, USE]


def begin_tool_loop(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(message(THOUGHT, USE, stop_reason="tool_use"))))
    succeed(gateway, "POST", "/v1/chat/completions", chat())


def continue_tool_loop(gateway: Gateway, upstream: Upstream) -> list[Any]:
    """The content of the assistant's turn that the upstream receives."""
    upstream.script(answer(json.dumps(message({"type": "text", "text": "Rain."}))))
    function = {"name": "weather", "arguments": json.dumps(USE["input"])}
    turn = {"role": "assistant", "tool_calls": [{"id": USE["id"], "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": USE["id"], "content": "rain"}
    succeed(gateway, "POST", "/v1/chat/completions", chat(turn, result))
    sent: list[Any] = json.loads(upstream.wait_for_requests(1)[-1].body)["messages"][1]["content"]
    return sent


def chat(*turns: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "weather", "parameters": schema}}
    return {
        "model": "thinking", "messages": [user("Weather in Ulm?"), *turns], "tools": [tool], "reasoning_effort": "low",
    }  # fmt: skip


def message(*content: dict[str, Any], stop_reason: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": list(content),
        "stop_reason": stop_reason, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip


# Client secrets


def open_session(gateway: Gateway, secret: str) -> Any:
    url = f"{gateway.url.replace('http', 'ws', 1)}/v1/realtime?model=local-realtime"
    with connect(url, additional_headers={"Authorization": f"Bearer {secret}"}, proxy=None) as client:
        return json.loads(client.recv(timeout=20))["type"]


def test_a_client_secret_opens_a_session_at_another_node_until_its_key_is_revoked(nodes: Nodes) -> None:
    made = succeed(nodes.a, "POST", "/admin/v1/keys", {"name": "page"}, key=KEYS["root"])
    wait_until_known(nodes.b, made["text"])
    secret = succeed(nodes.b, "POST", "/v1/realtime/client_secrets", SESSION, key=made["text"])["value"]
    assert [open_session(node, secret) for node in nodes] == ["session.created"] * 2
    succeed(nodes.b, "DELETE", f"/admin/v1/keys/{made['key']['id']}", key=KEYS["root"])
    wait_until_known(nodes.a, made["text"], status=401)
    with pytest.raises(InvalidStatus, match="401"):
        open_session(nodes.a, secret)


def wait_until_known(gateway: Gateway, key: str, status: int = 200) -> None:
    ends = time.monotonic() + 60
    while (found := send(gateway, "GET", "/v1/models", key=key).status_code) != status:
        assert time.monotonic() < ends, found


# The database is away


@pytest.fixture
def stop_database(postgres: PostgresServer, nodes: Nodes) -> Iterator[Callable[[], None]]:
    """Stops PostgreSQL. In the end it runs, and the nodes use it again."""
    yield postgres.stop
    postgres.start()
    ends = time.monotonic() + 60
    for node in nodes:
        while send(node, "GET", "/v1/responses/resp_none").status_code != 404:
            assert time.monotonic() < ends


def test_without_the_database_only_what_refers_to_state_is_503(
    nodes: Nodes, upstream: Upstream, stop_database: Callable[[], None]
) -> None:
    first = respond(nodes.a)
    begin_tool_loop(nodes.a, upstream)
    upstream.reset()
    stop_database()
    continued = {"model": "local-chat", "input": [user("Hi")], "previous_response_id": first["id"]}
    for method, path, body in (
        ("GET", f"/v1/responses/{first['id']}", None),
        ("DELETE", f"/v1/responses/{first['id']}", None),
        ("POST", "/v1/responses", continued),
        ("POST", "/v1/conversations", {}),
        ("POST", "/v1/realtime/client_secrets", SESSION),
    ):
        refused = send(nodes.b, method, path, body)
        assert code_of(refused) == (503, "storage_unavailable"), path
        assert refused.headers["retry-after"] == "5"
    assert respond(nodes.b)["status"] == "completed", "it is not kept, and not lost for its caller"
    assert continue_tool_loop(nodes.b, upstream) == [USE], "a request can do without its thinking"
    metrics = httpx.get(nodes.b.url + "/metrics", trust_env=False).text
    assert any(line.startswith("tornado_gate_state_failures_total") for line in metrics.splitlines())


@pytest.mark.qa
def test_a_database_that_hangs_delays_nobody_else(nodes: Nodes, address: str) -> None:
    first = respond(nodes.a)
    path = f"/v1/responses/{first['id']}"
    with psycopg.connect(address) as connection:
        connection.execute(b"LOCK TABLE kept_values IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        assert code_of(send(nodes.b, "GET", path)) == (503, "storage_unavailable")
        waited = time.monotonic() - began
        assert waited < calls.CALL_SECONDS + 3
        began = time.monotonic()
        assert code_of(send(nodes.b, "GET", path)) == (503, "storage_unavailable")
        assert succeed(nodes.b, "POST", "/v1/chat/completions", {"model": "local-chat", "messages": [user("Hi")]})
        assert time.monotonic() - began < waited
    ends = time.monotonic() + 60
    while (done := send(nodes.b, "GET", path)).status_code != 200:
        assert time.monotonic() < ends, done.text
