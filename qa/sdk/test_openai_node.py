"""The vendor's SDK for Node against the gateway: the list that Python has. A script of qa/node prints one JSON."""

from __future__ import annotations

from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.scripts import chunk
from tests.support.upstream import Close, Hang, Upstream, answer, sse


def run(gateway: Gateway, script: str, model: str, *rest: str) -> Any:
    return run_script(script, f"{gateway.url}/v1", KEY, model, *rest)


@pytest.mark.representative
def test_chat_answers_whole_and_streamed(gateway: Gateway, model: str) -> None:
    result = run(gateway, "chat.mjs", model)
    assert "hello" in result["text"].lower()
    assert result["streamedText"] == result["text"]
    assert result["reason"] == "stop"
    assert result["requestId"]
    usage = result["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_stream_tells_usage_only_when_asked(gateway: Gateway, model: str) -> None:
    result = run(gateway, "chat.mjs", model)
    assert (result["streamedUsage"], result["emptyChunks"]) == (0, 0)
    assert result["lastChoices"] == []
    assert result["lastUsage"]["completion_tokens"] > 0


def test_tools_are_called_whole_and_streamed(gateway: Gateway, model: str) -> None:
    result = run(gateway, "tools.mjs", model)
    assert result["reason"] == "tool_calls"
    assert result["called"] == [["get_weather", {"city": "Paris"}]]
    assert "18 degrees" in result["answer"]
    assert sorted(name for name, _ in result["parallel"]) == ["get_time", "get_weather"]
    assert result["ids"] == 2
    assert result["indexes"] == [0, 1]
    assert result["idsTold"] == 2
    assert result["streamed"] == result["parallel"]


def test_schema_is_filled_and_parsed(gateway: Gateway, model: str) -> None:
    report = run(gateway, "parse.mjs", model)
    assert report["city"] == "Oslo"
    assert isinstance(report["degrees"], int)


def test_embedded_model_gives_two_choices(gateway: Gateway) -> None:
    result = run(gateway, "choices.mjs", "local-chat")
    assert len(result["whole"]) == 2
    assert result["streamed"] == result["whole"]


def test_errors_are_those_that_the_sdk_knows(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors.mjs", model)
    assert brief(result["unknownModel"]) == ("NotFoundError", 404, "model_not_found", "model")
    assert brief(result["unknownRetrieved"])[:3] == ("NotFoundError", 404, "model_not_found")
    assert brief(result["wrongKey"])[:3] == ("AuthenticationError", 401, "invalid_api_key")
    assert brief(result["wrongField"])[::3] == ("BadRequestError", "temperature")
    assert brief(result["wrongRole"])[::3] == ("BadRequestError", "messages.0.role")


def test_models_are_listed_and_retrieved(gateway: Gateway, model: str) -> None:
    result = run(gateway, "errors.mjs", model)
    assert result["retrieved"] == model
    assert {"local-chat", "mock-gpt"} <= set(result["models"])


@pytest.mark.parametrize("how", ["whole", "stream"])
def test_refusal_of_the_upstream_keeps_its_status_and_message(gateway: Gateway, how: str) -> None:
    error = run(gateway, "fail.mjs", "mock/long-node", "fail with a long context", how)
    assert (error["name"], error["status"]) == ("BadRequestError", 400)
    assert "maximum context length is 128000" in error["message"]


def test_rate_limit_of_the_upstream_reaches_the_caller(gateway: Gateway) -> None:
    error = run(gateway, "fail.mjs", "mock/limited-node", "fail with a rate limit")
    assert (error["name"], error["status"], error["retryAfter"]) == ("RateLimitError", 429, "7")


def test_refused_upstream_key_is_not_the_callers_fault(gateway: Gateway, aimock: Aimock) -> None:
    error = run(gateway, "fail.mjs", "mock/keyless-node", "fail with a refused key")
    assert (error["name"], error["status"]) == ("InternalServerError", 502)
    assert aimock.key not in error["message"]


def test_stream_that_breaks_off_is_an_error(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk(role="assistant", content="half of")), Close()))
    error = run(gateway, "fail.mjs", "scripted/broken-node", "hi", "stream")
    assert error["name"] == "APIError"


def test_leaving_a_stream_closes_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk(role="assistant", content="once")), Hang()))
    result = run(gateway, "cancel.mjs", "scripted/left-node", "hi")
    assert result["aborted"]
    upstream.wait_until_closed(0)


def test_gateway_goes_on_after_a_stream_was_left(gateway: Gateway, model: str) -> None:
    result = run(gateway, "cancel.mjs", model, "Tell a long story")
    assert result["seen"] == 1
    assert result["models"] >= 2


def brief(error: dict[str, Any]) -> tuple[str, int, str, str]:
    """What callers branch on: class, status, code, param."""
    return error["name"], error["status"], error["code"], error["param"]
