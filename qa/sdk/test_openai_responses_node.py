"""OpenAI's responses by the vendor's SDK for Node, with the embedded model. A script of qa/node prints one JSON."""

from __future__ import annotations

from typing import Any

import pytest

from qa.sdk.conftest import KEY
from tests.support.gateway import Gateway
from tests.support.lanes import LOCAL
from tests.support.node import run_script


@pytest.fixture(scope="module")
def result(gateway: Gateway) -> Any:
    return run_script("responses.mjs", f"{gateway.url}/v1", KEY, LOCAL)


def test_response_answers_whole_and_streamed(result: Any) -> None:
    assert "hello" in result["text"].lower()
    assert result["status"] == result["lastStatus"] == "completed"
    assert result["kinds"] == ["output_text"]
    assert result["streamed"] == result["text"]
    assert result["deltas"] > 1
    assert (result["first"], result["last"]) == ("response.created", "response.completed")
    assert result["numbers"] == list(range(len(result["numbers"])))


def test_usage_is_told(result: Any) -> None:
    usage = result["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0


def test_tools_are_called_and_a_conversation_goes_on_by_id(result: Any) -> None:
    assert result["called"] == [["get_weather", {"city": "Paris"}]]
    assert "get_weather answered: 18 degrees" in result["answer"]
    assert sorted(name for name, _ in result["parallel"]) == ["get_time", "get_weather"]
    assert result["callIds"] == 2


def test_schema_is_filled_and_parsed(result: Any) -> None:
    assert result["parsed"]["city"] == "Oslo"
    assert isinstance(result["parsed"]["degrees"], int)


def test_response_is_retrieved(result: Any) -> None:
    assert result["retrieved"] == result["text"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unknownModel", ("NotFoundError", 404, "model_not_found", "model")),
        ("wrongField", ("BadRequestError", 400, "invalid_value", "temperature")),
    ],
)
def test_errors_are_those_that_the_sdk_knows(result: Any, name: str, expected: tuple[str, int, str, str]) -> None:
    error = result[name]
    assert (error["name"], error["status"], error["code"], error["param"]) == expected


def test_unknown_response_cannot_be_continued(result: Any) -> None:
    error = result["unknownId"]
    assert error["param"] == "previous_response_id"
    assert error["code"].endswith("not_found")
