"""Anthropic's SDK for Node against the gateway. A script of qa/node prints one JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support import lanes
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import EVENT_STREAM, Close, Hang, Upstream, answer

VERBATIM = "mock-claude"
LANES = {"local": lanes.LOCAL, "verbatim": VERBATIM, "translated": lanes.TRANSLATED}
UPSTREAMS = {"verbatim": "mock-claude", "translated": "mock"}  # where names are free: "mock-claude/limited", …
SCRIPTED = pytest.mark.parametrize(
    ("scripted", "begun"),
    [("scripted-claude", lanes.message_start), ("scripted", lanes.chat_start)],
    ids=["verbatim", "translated"],
)


@pytest.fixture(params=list(LANES.values()), ids=list(LANES))
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=list(UPSTREAMS.values()), ids=list(UPSTREAMS))
def failing(request: pytest.FixtureRequest) -> str:
    """An upstream that can be asked under any name: each has a circuit of its own."""
    name: str = request.param
    return name


def run(gateway: Gateway, script: str, model: str, *rest: str) -> Any:
    return run_script(f"anthropic-{script}.mjs", gateway.url, KEY, model, *rest)


@pytest.mark.parametrize(
    ("model", "lane"), [(LANES["local"], "translated"), (VERBATIM, "verbatim"), (lanes.TRANSLATED, "translated")]
)
def test_lane_is_the_one_that_is_meant(gateway: Gateway, model: str, lane: str) -> None:
    body = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"x-api-key": KEY, "anthropic-version": "2026-10-21"}
    assert lanes.lane_of(gateway, "/v1/messages", headers, body) == lane


def test_message_answers_whole_and_streamed(gateway: Gateway, model: str) -> None:
    result = run(gateway, "chat", model)
    assert "hello" in result["text"].lower()
    assert result["role"] == ["message", "assistant"]
    assert result["streamedText"] == result["finalText"] == result["text"]
    assert result["deltas"] > 1
    assert result["reason"] == result["finalReason"] == "end_turn"
    assert result["requestId"]
    assert (result["first"], result["last"]) == ("message_start", "message_stop")
    assert result["started"] == result["stopped"] == 1


@pytest.mark.parametrize("model", [LANES["local"], lanes.TRANSLATED])
def test_usage_is_told_at_the_end_of_a_stream_too(gateway: Gateway, model: str) -> None:
    """In ``message_delta`` as well, where LangChain and others read the input from; aimock's own surface tells zeros."""
    result = run(gateway, "chat", model)
    assert result["usage"]["input_tokens"] > 0
    assert result["usage"]["output_tokens"] > 0
    for told in (result["finalUsage"], result["deltaUsage"]):
        assert told["input_tokens"] == result["usage"]["input_tokens"]
        assert told["output_tokens"] == result["usage"]["output_tokens"]


def test_tools_are_called_whole_and_streamed(gateway: Gateway, model: str) -> None:
    result = run(gateway, "tools", model)
    assert result["reason"] == result["streamedReason"] == "tool_use"
    assert result["called"] == [["get_weather", {"city": "Paris"}]]
    assert "18 degrees" in result["answer"]
    assert result["answerReason"] == "end_turn"
    assert sorted(name for name, _ in result["parallel"]) == ["get_time", "get_weather"]
    assert result["ids"] == 2
    assert result["streamed"] == result["parallel"]
    assert result["pieces"] >= 2
    assert result["emptyStarts"] == [{}, {}]
    assert result["indexes"] == [0, 1]


def test_loop_over_tools_of_the_sdk_ends_in_an_answer(gateway: Gateway, model: str) -> None:
    for result in run(gateway, "runner", model):
        assert "18 degrees" in result["text"]
        assert result["ran"] == ["Paris"]


def test_loop_over_tools_sends_the_whole_conversation(gateway: Gateway) -> None:
    """The SDK would rather have the server keep it; the embedded model names the tool only when it sees the call."""
    for result in run(gateway, "runner", lanes.LOCAL):
        assert "get_weather answered" in result["text"]


def test_embedded_model_thinks_before_it_answers(gateway: Gateway) -> None:
    result = run(gateway, "thinking", lanes.LOCAL)
    assert result["kinds"] == ["thinking", "text"]
    assert result["thoughts"] == result["thinking"] != ""
    assert "hello" in result["text"].lower()
    assert "hello" in result["next"].lower()


@pytest.mark.parametrize("model", [LANES["local"], lanes.TRANSLATED])
def test_schema_is_filled_and_parsed(gateway: Gateway, model: str) -> None:
    report = run(gateway, "parse", model)
    assert report["city"] == "Oslo"
    assert isinstance(report["degrees"], int)


def test_schema_reaches_an_upstream_of_this_format(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(lanes.message(lanes.REPORT)))
    assert run(gateway, "parse", "scripted-claude/schema") == {"city": "Oslo", "degrees": 7}
    (request,) = upstream.requests
    assert request.path == "/v1/messages"
    assert request.json["output_config"]["format"]["type"] == "json_schema"
    assert request.json["model"] == "schema"
    assert request.headers["x-api-key"] == "scripted-key"
    assert "authorization" not in request.headers


def test_errors_are_those_that_the_sdk_knows(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors", model)
    assert brief(result["unknownModel"])[:3] == ("NotFoundError", 404, "not_found_error")
    assert "no-such-model" in result["unknownModel"]["message"]
    assert brief(result["unknownRetrieved"])[:3] == ("NotFoundError", 404, "not_found_error")
    assert brief(result["wrongKey"])[:3] == ("AuthenticationError", 401, "authentication_error")
    assert brief(result["wrongField"]) == ("BadRequestError", 400, "invalid_request_error", "max_tokens")
    assert brief(result["wrongRole"]) == ("BadRequestError", 400, "invalid_request_error", "messages.0.role")


def test_models_are_listed_and_retrieved(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors", model)
    assert result["retrieved"]["id"] == model
    assert {"local-chat", "mock-gpt", "mock-claude"} <= {listed["id"] for listed in result["models"]}
    for listed in result["models"]:
        assert listed["type"] == "model"
        assert listed["display_name"]
        assert listed["created_at"]


def test_embedded_model_counts_tokens(gateway: Gateway) -> None:
    result = run(gateway, "count", lanes.LOCAL)
    assert result["error"] is None
    plain, with_tools = result["counted"]
    assert 0 < plain < with_tools


def test_upstream_of_this_format_counts_tokens(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer('{"input_tokens": 41}'), answer('{"input_tokens": 42}'))
    assert run(gateway, "count", "scripted-claude/count")["counted"] == [41, 42]
    assert {request.path.partition("?")[0] for request in upstream.requests} == {"/v1/messages/count_tokens"}
    assert upstream.requests[1].json["tools"][0]["name"] == "get_weather"


def test_tokens_of_a_model_whose_upstream_does_not_count_are_estimated(gateway: Gateway) -> None:
    result = run(gateway, "count", lanes.TRANSLATED)
    assert result["error"] is None
    plain, with_tools = result["counted"]
    assert 0 < plain < with_tools


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_refusal_of_the_upstream_keeps_its_status_and_message(gateway: Gateway, failing: str, how: str) -> None:
    error = run(gateway, "fail", f"{failing}/long-anthropic-node", "fail with a long context", how)
    assert brief(error)[:3] == ("BadRequestError", 400, "invalid_request_error")
    assert "maximum context length is 128000" in error["message"]


def test_rate_limit_of_the_upstream_reaches_the_caller(gateway: Gateway, failing: str) -> None:
    error = run(gateway, "fail", f"{failing}/limited-anthropic-node", "fail with a rate limit")
    assert brief(error)[:3] == ("RateLimitError", 429, "rate_limit_error")
    assert error["retryAfter"] == "7"


def test_refused_upstream_key_is_not_the_callers_fault(gateway: Gateway, failing: str, aimock: Aimock) -> None:
    error = run(gateway, "fail", f"{failing}/keyless-anthropic-node", "fail with a refused key")
    assert brief(error)[:3] == ("InternalServerError", 502, "api_error")
    assert aimock.key not in error["message"]


@SCRIPTED
def test_stream_that_breaks_off_is_an_error(
    gateway: Gateway, upstream: Upstream, scripted: str, begun: Callable[[str], str]
) -> None:
    upstream.script(answer(begun("half of"), Close(), headers=EVENT_STREAM))
    error = run(gateway, "fail", f"{scripted}/broken-anthropic-node", "hi", "stream")
    assert error["name"] == "APIError"
    assert error["type"] == "api_error"


@SCRIPTED
def test_leaving_a_stream_closes_the_upstream(
    gateway: Gateway, upstream: Upstream, scripted: str, begun: Callable[[str], str]
) -> None:
    upstream.script(answer(begun("once"), Hang(), headers=EVENT_STREAM))
    result = run(gateway, "cancel", f"{scripted}/left-anthropic-node", "hi")
    assert (result["seen"], result["aborted"]) == (1, True)
    upstream.wait_until_closed(0)


def test_gateway_goes_on_after_a_stream_was_left(gateway: Gateway, model: str) -> None:
    result = run(gateway, "cancel", model, "Tell a long story")
    assert result["seen"] == 1
    assert result["models"] >= 3


def brief(error: dict[str, Any]) -> tuple[str, int, str, str]:
    """What callers branch on: class, status, type, param."""
    return error["name"], error["status"], error["type"], error["param"]
