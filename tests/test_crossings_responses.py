"""Crossings to models of the responses API and back, and legacy functions. Real gateway, scripted upstreams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream
from tests.test_crossings import A_ANSWER, A_DONE, A_TOOL, KEY, QUESTION, TOOL, post, script, sent

CONF = """
plugins: {{local: true, openai: true, anthropic: true}}
providers:
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  r: {{plugin: openai, base_url: "{url}/r/v1", api_key: key-of-the-upstream, openai_models: true}}
models:
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  r-model: {{provider: r, model: gpt-5.4}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {key}}}
"""


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("crossings"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


R_REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA-of-r"}
R_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_r1", "name": "look", "arguments": '{"at":"sky"}'}
R_ANSWER = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-5.4",
    "output": [R_REASONING, R_CALL],
}
R_DONE = {**R_ANSWER, "output": [{"type": "message", "content": [{"type": "output_text", "text": "blue"}]}]}


def ask_in_a(gateway: Gateway, model: str, messages: list[Any]) -> httpx.Response:
    body = {"model": model, "max_tokens": 1000, "messages": messages, "tools": [A_TOOL]}
    response = post(gateway, "/v1/messages", body, anthropic_version="2023-06-01")
    assert response.status_code == 200, response.text
    return response


def test_a_coding_agent_of_format_a_works_with_a_model_of_the_responses_api(
    gateway: Gateway, upstream: Upstream
) -> None:
    """The agent drops the reasoning, and the issuer still gets it back before its call."""
    script(upstream, R_ANSWER, R_DONE)
    first = ask_in_a(gateway, "r-model", [QUESTION]).json()
    assert upstream.requests[-1].path == "/r/v1/responses"
    use = first["content"][-1]
    assert (first["stop_reason"], use["name"], use["input"]) == ("tool_use", "look", {"at": "sky"})
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "blue"}
    turns = [QUESTION, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    ask_in_a(gateway, "r-model", turns)
    items = sent(upstream)["input"]
    assert [item.get("type") for item in items[1:]] == ["reasoning", "function_call", "function_call_output"]
    assert items[1]["encrypted_content"] == "gAAAA-of-r"
    assert items[2]["call_id"] == items[3]["call_id"] == "call_r1"


def test_reasoning_of_the_responses_api_never_reaches_claude(gateway: Gateway, upstream: Upstream) -> None:
    script(upstream, R_ANSWER, A_DONE)
    first = ask_in_a(gateway, "r-model", [QUESTION]).json()
    use = first["content"][-1]
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "blue"}
    turns = [QUESTION, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    ask_in_a(gateway, "a-model", turns)
    assert "gAAAA" not in json.dumps(sent(upstream))
    assert [block["type"] for block in sent(upstream)["messages"][1]["content"]] == ["tool_use"]


def test_a_signature_of_claude_never_reaches_the_responses_api(gateway: Gateway, upstream: Upstream) -> None:
    """Both models are asked in format R, whose requests the second upstream gets verbatim."""
    script(upstream, A_ANSWER, R_DONE)
    include = {"include": ["reasoning.encrypted_content"], "store": False}
    first = post(gateway, "/v1/responses", {"model": "a-model", "input": "Look", **include}).json()
    reasoning, call = first["output"]
    assert reasoning["encrypted_content"] == "signature-of-a"
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "blue"}
    items = [{"role": "user", "content": "Look"}, reasoning, call, output]
    response = post(gateway, "/v1/responses", {"model": "r-model", "input": items, **include})
    assert response.status_code == 200, response.text
    assert "signature-of-a" not in json.dumps(sent(upstream))
    assert "input.1" in response.headers["x-gate-loss"]


@pytest.mark.parametrize("stream", [False, True])
def test_legacy_functions_work_with_every_provider(gateway: Gateway, upstream: Upstream, stream: bool) -> None:
    script(upstream, A_ANSWER)
    body = {"model": "a-model", "messages": [QUESTION], "functions": [TOOL["function"]], "stream": stream}
    response = post(gateway, "/v1/chat/completions", body)
    assert [tool["name"] for tool in sent(upstream)["tools"]] == ["look"]
    assert "x-gate-loss" not in response.headers
    if stream:
        frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
        calls = [frame["choices"][0]["delta"].get("function_call", {}) for frame in frames if frame["choices"]]
        assert "".join(call.get("name", "") for call in calls) == "look"
        assert json.loads("".join(call.get("arguments", "") for call in calls)) == {"at": "sky"}
        assert frames[-1]["choices"][0]["finish_reason"] == "function_call"
    else:
        (choice,) = response.json()["choices"]
        assert choice["finish_reason"] == "function_call"
        assert choice["message"]["function_call"] == {"name": "look", "arguments": '{"at":"sky"}'}
