"""Gemini's Interactions API, by google-genai for Python and Node: forwarded to upstreams that have it; ids belong to an owner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import _interactions as errors
from google.genai import types

from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import Answer, Upstream, Wait, answer

KEYS = {"a": "test-key-of-account-a", "b": "test-key-of-account-b"}
UPSTREAM_KEY = "upstream-key-0123456789"
MODEL = "gemini-3-pro-preview"
CONF = """
plugins: {{local: true, gemini: true}}
providers:
  first: {{plugin: gemini, base_url: "{url}/first", api_key: {key}}}
  second: {{plugin: gemini, base_url: "{url}/second", api_key: {key}}}
  local: {{plugin: local}}
models:
  one: {{provider: first, model: gemini-3-pro-preview}}
  both:
    targets:
      - {{provider: first, model: gemini-3-pro-preview, weight: 1}}
      - {{provider: second, model: gemini-3-pro-preview, weight: 1000000}}
  local-chat: {{provider: local}}
keys:
  - {{name: a, key: "{a}"}}
  - {{name: b, key: "{b}"}}
"""
USAGE = {
    "total_input_tokens": 7, "total_output_tokens": 20, "total_thought_tokens": 22, "total_cached_tokens": 0,
    "total_tool_use_tokens": 0, "total_tokens": 49,
}  # fmt: skip
STEPS = [
    {"type": "thought", "signature": "c2lnbmF0dXJl", "summary": [{"type": "text", "text": "Hm."}]},
    {"type": "model_output", "content": [{"type": "text", "text": "Hello."}]},
]


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=UPSTREAM_KEY, **KEYS)
    started = Gateway.start(conf, tmp_path_factory.mktemp("interactions"))
    yield started
    started.stop()


def client_of(gateway: Gateway, account: str) -> genai.Client:
    """A client; it must be kept, because its end closes its connections."""
    retries = types.HttpRetryOptions(attempts=1)
    options = types.HttpOptions(base_url=gateway.url, api_version="v1beta", retry_options=retries)
    return genai.Client(api_key=KEYS[account], http_options=options)


@pytest.fixture
def owner(gateway: Gateway) -> Iterator[Any]:
    client = client_of(gateway, "a")
    yield client.interactions
    client.close()


def interaction(name: str, **fields: Any) -> dict[str, Any]:
    """An interaction as the upstream sends it, with the id ``v1_NAME``."""
    return {
        "id": f"v1_{name}", "object": "interaction", "status": "completed", "model": MODEL,
        "created": "2026-11-22T12:00:00Z", "updated": "2026-11-22T12:00:03Z", "steps": STEPS, "usage": USAGE, **fields,
    }  # fmt: skip


def whole(body: dict[str, Any]) -> Answer:
    return answer(json.dumps(body))


def events_of(name: str) -> list[dict[str, Any]]:
    begun = {"id": f"v1_{name}", "object": "interaction", "status": "in_progress", "model": MODEL}
    return [
        {"event_type": "interaction.created", "interaction": begun, "event_id": "e1"},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}, "event_id": "e2"},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hello."}, "event_id": "e3"},
        {"event_type": "step.stop", "index": 0, "event_id": "e4"},
        {
            "event_type": "interaction.completed",
            "interaction": {**begun, "status": "completed", "usage": USAGE},
            "event_id": "e5",
        },
    ]


def frame(event: dict[str, Any]) -> str:
    return f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n"


DONE = "event: done\ndata: [DONE]\n\n"


def streamed(*frames: Any) -> Answer:
    return answer(*frames, headers={"content-type": "text/event-stream"})


def create(client: Any, upstream: Upstream, name: str, model: str = "one", **fields: Any) -> Any:
    upstream.script(whole(interaction(name)))
    return client.create(model=model, input="Hi", **fields)


def create_streamed(client: Any, upstream: Upstream, name: str, model: str = "one") -> Any:
    upstream.script(streamed(*map(frame, events_of(name)), DONE))
    *_, last = client.create(model=model, input="Hi", stream=True)
    return last.interaction


CREATORS = [pytest.param(create, id="whole"), pytest.param(create_streamed, id="streamed")]


def metric(gateway: Gateway, name: str) -> float:
    text = httpx.get(f"{gateway.url}/metrics", headers={"authorization": f"Bearer {KEYS['a']}"}, trust_env=False).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("version", ["v1beta", "v1"])
def test_an_interaction_is_forwarded_unchanged_but_for_the_models_name(
    gateway: Gateway, upstream: Upstream, version: str
) -> None:
    body = json.dumps(interaction("verbatim", later_member={"kept": 1}))
    upstream.script(answer(body))
    asked = {
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}],
        "generation_config": {"thinking_level": "low", "thinking_summaries": "auto"},
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "later_member": True,
    }
    headers = {"x-goog-api-key": KEYS["a"], "api-revision": "2026-05-20"}
    url = f"{gateway.url}/{version}/interactions"
    got = httpx.post(url, json={"model": "one", **asked}, headers=headers, trust_env=False)
    assert (got.status_code, got.text) == (200, body)
    (request,) = upstream.requests
    assert (request.path, request.json) == ("/first/v1beta/interactions", {"model": MODEL, **asked})
    assert request.headers["x-goog-api-key"] == UPSTREAM_KEY
    assert request.headers["api-revision"] == "2026-05-20"


def test_the_sdk_reads_whole_and_streamed_interactions(owner: Any, upstream: Upstream) -> None:
    made = create(owner, upstream, "read")
    assert (made.id, made.status, made.output_text) == ("v1_read", "completed", "Hello.")
    assert made.usage.total_thought_tokens == 22
    upstream.script(streamed(*map(frame, events_of("streamed")), DONE))
    events = list(owner.create(model="one", input="Hi", stream=True))
    assert [event.event_type for event in events] == [event["event_type"] for event in events_of("streamed")]
    assert events[2].delta.text == "Hello."
    assert upstream.requests[-1].json["stream"] is True


@pytest.mark.parametrize("make", CREATORS)
def test_an_owner_continues_reads_cancels_and_deletes_an_interaction_where_it_is_kept(
    owner: Any, upstream: Upstream, make: Any
) -> None:
    made = make(owner, upstream, f"life-{make.__name__}")
    upstream.reset()
    body = interaction(f"life-{make.__name__}")
    cancelled = whole({**body, "status": "cancelled"})
    upstream.script(whole(interaction("next")), whole(body), cancelled, answer("{}"))
    # The weights favour the other entry a million to one
    owner.create(model="both", input="Go on", previous_interaction_id=made.id)
    assert owner.get(made.id, include_input=True).output_text == "Hello."
    assert owner.cancel(made.id).status == "cancelled"
    owner.delete(made.id)
    path = f"/first/v1beta/interactions/{made.id}"
    assert [(request.method, request.path) for request in upstream.requests] == [
        ("POST", "/first/v1beta/interactions"),
        ("GET", f"{path}?stream=false&include_input=true"),
        ("POST", f"{path}/cancel"),
        ("DELETE", path),
    ]
    with pytest.raises(errors.APIStatusError) as caught:  # the gateway has forgotten it too
        owner.get(made.id)
    assert caught.value.status_code == 404
    assert len(upstream.requests) == 4


def test_the_sdk_for_node_does_the_same(gateway: Gateway, upstream: Upstream) -> None:
    body = interaction("node")
    upstream.script(
        whole(body),
        whole(interaction("node-next")),
        streamed(*map(frame, events_of("node-streamed")), DONE),
        whole(body),
        whole({**body, "status": "cancelled"}),
        answer("{}"),
    )
    result = run_script("google-interactions.mjs", gateway.url, KEYS["a"], "one", "v1beta")
    assert (result["made"]["id"], result["made"]["status"]) == ("v1_node", "completed")
    assert (result["continued"], result["read"], result["cancelled"]) == ("v1_node-next", "v1_node", "cancelled")
    assert result["events"] == [event["event_type"] for event in events_of("node-streamed")]
    assert result["text"] == "Hello."
    assert result["unknown"]["status"] == 404
    assert "v1_node" in result["unknown"]["message"]
    methods = [request.method for request in upstream.requests]
    assert methods == ["POST", "POST", "POST", "GET", "POST", "DELETE"]


@pytest.mark.parametrize("make", CREATORS)
def test_another_account_cannot_use_an_interaction(gateway: Gateway, owner: Any, upstream: Upstream, make: Any) -> None:
    made = make(owner, upstream, f"private-{make.__name__}")
    client = client_of(gateway, "b")
    other = client.interactions
    upstream.reset()
    for use in (
        lambda: other.get(made.id),
        lambda: other.cancel(made.id),
        lambda: other.delete(made.id),
        lambda: other.create(model="one", input="Hi", previous_interaction_id=made.id),
    ):
        with pytest.raises(errors.APIStatusError) as caught:
            use()
        assert caught.value.status_code == 404
    assert upstream.requests == []


@pytest.mark.parametrize(
    "fields",
    [
        {"environment": "environments/of-another"},
        {"environment": {"type": "remote", "environment_id": "of-another"}},
        {"environment": {"type": "remote", "env": {"TOKEN": {"credential": "of-the-operator"}}}},
        {
            "environment": {
                "type": "remote",
                "network": {"allowlist": [{"domain": "*", "credential": "of-the-operator"}]},
            }
        },
    ],
)
def test_sandboxes_and_credentials_of_the_upstreams_account_are_refused(
    gateway: Gateway, upstream: Upstream, fields: dict[str, Any]
) -> None:
    headers = {"x-goog-api-key": KEYS["a"]}
    url = f"{gateway.url}/v1beta/interactions"
    got = httpx.post(url, json={"model": "one", "input": "Hi", **fields}, headers=headers, trust_env=False)
    assert got.status_code == 404
    assert got.json()["error"]["param"].startswith("environment")
    assert upstream.requests == []


def test_a_sandbox_may_be_used_again_by_its_owner(owner: Any, upstream: Upstream) -> None:
    upstream.script(whole(interaction("sandbox", environment_id="env-1")), whole(interaction("again")))
    made = owner.create(model="one", input="Hi", environment={"type": "remote"})
    owner.create(model="one", input="Hi", environment=made.environment_id)
    assert upstream.requests[-1].json["environment"] == "env-1"


def test_a_background_interaction_is_polled_resumed_and_counted_once(
    gateway: Gateway, owner: Any, upstream: Upstream
) -> None:
    before = metric(gateway, "tornado_gate_tokens_total")
    running = interaction("background", status="in_progress", steps=[], usage=None)
    upstream.script(whole(running))
    made = owner.create(model="one", input="Hi", background=True)
    assert made.status == "in_progress"
    events = events_of("background")
    upstream.script(whole(running), streamed(*map(frame, events[2:]), DONE), whole(interaction("background")))
    assert owner.get(made.id).status == "in_progress"
    assert metric(gateway, "tornado_gate_tokens_total") == before
    resumed = list(owner.get(made.id, stream=True, last_event_id="e2"))
    assert resumed[-1].event_type == "interaction.completed"
    assert upstream.requests[-1].path.endswith("?stream=true&last_event_id=e2")
    counted = metric(gateway, "tornado_gate_tokens_total")
    assert counted > before
    owner.get(made.id)
    assert metric(gateway, "tornado_gate_tokens_total") == counted


def test_an_interaction_that_is_not_stored_cannot_be_read(owner: Any, upstream: Upstream) -> None:
    made = create(owner, upstream, "not-stored", store=False)
    with pytest.raises(errors.APIStatusError) as caught:
        owner.get(made.id)
    assert caught.value.status_code == 404
    assert len(upstream.requests) == 1


def test_a_stream_that_breaks_off_ends_with_an_error_event(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(streamed(*map(frame, events_of("broken")[:3])))
    body = {"model": "one", "input": "Hi", "stream": True}
    got = httpx.post(
        f"{gateway.url}/v1beta/interactions", json=body, headers={"x-goog-api-key": KEYS["a"]}, trust_env=False
    )
    *_, last = [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: ")]
    assert last["event_type"] == "error"
    assert last["error"]["code"] == "upstream_error"
    assert "[DONE]" not in got.text


def test_an_upstreams_errors_keep_their_status(owner: Any, upstream: Upstream) -> None:
    refused = '{"error": {"code": 400, "message": "Bad tool.", "status": "INVALID_ARGUMENT"}}'
    upstream.script(answer(refused, status=400))
    with pytest.raises(errors.APIStatusError) as caught:
        owner.create(model="one", input="Hi")
    assert caught.value.status_code == 400
    assert "Bad tool." in str(caught.value)
    late = {"event_type": "error", "error": {"code": "internal", "message": "Lost."}}
    upstream.script(streamed(*map(frame, events_of("late")[:2]), Wait("go on"), frame(late)))
    upstream.tell("go on")
    events = list(owner.create(model="one", input="Hi", stream=True))
    assert events[-1].error.message == "Lost."


def test_a_provider_without_this_api_says_so(owner: Any, upstream: Upstream) -> None:
    with pytest.raises(errors.APIStatusError) as caught:
        owner.create(model="local-chat", input="Hi")
    assert caught.value.status_code == 400
    assert "has no Interactions API" in str(caught.value)


def test_bad_bodies_are_refused_before_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    for body, param in (
        ({"input": "Hi"}, "model"),
        ({"model": "one", "input": "Hi", "stream": "yes"}, "stream"),
        ({"model": "one", "input": "Hi", "agent": "deep-research"}, "agent"),
        ({"model": "one", "input": "Hi", "previous_interaction_id": 5}, "previous_interaction_id"),
    ):
        got = httpx.post(
            f"{gateway.url}/v1beta/interactions", json=body, headers={"x-goog-api-key": KEYS["a"]}, trust_env=False
        )
        assert (got.status_code, got.json()["error"]["param"]) == (400, param)
    assert upstream.requests == []
