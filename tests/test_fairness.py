"""What one caller causes does not stop the others, and what fails is seen by the operator. Real gateway, scripted upstream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.lanes import generated
from tests.support.scripts import completion
from tests.support.upstream import Upstream, answer

KEY = "test-key-of-fairness"
CONF = """
plugins: {{local: true, openai: true, gemini: true}}
server: {{access_log: true, log_level: info, log_format: json}}
providers:
  local: {{plugin: local}}
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream}}
  refused: {{plugin: openai, base_url: "{url}/refused/v1", api_key: key-of-the-upstream}}
  closed: {{plugin: openai, base_url: "http://127.0.0.1:9/v1", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  "o/*": {{provider: o}}
  another-name: {{provider: o, model: shared}}
  refused: {{provider: refused}}
  closed: {{provider: closed}}
  gemini: {{provider: g}}
  local-chat: {{provider: local}}
  drained:
    targets: [{{provider: o, model: drained, weight: 0}}, {{provider: local, model: local-chat}}]
circuits: {{failures: 3, open_seconds: 1000}}
keys:
  - {{name: a, key: {key}-a}}
  - {{name: b, key: {key}-b}}
  - {{name: c, key: {key}-c}}
"""
FAILS = answer('{"error": {"message": "boom"}}', status=500)
WORKS = answer(completion("hello"))


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("fairness"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script. Each test uses models of its own."""
    return one_gateway


def send_request(gateway: Gateway, model: str, account: str = "a", **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}-{account}"}
    sent = {"model": model, "messages": [{"role": "user", "content": "hi"}], **body}
    url = f"{gateway.url}/v1/chat/completions"
    return httpx.post(url, json=sent, headers=headers, trust_env=False, timeout=60)


def metric(gateway: Gateway, name: str) -> float:
    """The value of a series, 0 if it does not exist."""
    text = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=60).text
    return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name + " "))


def messages(gateway: Gateway) -> list[str]:
    return [json.loads(line)["message"] for line in gateway.logs.splitlines() if line.startswith("{")]


# Circuits


def test_failures_at_one_model_of_a_wildcard_leave_the_others_alone(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(*[FAILS] * 6, WORKS)
    assert [send_request(gateway, "o/broken", account).status_code for account in "ab" * 3] == [502] * 3 + [503] * 3
    upstream.reset()
    upstream.script(WORKS)
    assert send_request(gateway, "o/fine").status_code == 200


def test_failures_of_one_account_stop_only_this_account(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(*[FAILS] * 4, WORKS, FAILS)  # the fourth is sent as the last resort
    assert [send_request(gateway, "o/evil", "a").status_code for _ in range(4)] == [502, 502, 502, 503]
    assert send_request(gateway, "o/evil", "b").status_code == 200
    assert send_request(gateway, "o/evil", "a").status_code == 503


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429])
def test_what_a_request_itself_causes_opens_no_circuit(gateway: Gateway, upstream: Upstream, status: int) -> None:
    upstream.script(*[answer('{"error": {"message": "no"}}', status=status)] * 6, WORKS)
    model = f"o/rejects-{status}"
    assert [send_request(gateway, model, account).status_code for account in "ab" * 3] == [status] * 6
    assert send_request(gateway, model).status_code == 200


def test_names_of_one_upstream_model_share_its_circuit(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(*[FAILS] * 3)
    assert [send_request(gateway, "o/shared", account).status_code for account in "abc"] == [502] * 3
    assert send_request(gateway, "another-name").status_code == 503


def test_circuits_are_logged_and_measured(gateway: Gateway, upstream: Upstream) -> None:
    labels = '{model="o/*",provider="o"}'
    before = metric(gateway, f"tornado_gate_open_circuits{labels}")
    upstream.script(*[FAILS] * 3)
    assert [send_request(gateway, "o/measured", account).status_code for account in "abc"] == [502] * 3
    assert metric(gateway, f"tornado_gate_open_circuits{labels}") == before + 1
    assert metric(gateway, 'tornado_gate_circuit_transitions_total{model="o/*",provider="o",to="open"}') >= 1
    gateway.child.wait_for_line(r'"message":"circuit opened for all accounts for 1000 s: .*"upstream_model":"measured"')


# Keys of providers, and errors


def test_a_refused_key_of_a_provider_is_a_warning_once_a_minute(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(*[answer('{"error": {"message": "bad key"}}', status=401, path="/refused")] * 2)
    assert [send_request(gateway, "refused", account).status_code for account in "ab"] == [502, 502]
    line = gateway.child.wait_for_line(r'^(\{.*"level":"warning".*refused the gateway.*)$')
    assert "check providers.refused.api_key" in json.loads(line[1])["message"]
    assert metric(gateway, 'tornado_gate_upstream_errors_total{kind="upstream_authentication",provider="refused"}') == 2
    assert sum("check providers.refused.api_key" in message for message in messages(gateway)) == 1


def test_a_refused_connection_is_an_unreachable_upstream(gateway: Gateway) -> None:
    refused = send_request(gateway, "closed")
    assert (refused.status_code, refused.json()["error"]["code"]) == (502, "upstream_unreachable")


# Images of a chat


@pytest.mark.parametrize("lane", ["verbatim", "translated", "verbatim stream"])
def test_images_in_an_answer_are_counted(gateway: Gateway, upstream: Upstream, lane: str) -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    made = generated("Here.")
    made["candidates"][0]["content"]["parts"].append(picture)
    streams = "stream" in lane
    upstream.script(answer(f"data: {json.dumps(made)}\n\n") if streams else answer(json.dumps(made)))
    name = 'tornado_gate_images_total{model="gemini",provider="g"}'
    before = metric(gateway, name)
    if lane == "translated":
        assert send_request(gateway, "gemini").status_code == 200
    else:
        method = "streamGenerateContent?alt=sse" if streams else "generateContent"
        body = {"contents": [{"role": "user", "parts": [{"text": "Draw."}]}]}
        headers = {"x-goog-api-key": f"{KEY}-a"}
        url = f"{gateway.url}/v1beta/models/gemini:{method}"
        assert httpx.post(url, json=body, headers=headers, trust_env=False, timeout=60).status_code == 200
    assert metric(gateway, name) == before + 1


# Weights, verbs, bounds, descriptions


def test_a_drained_target_gets_no_request(gateway: Gateway, upstream: Upstream) -> None:
    assert {send_request(gateway, "drained").headers["x-gate-provider"] for _ in range(20)} == {"local"}
    assert not upstream.requests


@pytest.mark.parametrize("path", ["/v1beta/models/local-chat:noSuchVerb", "/v1/models/local-chat:noSuchVerb"])
def test_an_unknown_verb_of_a_model_is_404(gateway: Gateway, path: str) -> None:
    headers = {"authorization": f"Bearer {KEY}-a"}
    refused = httpx.post(gateway.url + path, json={"contents": []}, headers=headers, trust_env=False, timeout=60)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_route")
    wrong = httpx.post(f"{gateway.url}/v1beta/models/local-chat", json={}, headers=headers, trust_env=False, timeout=60)
    assert wrong.status_code == 405


MESSAGES = [{"role": "user", "content": "Tell me a long story."}]
LIMITS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}, "max_tokens"),
    "chat today": ("/v1/chat/completions", {"messages": MESSAGES}, "max_completion_tokens"),
    "completions": ("/v1/completions", {"prompt": "Tell me a long story."}, "max_tokens"),
    "responses": ("/v1/responses", {"input": "Tell me a long story."}, "max_output_tokens"),
    "messages": ("/v1/messages", {"messages": MESSAGES}, "max_tokens"),
    "generate": (
        "/v1beta/models/local-chat:generateContent",
        {"contents": [{"parts": [{"text": "Tell me a long story."}]}]},
        "generationConfig.maxOutputTokens",
    ),
}


@pytest.mark.parametrize("value", [0, -1, 2**31, 10**30, 1.5, True, "5"])
@pytest.mark.parametrize("route", LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_of_tokens_that_makes_no_sense_is_400(
    gateway: Gateway, route: tuple[str, dict[str, Any], str], value: Any
) -> None:
    refused = limited(gateway, route, value)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, route[2])


@pytest.mark.parametrize("route", LIMITS.values(), ids=LIMITS.keys())
def test_the_local_provider_honours_the_limit(gateway: Gateway, route: tuple[str, dict[str, Any], str]) -> None:
    answered = limited(gateway, route, 3).json()
    usage = answered.get("usage") or answered["usageMetadata"]
    produced = next(
        usage[name] for name in ("completion_tokens", "output_tokens", "candidatesTokenCount") if name in usage
    )
    assert produced == 3


def limited(gateway: Gateway, route: tuple[str, dict[str, Any], str], value: Any) -> httpx.Response:
    path, body, name = route
    outer, _, inner = name.rpartition(".")
    sent = {**body, **({outer: {inner: value}} if outer else {inner: value})}
    if "models/" not in path:
        sent["model"] = "local-chat"
    headers = {"authorization": f"Bearer {KEY}-a", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=sent, headers=headers, trust_env=False, timeout=60)


def test_models_of_the_embedded_provider_say_that_they_are_a_demonstration(gateway: Gateway) -> None:
    headers = {"x-goog-api-key": f"{KEY}-a"}
    url = f"{gateway.url}/v1beta/models/local-chat"
    described = httpx.get(url, headers=headers, trust_env=False, timeout=60).json()["description"]
    assert described.startswith("A demonstration")
