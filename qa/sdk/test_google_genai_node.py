"""Google's SDK for Node against the gateway. A script of qa/node prints one JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support import lanes
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import EVENT_STREAM, Close, Hang, Upstream, answer

VERBATIM = "mock-gemini"
LANES = {"local": lanes.LOCAL, "verbatim": VERBATIM, "translated": lanes.TRANSLATED}
UPSTREAMS = {"verbatim": "mock-gemini", "translated": "mock"}  # where names are free: "mock-gemini/limited", …
CALLED = {VERBATIM: "FUNCTION_CALL"}  # how aimock ends a call on its own surface; the vendor says STOP
SCRIPTED = pytest.mark.parametrize(
    ("scripted", "begun"),
    [("scripted-gemini", lanes.generation_start), ("scripted", lanes.chat_start)],
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
    return run_script(f"google-{script}.mjs", gateway.url, KEY, model, *rest)


@pytest.mark.parametrize(
    ("model", "lane"), [(LANES["local"], "translated"), (VERBATIM, "verbatim"), (lanes.TRANSLATED, "translated")]
)
def test_lane_is_the_one_that_is_meant(gateway: Gateway, model: str, lane: str) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    route = f"/v1beta/models/{model}:generateContent"
    assert lanes.lane_of(gateway, route, {"x-goog-api-key": KEY}, body) == lane


@pytest.mark.parametrize("version", ["", "v1beta"])
def test_content_is_generated_whole_and_streamed(gateway: Gateway, model: str, version: str) -> None:
    """Under the SDK's own version of the address, which is v1, and under v1beta."""
    result = run(gateway, "chat", model, version)
    assert "hello" in result["text"].lower()
    assert result["role"] == "model"
    assert result["reason"] == "STOP"
    assert result["streamedText"] == result["spoken"] == result["text"]
    assert result["chunks"] > 1
    assert result["reasons"] == ["STOP"]
    assert result["requestId"]


@pytest.mark.parametrize("model", [LANES["local"], lanes.TRANSLATED])
def test_usage_is_told_whole_and_streamed(gateway: Gateway, model: str) -> None:
    """aimock's own surface tells zeros."""
    result = run(gateway, "chat", model)
    usage = result["usage"]
    assert usage["promptTokenCount"] > 0
    assert usage["candidatesTokenCount"] > 0
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + usage["candidatesTokenCount"]
    assert result["streamedUsage"] == usage
    assert result["version"] == model
    assert result["id"]


def test_functions_are_called_whole_and_streamed(gateway: Gateway, model: str) -> None:
    result = run(gateway, "tools", model)
    assert result["reason"] == CALLED.get(model, "STOP")
    assert result["called"] == [["get_weather", {"city": "Paris"}]]
    assert "18 degrees" in result["answer"]
    assert result["answerReason"] == "STOP"
    assert sorted(name for name, _ in result["parallel"]) == ["get_time", "get_weather"]
    assert result["ids"] == 2
    assert result["streamed"] == result["parallel"]
    assert result["reasons"] == [CALLED.get(model, "STOP")]
    text, calls = result["none"]
    assert "hello" in text.lower()
    assert calls == []


def test_loop_over_functions_of_the_sdk_ends_in_an_answer(gateway: Gateway, model: str) -> None:
    result = run(gateway, "automatic", model)
    assert "18 degrees" in result["text"]
    assert result["ran"] == [{"city": "Paris"}]


def test_embedded_model_thinks_before_it_answers(gateway: Gateway) -> None:
    result = run(gateway, "thinking", lanes.LOCAL)
    assert result["firstIsThought"]
    assert result["thoughts"]
    assert "hello" in result["text"].lower()
    assert result["thoughtTokens"] > 0


@pytest.mark.parametrize("model", [LANES["local"], lanes.TRANSLATED])
def test_schema_is_filled_in_both_spellings(gateway: Gateway, model: str) -> None:
    for report in run(gateway, "parse", model):
        assert report["city"] == "Oslo"
        assert isinstance(report["degrees"], int)


def test_schema_reaches_an_upstream_of_this_format(gateway: Gateway, upstream: Upstream) -> None:
    whole = json.dumps(lanes.generated(lanes.REPORT))
    upstream.script(answer(whole), answer(whole))
    assert run(gateway, "parse", "scripted-gemini/schema") == [{"city": "Oslo", "degrees": 7}] * 2
    first, second = upstream.requests
    assert first.path.partition("?")[0].endswith("/models/schema:generateContent")
    assert first.json["generationConfig"]["responseJsonSchema"]["type"] == "object"
    assert second.json["generationConfig"]["responseSchema"]["type"] == "OBJECT"
    assert first.headers["x-goog-api-key"] == "scripted-key"
    assert "scripted-key" not in first.path


def test_errors_are_those_that_the_sdk_knows(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors", model)
    for name in ("unknownModel", "unknownStreamed", "unknownRetrieved"):
        assert brief(result[name]) == ("ApiError", 404, 404, "NOT_FOUND")
        assert "no-such-model" in result[name]["error"]["message"]
    assert brief(result["wrongKey"]) == ("ApiError", 401, 401, "UNAUTHENTICATED")
    assert brief(result["wrongField"]) == ("ApiError", 400, 400, "INVALID_ARGUMENT")
    assert result["wrongField"]["error"]["param"] == "generationConfig.temperature"
    assert brief(result["wrongRole"]) == ("ApiError", 400, 400, "INVALID_ARGUMENT")
    assert result["wrongRole"]["error"]["param"] == "contents.0.role"


def test_models_are_listed_and_retrieved(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors", model)
    assert result["retrieved"]["name"] == f"models/{model}"
    assert {f"models/{name}" for name in LANES.values()} <= {listed["name"] for listed in result["models"]}
    for listed in result["models"]:
        assert {"generateContent", "streamGenerateContent"} & set(listed["supportedActions"])


def test_embedded_model_counts_tokens(gateway: Gateway) -> None:
    result = run(gateway, "count", lanes.LOCAL)
    assert result["error"] is None
    assert result["counted"] > 0


def test_upstream_of_this_format_counts_tokens(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer('{"totalTokens": 41}'))
    assert run(gateway, "count", "scripted-gemini/count")["counted"] == 41
    assert upstream.requests[0].path.partition("?")[0].endswith("/models/count:countTokens")


def test_tokens_of_a_model_whose_upstream_does_not_count_are_estimated(gateway: Gateway) -> None:
    result = run(gateway, "count", lanes.TRANSLATED)
    assert result["error"] is None
    assert 0 < result["counted"] < 50


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_refusal_of_the_upstream_keeps_its_status_and_message(gateway: Gateway, failing: str, how: str) -> None:
    error = run(gateway, "fail", f"{failing}/long-google-node", "fail with a long context", how)
    assert brief(error) == ("ApiError", 400, 400, "INVALID_ARGUMENT")
    assert "maximum context length is 128000" in error["error"]["message"]


def test_rate_limit_of_the_upstream_reaches_the_caller(gateway: Gateway, failing: str) -> None:
    error = run(gateway, "fail", f"{failing}/limited-google-node", "fail with a rate limit")
    assert brief(error) == ("ApiError", 429, 429, "RESOURCE_EXHAUSTED")


def test_refused_upstream_key_is_not_the_callers_fault(gateway: Gateway, failing: str, aimock: Aimock) -> None:
    error = run(gateway, "fail", f"{failing}/keyless-google-node", "fail with a refused key")
    assert brief(error)[:3] == ("ApiError", 502, 502)
    assert aimock.key not in error["message"]


@SCRIPTED
def test_stream_that_breaks_off_is_an_error(
    gateway: Gateway, upstream: Upstream, scripted: str, begun: Callable[[str], str]
) -> None:
    upstream.script(answer(begun("half of"), Close(), headers=EVENT_STREAM))
    error = run(gateway, "fail", f"{scripted}/broken-google-node", "hi", "stream")
    assert error["name"] == "ApiError"
    assert error["status"] == 502


@SCRIPTED
def test_leaving_a_stream_closes_the_upstream(
    gateway: Gateway, upstream: Upstream, scripted: str, begun: Callable[[str], str]
) -> None:
    upstream.script(answer(begun("once"), Hang(), headers=EVENT_STREAM))
    result = run(gateway, "cancel", f"{scripted}/left-google-node", "hi")
    assert result["seen"] == 1
    assert result["error"]
    upstream.wait_until_closed(0)


def test_gateway_goes_on_after_a_stream_was_left(gateway: Gateway, model: str) -> None:
    result = run(gateway, "cancel", model, "Tell a long story")
    assert result["seen"] >= 1
    assert result["models"] >= 3


def brief(error: dict[str, Any]) -> tuple[str, int, int, str]:
    """What callers branch on: class, status, and the body's code and status."""
    return error["name"], error["status"], error["error"]["code"], error["error"]["status"]
