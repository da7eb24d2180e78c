"""``POST /v1/responses/input_tokens`` by openai-python: counted by the upstreams that count, estimated elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from qa.sdk.stateful_gateway import client_of, make_answer, send, serve
from tests.support.gateway import Gateway
from tests.support.stored_responses import response
from tests.support.upstream import Upstream, answer

COUNT = json.dumps({"object": "response.input_tokens", "input_tokens": 77})
TOOL: Any = {"type": "function", "name": "paint", "parameters": {"type": "object", "properties": {}}, "strict": False}


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serve(upstream_process, tmp_path_factory.mktemp("counts")) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway, "a") as made:
        yield made


def test_an_upstream_that_counts_gets_the_request_unchanged(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(COUNT))
    found = client.responses.input_tokens.with_raw_response.count(model="vendor", input="Hi", instructions="Be brief.")
    counted = found.parse()
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 77)
    assert "x-gate-estimate" not in found.headers
    (request,) = upstream.requests
    assert request.path == "/vendor/v1/responses/input_tokens"
    assert request.json == {"model": "up-vendor", "input": "Hi", "instructions": "Be brief."}


def test_a_translated_model_is_counted_by_its_own_vendor(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer('{"input_tokens": 33}'), answer('{"totalTokens": 44}'))
    assert client.responses.input_tokens.count(model="claude", input="Hi", tools=[TOOL]).input_tokens == 33
    assert client.responses.input_tokens.count(model="gemini", input="Hi").input_tokens == 44
    claude, gemini = upstream.requests
    assert claude.path == "/claude/v1/messages/count_tokens"
    assert claude.json["tools"][0]["name"] == "paint"
    assert gemini.path.endswith(":countTokens")


@pytest.mark.parametrize("model", ["chats", "bare"])
def test_other_models_get_an_estimate_that_says_so(client: openai.OpenAI, upstream: Upstream, model: str) -> None:
    found = client.responses.input_tokens.with_raw_response.count(model=model, input="word " * 400)
    assert found.headers["x-gate-estimate"] == "input_tokens"
    assert 500 <= found.parse().input_tokens <= 600
    assert upstream.requests == []


def test_the_embedded_model_counts(client: openai.OpenAI) -> None:
    assert client.responses.input_tokens.count(model="local", input="word " * 100).input_tokens > 100


@pytest.mark.parametrize("model", ["chats", "claude", "vendor"])
def test_a_kept_conversation_is_counted_too(client: openai.OpenAI, upstream: Upstream, model: str) -> None:
    upstream.script(make_answer("chats", "Nice to meet you."))
    first = client.responses.create(model="chats", input="I am Bob. " * 100)
    upstream.reset()
    upstream.script(answer(COUNT))
    count = client.responses.input_tokens.count(model=model, input="Hi", previous_response_id=first.id).input_tokens
    if model == "chats":
        assert count > 250
        return
    assert count == 77
    (request,) = upstream.requests
    assert "I am Bob." in json.dumps(request.json)
    assert "previous_response_id" not in request.json


def test_only_the_owner_can_count_a_response_that_an_upstream_keeps(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps(response("counted"))), answer(COUNT))
    assert send(gateway, "a", "POST", "/responses", {"model": "vendor", "input": "Hi"}).status_code == 200
    body = {"model": "vendor", "input": "On", "previous_response_id": "resp_counted"}
    theirs = send(gateway, "b", "POST", "/responses/input_tokens", body)
    assert (theirs.status_code, theirs.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert send(gateway, "a", "POST", "/responses/input_tokens", body).json()["input_tokens"] == 77
    assert upstream.requests[1].json == {**body, "model": "up-vendor"}


def test_prompts_of_other_formats_are_counted_by_the_upstream_too(gateway: Gateway, upstream: Upstream) -> None:
    """Anthropic's and Google's count of tokens, at a model of an upstream with the OpenAI route."""
    upstream.script(answer(COUNT), answer(COUNT))
    headers = {"authorization": "Bearer test-key-of-account-a", "anthropic-version": "2023-06-01"}
    tools = [{"name": "paint", "input_schema": {"type": "object"}}]
    body = {"model": "vendor", "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
    found = httpx2.post(f"{gateway.url}/v1/messages/count_tokens", json=body, headers=headers, timeout=20)
    assert found.json() == {"input_tokens": 77}
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    found = httpx2.post(f"{gateway.url}/v1beta/models/vendor:countTokens", json=body, headers=headers, timeout=20)
    assert found.json()["totalTokens"] == 77
    first, second = (request.json for request in upstream.requests)
    assert first.keys() == {"model", "input", "instructions", "tools"}
    assert (first["model"], first["instructions"], first["tools"][0]["name"]) == ("up-vendor", "Be brief.", "paint")
    assert second.keys() == {"model", "input"}


def test_a_wrong_body_and_a_count_without_a_number_are_errors(gateway: Gateway, upstream: Upstream) -> None:
    found = send(gateway, "a", "POST", "/responses/input_tokens", {"model": "claude", "input": 5})
    assert (found.status_code, found.json()["error"]["param"]) == (400, "input")
    upstream.script(answer('{"object": "list"}'))
    found = send(gateway, "a", "POST", "/responses/input_tokens", {"model": "vendor", "input": "Hi"})
    assert (found.status_code, found.json()["error"]["code"]) == (502, "upstream_error")
