"""anthropic-python against the gateway: what its users do first, with each kind of model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types import MessageParam, TextBlock, ToolParam, ToolUseBlock
from pydantic import BaseModel

from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.upstream import Close, Upstream, Wait, answer

KEY = "test-key-of-the-anthropic-tests"

CONF = """
plugins: {{local: true, openai: true, anthropic: true}}
providers:
  local: {{plugin: local}}
  native: {{plugin: anthropic, base_url: "{aimock}", api_key: "{aimock_key}", betas: ["files-*"]}}
  translated: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}"}}
  scripted: {{plugin: anthropic, base_url: "{scripted}/v1", api_key: scripted-key}}
models:
  local-chat: {{provider: local}}
  mock-claude: {{provider: native, model: claude-sonnet-4-5}}
  mock-gpt: {{provider: translated, model: gpt-4o}}
  "native/*": {{provider: native}}
  "translated/*": {{provider: translated}}
  "scripted/*": {{provider: scripted}}
keys:
  - {{name: test, key: "{key}"}}
"""
PROVIDERS = {"local-chat": "local", "mock-claude": "native", "mock-gpt": "translated"}


class Report(BaseModel):
    city: str
    degrees: int


def tool(name: str, description: str) -> ToolParam:
    city: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"name": name, "description": description, "input_schema": city}


TOOLS = [tool("get_weather", "The weather of a city"), tool("get_time", "The time of day in a city")]
PARALLEL = "What is the weather in Paris and the time in Tokyo?"


def make_messages(text: str) -> list[MessageParam]:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def gateway(aimock: Aimock, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(aimock=aimock.url, aimock_key=aimock.key, scripted=upstream_process.url, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("gateway"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture(params=[*PROVIDERS])
def model(request: pytest.FixtureRequest) -> str:
    """The embedded model, an upstream that speaks this format, and one that speaks another."""
    name: str = request.param
    return name


def text_of(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


def calls_of(message: anthropic.types.Message) -> list[ToolUseBlock]:
    return [block for block in message.content if isinstance(block, ToolUseBlock)]


@pytest.mark.representative
def test_a_message_answers(client: anthropic.Anthropic, model: str) -> None:
    message = client.messages.create(model=model, max_tokens=1000, messages=make_messages("Say hello"))
    assert (message.type, message.role, message.stop_reason) == ("message", "assistant", "end_turn")
    assert message.id.startswith("msg_")
    assert "hello" in text_of(message).lower()
    assert message.usage.input_tokens >= 0


def test_the_answer_says_who_answered(client: anthropic.Anthropic, model: str) -> None:
    raw = client.messages.with_raw_response.create(
        model=model, max_tokens=1000, messages=make_messages("Say hello"), extra_headers={"x-request-id": "my-own-id-1"}
    )
    assert raw.headers["x-request-id"] == "my-own-id-1"
    assert raw.headers["x-gate-provider"] == PROVIDERS[model]


@pytest.mark.representative
def test_the_stream_says_what_the_whole_answer_says(client: anthropic.Anthropic, model: str) -> None:
    whole = client.messages.create(model=model, max_tokens=1000, messages=make_messages("Say hello"))
    with client.messages.stream(model=model, max_tokens=1000, messages=make_messages("Say hello")) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(pieces) == text_of(whole) == text_of(final)
    assert len(pieces) > 1
    assert final.stop_reason == "end_turn"


def test_the_events_of_a_stream_come_in_order(client: anthropic.Anthropic, model: str) -> None:
    stream = client.messages.create(model=model, max_tokens=1000, messages=make_messages("Say hello"), stream=True)
    kinds = [event.type for event in stream]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_a_system_prompt_and_blocks_are_taken(client: anthropic.Anthropic, model: str) -> None:
    message = client.messages.create(
        model=model,
        max_tokens=1000,
        system=[{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": [{"type": "text", "text": "Say hello"}]},
        ],
    )
    assert "hello" in text_of(message).lower()


@pytest.mark.representative
def test_a_tool_is_called_and_its_result_used(client: anthropic.Anthropic, model: str) -> None:
    question = make_messages("What is the weather in Paris?")
    first = client.messages.create(model=model, max_tokens=1000, messages=question, tools=TOOLS[:1])
    assert first.stop_reason == "tool_use"
    (call,) = calls_of(first)
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"}],
    }
    second = client.messages.create(
        model=model, max_tokens=1000, messages=[*question, first.to_param(), result], tools=TOOLS[:1]
    )
    assert second.stop_reason == "end_turn"
    assert "18 degrees" in text_of(second)


def test_streamed_tool_calls_can_be_put_together(client: anthropic.Anthropic, model: str) -> None:
    pieces: dict[int, str] = {}
    index = -1
    with client.messages.stream(model=model, max_tokens=1000, messages=make_messages(PARALLEL), tools=TOOLS) as stream:
        for event in stream:
            if event.type == "content_block_start":
                assert event.index == index + 1
                index = event.index
            elif event.type == "input_json":
                pieces[index] = pieces.get(index, "") + event.partial_json
        final = stream.get_final_message()
    calls = calls_of(final)
    assert sorted(call.name for call in calls) == ["get_time", "get_weather"]
    assert len({call.id for call in calls}) == 2
    assert [json.loads(text) for text in pieces.values()] == [call.input for call in calls]
    assert final.stop_reason == "tool_use"


def test_a_forced_tool_is_called(client: anthropic.Anthropic) -> None:
    message = client.messages.create(
        model="local-chat",
        max_tokens=1000,
        messages=make_messages("Say hello"),
        tools=TOOLS,
        tool_choice={"type": "tool", "name": "get_time"},
    )
    assert [call.name for call in calls_of(message)] == ["get_time"]


@pytest.mark.parametrize("model", ["local-chat", "mock-gpt"])
def test_a_schema_is_filled_and_parsed(client: anthropic.Anthropic, model: str) -> None:
    parsed = client.messages.parse(
        model=model, max_tokens=1000, messages=make_messages("Report the weather in Oslo."), output_format=Report
    ).parsed_output
    assert parsed is not None
    assert parsed.city == "Oslo"


def test_a_met_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    whole = text_of(client.messages.create(model="local-chat", max_tokens=1000, messages=make_messages("Say hello")))
    word = whole.split()[-1]
    message = client.messages.create(
        model="local-chat", max_tokens=1000, messages=make_messages("Say hello"), stop_sequences=[word]
    )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", word)


def test_tokens_are_counted(client: anthropic.Anthropic) -> None:
    short = client.messages.count_tokens(model="local-chat", messages=make_messages("Hi"))
    long = client.messages.count_tokens(model="local-chat", messages=make_messages("Hi " * 500), tools=TOOLS)
    assert 0 < short.input_tokens < long.input_tokens


def test_tokens_of_a_model_whose_upstream_does_not_count_are_estimated(client: anthropic.Anthropic) -> None:
    ask = client.messages.with_raw_response.count_tokens
    short = ask(model="mock-gpt", messages=make_messages("Hi"))
    long = ask(model="mock-gpt", messages=make_messages("Hi " * 4000), tools=TOOLS)
    assert 0 < short.parse().input_tokens < 50
    assert 3000 <= long.parse().input_tokens < 3500
    assert {answer.headers["x-gate-estimate"] for answer in (short, long)} == {"input_tokens"}
    counted = ask(model="local-chat", messages=make_messages("Hi"))
    assert "x-gate-estimate" not in counted.headers


def test_an_estimate_is_explained_as_one(client: anthropic.Anthropic) -> None:
    body = {"model": "mock-gpt", "messages": make_messages("Hi")}
    told: Any = client.post("/v1/_explain?route=/v1/messages/count_tokens", body=body, cast_to=object)
    assert told["model"] == "mock-gpt"
    assert "estimate" in told["answered_by"]


def test_a_wrong_body_is_refused_before_its_tokens_are_estimated(client: anthropic.Anthropic) -> None:
    wrong: Any = [{"role": "nobody", "content": "Hi"}]
    with pytest.raises(anthropic.BadRequestError, match="role"):
        client.messages.count_tokens(model="mock-gpt", messages=wrong)


def test_an_upstream_that_speaks_this_format_counts_itself(client: anthropic.Anthropic, upstream: Upstream) -> None:
    upstream.script(answer('{"input_tokens": 14}'))
    assert client.messages.count_tokens(model="scripted/claude", messages=make_messages("Hi")).input_tokens == 14
    (asked,) = upstream.requests
    assert asked.path == "/v1/messages/count_tokens"
    assert asked.json == {"model": "claude", "messages": make_messages("Hi")}
    assert asked.headers["x-api-key"] == "scripted-key"
    assert "authorization" not in asked.headers
    assert KEY not in str(asked.headers)


def test_a_body_goes_to_an_upstream_of_this_format_as_it_came(client: anthropic.Anthropic, upstream: Upstream) -> None:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "x_new": 1}
    upstream.script(answer(json.dumps(body | {"stop_reason": "end_turn", "usage": {}})))
    thinking: Any = {"type": "enabled", "budget_tokens": 1024, "x_more": 1}
    message = client.messages.create(
        model="scripted/claude",
        max_tokens=2000,
        messages=make_messages("Hi"),
        thinking=thinking,
        extra_body={"x_field": [1.0]},
    )
    sent = upstream.requests[0].json
    assert sent == {
        "model": "claude",
        "max_tokens": 2000,
        "messages": make_messages("Hi"),
        "thinking": thinking,
        "x_field": [1.0],
    }
    assert upstream.requests[0].headers["anthropic-version"] == client.default_headers["anthropic-version"]
    assert message.to_dict()["x_new"] == 1


def event(kind: str, **members: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n"


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": {}}
BEGIN = event("message_start", message=MESSAGE) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
HALF = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "half of"})
END = (
    event("content_block_stop", index=0)
    + event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 3})
    + event("message_stop")
)
SSE = {"content-type": "text/event-stream"}


def test_events_arrive_while_the_upstream_still_thinks(client: anthropic.Anthropic, upstream: Upstream) -> None:
    upstream.script(answer(BEGIN + HALF, Wait("go on"), event("x_new", a=1) + END, headers=SSE))
    with client.messages.stream(model="scripted/slow", max_tokens=9, messages=make_messages("hi")) as stream:
        texts = iter(stream.text_stream)
        assert next(texts) == "half of"  # the upstream has not gone on: nothing told it to
        upstream.tell("go on")
        assert list(texts) == []
        assert stream.get_final_message().stop_reason == "end_turn"


def test_a_stream_that_breaks_off_is_an_error(client: anthropic.Anthropic, upstream: Upstream) -> None:
    upstream.script(answer(BEGIN + HALF, Close(), headers=SSE))
    with client.messages.stream(model="scripted/broken", max_tokens=9, messages=make_messages("hi")) as stream:
        texts = iter(stream.text_stream)
        assert next(texts) == "half of"
        with pytest.raises(anthropic.APIStatusError) as caught:
            list(texts)
    assert caught.value.type == "api_error"


def test_an_upstream_that_is_overloaded_is_said_to_be(client: anthropic.Anthropic, upstream: Upstream) -> None:
    body = '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    upstream.script(answer(body, status=529))
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(model="scripted/busy", max_tokens=9, messages=make_messages("hi"))
    assert caught.value.type == "overloaded_error"


def test_an_unknown_model_is_not_found(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(model="no-such-model", max_tokens=9, messages=make_messages("hi"))
    assert caught.value.type == "not_found_error"
    assert "no-such-model" in str(caught.value.api_message)


def test_a_wrong_key_is_refused(gateway: Gateway, model: str) -> None:
    stranger = anthropic.Anthropic(base_url=gateway.url, api_key="wrong-key", max_retries=0)
    with stranger, pytest.raises(anthropic.AuthenticationError) as caught:
        stranger.messages.create(model=model, max_tokens=9, messages=make_messages("hi"))
    assert caught.value.type == "authentication_error"
    assert "wrong-key" not in str(caught.value.body)


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("temperature", "hot", "temperature"),
        ("max_tokens", True, "max_tokens"),
        ("messages", [], "messages"),
        ("messages", [{"role": 5, "content": "hi"}], "messages.0.role"),
        (
            "messages",
            [{"role": "user", "content": [{"type": "image", "source": {}}]}],
            "messages.0.content.0.source.type",
        ),
    ],
)
def test_a_wrong_field_is_named(client: anthropic.Anthropic, model: str, field: str, value: object, param: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model=model, max_tokens=9, messages=make_messages("hi"), extra_body={field: value})
    body: Any = caught.value.body
    assert body["type"] == "error"
    assert (body["error"]["type"], body["error"]["param"]) == ("invalid_request_error", param)
    assert body["request_id"]


def test_a_request_without_a_version_is_refused(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
        client.messages.create(
            model="local-chat",
            max_tokens=9,
            messages=make_messages("hi"),
            extra_headers={"anthropic-version": "yesterday"},
        )


def test_what_is_lost_in_translation_is_reported(client: anthropic.Anthropic) -> None:
    raw = client.messages.with_raw_response.create(
        model="mock-gpt",
        max_tokens=9,
        messages=make_messages("Say hello"),
        service_tier="auto",
        extra_body={"top_k": 3},
    )
    assert set(raw.headers["x-gate-loss"].replace(" ", "").split(",")) == {"service_tier", "top_k"}


def test_the_models_are_listed_page_by_page(client: anthropic.Anthropic) -> None:
    names = [found.id for found in client.models.list(limit=2)]
    assert {"local-chat", "mock-claude", "mock-gpt"} <= set(names)
    assert len(names) == len(set(names))
    found = client.models.retrieve("local-chat")
    assert (found.id, found.type, found.lifecycle) == ("local-chat", "model", "active")
    assert found.created_at.year >= 1970
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("no-such-model")


def test_many_at_once_answer_each_its_own(gateway: Gateway, model: str) -> None:
    async def ask() -> list[str]:
        async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as many:

            async def whole() -> str:
                return text_of(
                    await many.messages.create(model=model, max_tokens=1000, messages=make_messages("Say hello"))
                )

            async def streamed() -> str:
                async with many.messages.stream(
                    model=model, max_tokens=1000, messages=make_messages("Say hello")
                ) as stream:
                    return await stream.get_final_text()

            return await asyncio.gather(*(ask() for ask in (whole, streamed) for _ in range(5)))

    assert len(set(asyncio.run(ask()))) == 1
