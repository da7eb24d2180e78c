"""openai-node's `ResponsesWS`: responses over WebSocket, with the embedded model. The script of qa/node prints one JSON."""

from __future__ import annotations

from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support.gateway import Gateway
from tests.support.lanes import LOCAL
from tests.support.node import run_script


@pytest.fixture(scope="module")
def result(gateway: Gateway) -> Any:
    return run_script("responses_socket.mjs", f"{gateway.url}/v1", KEY, LOCAL)


def test_a_tool_is_called_and_the_conversation_goes_on_though_nothing_is_stored(result: Any) -> None:
    assert result["called"] == ["get_weather", {"city": "Paris"}]
    assert "get_weather answered: 18 degrees" in result["answer"]
    assert result["previous"]


def test_lanes_are_told_apart(result: Any) -> None:
    assert sorted(result["lanes"]) == ["planner", "research"]
    assert all("hello" in text.lower() for text in result["lanes"].values())


def test_a_response_is_prepared_and_continued(result: Any) -> None:
    assert result["prepared"] == []
    assert "hello" in result["third"].lower()


def test_an_error_is_one_that_the_sdk_knows(result: Any) -> None:
    assert (result["unknown"]["type"], result["unknown"]["status"]) == ("error", 404)
    assert result["unknown"]["error"]["code"] == "model_not_found"
    assert result["closed"] == 1000
