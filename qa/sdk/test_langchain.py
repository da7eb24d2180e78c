"""LangChain against the gateway, by the wire formats of OpenAI and of Anthropic.

Each asks the embedded model and an upstream that speaks the other's format, so that both ways of a translation are used.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from qa.sdk.conftest import KEY
from tests.support import lanes
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer

Connect = Callable[[str, Gateway], BaseChatModel]
PARALLEL = "What is the weather in Paris and the time in Tokyo?"


class Report(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return f"18 degrees in {city}"


@tool
def get_time(city: str) -> str:
    """The time of day in a city"""
    return f"noon in {city}"


def openai(model: str, gateway: Gateway) -> BaseChatModel:
    return ChatOpenAI(
        model=model, base_url=f"{gateway.url}/v1", api_key=SecretStr(KEY), max_retries=0, timeout=20, stream_usage=True
    )


def responses(model: str, gateway: Gateway) -> BaseChatModel:
    return ChatOpenAI(
        model=model,
        base_url=f"{gateway.url}/v1",
        api_key=SecretStr(KEY),
        max_retries=0,
        timeout=20,
        use_responses_api=True,
    )


def anthropic(model: str, gateway: Gateway) -> BaseChatModel:
    return ChatAnthropic(
        model_name=model, base_url=gateway.url, api_key=SecretStr(KEY), max_retries=0, timeout=20, stop=None
    )


CLIENTS: dict[str, tuple[Connect, str]] = {
    "chat-local": (openai, lanes.LOCAL),
    "chat-translated": (openai, "mock-claude"),
    "responses-local": (responses, lanes.LOCAL),
    "responses-translated": (responses, "mock-claude"),
    "messages-local": (anthropic, lanes.LOCAL),
    "messages-translated": (anthropic, lanes.TRANSLATED),
}
TELLING = [name for name in CLIENTS if not name.endswith("translated")] + ["messages-translated"]
"""Those whose upstream tells how many tokens it used: aimock's format A tells zeros."""


def connect(name: str, gateway: Gateway) -> BaseChatModel:
    make, model = CLIENTS[name]
    return make(model, gateway)


@pytest.fixture(params=CLIENTS)
def chat(request: pytest.FixtureRequest, gateway: Gateway) -> BaseChatModel:
    return connect(request.param, gateway)


def streamed(chat: BaseChatModel, text: str) -> AIMessageChunk:
    """All chunks of a stream, added up as LangChain's users do."""
    total: AIMessageChunk | None = None
    for chunk in chat.stream(text):
        assert isinstance(chunk, AIMessageChunk)
        total = chunk if total is None else total + chunk
    assert total is not None
    return total


@pytest.mark.representative
def test_model_is_invoked_and_streamed(chat: BaseChatModel) -> None:
    whole = chat.invoke("Say hello")
    assert "hello" in whole.text.lower()
    assert streamed(chat, "Say hello").text == whole.text


@pytest.mark.parametrize("name", TELLING)
def test_usage_comes_through_whole_and_streamed(gateway: Gateway, name: str) -> None:
    chat = connect(name, gateway)
    whole = chat.invoke("Say hello")
    assert isinstance(whole, AIMessage)
    told = counts(whole.usage_metadata)
    assert min(told) > 0
    assert told[2] == told[0] + told[1]
    assert counts(streamed(chat, "Say hello").usage_metadata) == told


def counts(usage: UsageMetadata | None) -> tuple[int, int, int]:
    assert usage is not None
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]


def test_tool_is_called_and_its_result_used(chat: BaseChatModel) -> None:
    with_tools = chat.bind_tools([get_weather])
    question = HumanMessage("What is the weather in Paris?")
    first = with_tools.invoke([question])
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    second = with_tools.invoke([question, first, result])
    assert second.tool_calls == []
    assert "18 degrees" in second.text


def test_streamed_tool_calls_are_put_together(chat: BaseChatModel) -> None:
    total: AIMessageChunk | None = None
    for chunk in chat.bind_tools([get_weather, get_time]).stream(PARALLEL):
        assert isinstance(chunk, AIMessageChunk)
        total = chunk if total is None else total + chunk
    assert total is not None
    assert sorted(call["name"] for call in total.tool_calls) == ["get_time", "get_weather"]
    assert all(call["args"]["city"] for call in total.tool_calls)
    assert len({call["id"] for call in total.tool_calls}) == 2


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
@pytest.mark.parametrize("name", ["chat-local", "responses-local", "messages-local"])
def test_output_has_the_shape_of_a_class(gateway: Gateway, name: str, method: str) -> None:
    chat = connect(name, gateway)
    report = chat.with_structured_output(Report, method=method).invoke("Report the weather in Oslo.")
    assert isinstance(report, Report)
    assert report.city == "Oslo"


def test_shape_is_asked_of_an_upstream_of_another_format(gateway: Gateway, upstream: Upstream) -> None:
    report = connect("messages-translated", gateway).with_structured_output(Report, method="json_schema")
    assert report.invoke("Report the weather in Oslo.") == Report(city="Oslo", degrees=7)

    upstream.script(answer(lanes.message(lanes.REPORT)))
    other = openai("scripted-claude/shape", gateway).with_structured_output(Report, method="json_schema")
    assert other.invoke("Report the weather in Oslo.") == Report(city="Oslo", degrees=7)
    assert upstream.requests[0].json["output_config"]["format"]["type"] == "json_schema"
