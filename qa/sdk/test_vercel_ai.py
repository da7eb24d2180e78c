"""Vercel's AI SDK against the embedded model, by each wire format that the gateway speaks."""

from __future__ import annotations

from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support.gateway import Gateway
from tests.support.lanes import LOCAL
from tests.support.node import run_script


@pytest.fixture(params=["chat", "responses", "anthropic", "google"])
def wire_format(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def run(gateway: Gateway, script: str, wire_format: str) -> Any:
    return run_script(f"vercel-{script}.mjs", gateway.url, KEY, LOCAL, wire_format)


def test_text_is_generated_and_streamed(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "text", wire_format)
    assert "hello" in result["text"].lower()
    assert result["streamed"] == result["text"]
    assert result["pieces"] > 1
    assert result["reason"] == result["streamedReason"] == "stop"
    assert result["warnings"] == []


def test_usage_is_told_whole_and_streamed(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "text", wire_format)
    for usage in (result["usage"], result["streamedUsage"]):
        assert usage["inputTokens"] > 0
        assert usage["outputTokens"] > 0
        assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]


def test_errors_carry_status_and_message(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "text", wire_format)
    for name in ("unknownModel", "streamedError"):
        assert (result[name]["name"], result[name]["status"]) == ("AI_APICallError", 404)
        assert "no-such-model" in result[name]["message"]
    assert (result["wrongKey"]["name"], result["wrongKey"]["status"]) == ("AI_APICallError", 401)
    assert "API key" in result["wrongKey"]["message"]


def test_tools_are_run_until_the_model_answers(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "tools", wire_format)
    assert result["ran"] == [["get_weather", {"city": "Paris"}]]
    assert result["reasons"] == ["tool-calls", "stop"]
    assert "18 degrees" in result["text"]


def test_streamed_tools_are_run_until_the_model_answers(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "tools", wire_format)
    assert sorted(name for name, _ in result["streamRan"]) == ["get_time", "get_weather"]
    assert result["streamedReasons"] == ["tool-calls", "stop"]
    assert "18 degrees" in result["streamedText"]
    assert "noon" in result["streamedText"]
    assert "Paris" in result["inputs"]


def test_object_is_generated_and_streamed(gateway: Gateway, wire_format: str) -> None:
    result = run(gateway, "object", wire_format)
    for report in (result["object"], result["output"], result["streamed"]):
        assert report["city"] == "Oslo"
        assert isinstance(report["degrees"], int)
    assert result["partial"] >= 1
