"""Thinking before tool calls comes back to models whose callers have another format and drop what they do not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer, sse
from tests.test_crossings import A_ANSWER, CONF, G_ANSWER, KEY, o_answer, post, script, sent

THINKING = {"type": "thinking", "thinking": "I look.", "signature": "c2lnbmVk"}
USE = {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {}}
DECLARED = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]}]
ASKED = {"role": "user", "parts": [{"text": "Look."}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "blue"}}}]}


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


def stream_of_a() -> str:
    deltas = [{"type": "thinking_delta", "thinking": "I look."}, {"type": "signature_delta", "signature": "c2lnbmVk"}]
    return sse(
        {"type": "message_start", "message": {**A_ANSWER, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**THINKING, "thinking": "", "signature": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": USE},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def make_call(gateway: Gateway, upstream: Upstream, stream: bool) -> dict[str, Any]:
    """The part with the call of a model of Anthropic that thinks first, as the Gemini caller gets it, without the call's id."""
    body = {"contents": [ASKED], "tools": DECLARED, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    if stream:
        upstream.script(answer(stream_of_a()))
        text = post(gateway, "/v1beta/models/a-model:streamGenerateContent?alt=sse", body).text
        chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    else:
        script(upstream, {**A_ANSWER, "content": [THINKING, USE], "stop_reason": "tool_use"})
        chunks = [post(gateway, "/v1beta/models/a-model:generateContent", body).json()]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    (part,) = [part for part in parts if "functionCall" in part]
    assert part["functionCall"].pop("id") == "toolu_01"
    return part


@pytest.mark.parametrize("stream", [False, True])
def test_a_gemini_caller_that_drops_ids_and_thoughts_brings_the_thinking_back(
    gateway: Gateway, upstream: Upstream, stream: bool
) -> None:
    """As OpenCode with the AI SDK's provider for Google: it returns only the signature of the call."""
    part = make_call(gateway, upstream, stream)
    script(upstream, A_ANSWER)
    contents = [ASKED, {"role": "model", "parts": [part]}, RESULT]
    answered = post(gateway, "/v1beta/models/a-model:generateContent", {"contents": contents, "tools": DECLARED})
    assert answered.status_code == 200, answered.text
    assert "x-gate-loss" not in answered.headers
    _, turn, result = sent(upstream)["messages"]
    assert turn["content"] == [THINKING, USE]
    assert result["content"][0]["tool_use_id"] == "toolu_01"


def test_a_signature_that_the_gateway_made_never_reaches_google(gateway: Gateway, upstream: Upstream) -> None:
    part = make_call(gateway, upstream, False)
    script(upstream, G_ANSWER)
    contents = [ASKED, {"role": "model", "parts": [part]}, RESULT]
    answered = post(gateway, "/v1beta/models/g-model:generateContent", {"contents": contents, "tools": DECLARED})
    assert answered.status_code == 200, answered.text
    assert part["thoughtSignature"] not in json.dumps(sent(upstream))
    assert sent(upstream)["contents"][1]["parts"][0]["functionCall"]["name"] == "look"


def test_a_call_without_thinking_has_no_signature(gateway: Gateway, upstream: Upstream) -> None:
    script(
        upstream,
        o_answer(tool_calls=[{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]),
    )
    body = {"contents": [ASKED], "tools": DECLARED}
    answered = post(gateway, "/v1beta/models/o-model:generateContent", body).json()
    assert answered["candidates"][0]["content"]["parts"] == [{"functionCall": {"id": "c", "name": "look", "args": {}}}]
