"""openai-python against the gateway: what its users do first, with both kinds of model."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

import openai
import pytest
from openai.types.chat import (
    ChatCompletionChunk,
    ChatCompletionMessageParam,
    ChatCompletionStreamOptionsParam,
    ChatCompletionToolParam,
)
from pydantic import BaseModel

from qa.sdk.conftest import KEY
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Close, Hang, Upstream, Wait, answer, sse


class Report(BaseModel):
    city: str
    degrees: int


def tool(name: str, description: str) -> ChatCompletionToolParam:
    city: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": city}}


TOOLS = [tool("get_weather", "The weather of a city"), tool("get_time", "The time of day in a city")]
PARALLEL = "What is the weather in Paris and the time in Tokyo?"


def make_messages(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


def joined(chunks: Iterable[ChatCompletionChunk], choice: int = 0) -> str:
    """The text of one choice."""
    mine = (part for piece in chunks for part in piece.choices if part.index == choice)
    return "".join(part.delta.content or "" for part in mine)


@pytest.mark.representative
def test_chat_answers(client: openai.OpenAI, model: str) -> None:
    result = client.chat.completions.create(model=model, messages=make_messages("Say hello"))
    assert result.object == "chat.completion"
    assert result.id
    assert result.created > 1_700_000_000
    (choice,) = result.choices
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert "hello" in (choice.message.content or "").lower()
    assert result.usage is not None
    assert result.usage.prompt_tokens > 0
    assert result.usage.total_tokens == result.usage.prompt_tokens + result.usage.completion_tokens


def test_answer_carries_a_request_id(client: openai.OpenAI, model: str) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=make_messages("Say hello"), extra_headers={"x-request-id": "my-own-id-1"}
    )
    assert raw.headers["x-request-id"] == "my-own-id-1"
    assert raw.headers["x-gate-provider"] == {"local-chat": "local", "mock-gpt": "mock"}[model]


@pytest.mark.representative
def test_stream_says_what_the_whole_answer_says(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=make_messages("Say hello"))
    chunks = list(client.chat.completions.create(model=model, messages=make_messages("Say hello"), stream=True))
    assert joined(chunks) == whole.choices[0].message.content
    assert len({piece.id for piece in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [part.finish_reason for piece in chunks for part in piece.choices if part.finish_reason] == ["stop"]
    assert len(chunks) > 1


def test_stream_tells_no_usage_unasked(client: openai.OpenAI, model: str) -> None:
    chunks = list(client.chat.completions.create(model=model, messages=make_messages("Say hello"), stream=True))
    assert all(piece.choices for piece in chunks)
    assert all(piece.usage is None for piece in chunks)


def test_stream_ends_with_usage_when_asked(client: openai.OpenAI, model: str) -> None:
    options: ChatCompletionStreamOptionsParam = {"include_usage": True}
    stream = client.chat.completions.create(
        model=model, messages=make_messages("Say hello"), stream=True, stream_options=options
    )
    *chunks, last = stream
    assert all(piece.choices and piece.usage is None for piece in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 0
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens


@pytest.mark.representative
def test_tool_is_called_and_its_result_used(client: openai.OpenAI, model: str) -> None:
    question = make_messages("What is the weather in Paris?")
    first = client.chat.completions.create(model=model, messages=question, tools=TOOLS[:1])
    (choice,) = first.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}

    result: ChatCompletionMessageParam = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}
    turn: ChatCompletionMessageParam = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
        ],
    }
    second = client.chat.completions.create(model=model, messages=[*question, turn, result], tools=TOOLS[:1])
    assert second.choices[0].finish_reason == "stop"
    assert "18 degrees" in (second.choices[0].message.content or "")


def test_parallel_tools_are_called(client: openai.OpenAI, model: str) -> None:
    result = client.chat.completions.create(model=model, messages=make_messages(PARALLEL), tools=TOOLS)
    calls = result.choices[0].message.tool_calls or []
    assert sorted(call.function.name for call in calls if call.type == "function") == ["get_time", "get_weather"]
    assert len({call.id for call in calls}) == 2


def test_streamed_tool_calls_can_be_put_together(client: openai.OpenAI, model: str) -> None:
    stream = client.chat.completions.create(model=model, messages=make_messages(PARALLEL), tools=TOOLS, stream=True)
    names: dict[int, list[str]] = defaultdict(list)
    ids: dict[int, list[str]] = defaultdict(list)
    arguments: dict[int, str] = defaultdict(str)
    reasons = []
    for part in (part for piece in stream for part in piece.choices):
        reasons += [part.finish_reason] if part.finish_reason else []
        for delta in part.delta.tool_calls or []:
            assert delta.function is not None
            ids[delta.index] += [delta.id] if delta.id else []
            names[delta.index] += [delta.function.name] if delta.function.name else []
            arguments[delta.index] += delta.function.arguments or ""
    assert reasons == ["tool_calls"]
    assert list(ids) == [0, 1]  # the index is dense, in the order of the calls
    assert all(len(given) == 1 for given in [*ids.values(), *names.values()])  # told once, in the first delta
    assert sorted(name for (name,) in names.values()) == ["get_time", "get_weather"]
    assert all(isinstance(json.loads(text)["city"], str) for text in arguments.values())


def test_stream_helper_collects_the_answer(client: openai.OpenAI, model: str) -> None:
    with client.chat.completions.stream(model=model, messages=make_messages(PARALLEL), tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert len(final.choices[0].message.tool_calls or []) == 2


def test_schema_is_filled_and_parsed(client: openai.OpenAI, model: str) -> None:
    result = client.chat.completions.parse(
        model=model, messages=make_messages("Report the weather in Oslo."), response_format=Report
    )
    report = result.choices[0].message.parsed
    assert report is not None
    assert report.city == "Oslo"


def test_json_object_is_json(client: openai.OpenAI, model: str) -> None:
    result = client.chat.completions.create(
        model=model, messages=make_messages("Report as JSON."), response_format={"type": "json_object"}
    )
    assert "answer" in json.loads(result.choices[0].message.content or "")


def test_embedded_model_gives_two_choices(client: openai.OpenAI) -> None:
    result = client.chat.completions.create(model="local-chat", messages=make_messages("Say hello"), n=2)
    assert [choice.index for choice in result.choices] == [0, 1]
    assert all(choice.message.content for choice in result.choices)
    chunks = list(
        client.chat.completions.create(model="local-chat", messages=make_messages("Say hello"), n=2, stream=True)
    )
    assert [joined(chunks, choice) for choice in (0, 1)] == [choice.message.content for choice in result.choices]


def test_two_choices_of_an_upstream_arrive(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(completion("left", "right")))
    result = client.chat.completions.create(model="scripted/pair", messages=make_messages("hi"), n=2)
    assert [choice.message.content for choice in result.choices] == ["left", "right"]
    assert upstream.requests[0].json["n"] == 2
    assert upstream.requests[0].json["model"] == "pair"
    assert upstream.requests[0].headers["authorization"] == "Bearer scripted-key"


def test_interleaved_choices_of_an_upstream_arrive(client: openai.OpenAI, upstream: Upstream) -> None:
    pieces = [chunk(0, role="assistant", content="le"), chunk(1, role="assistant", content="ri")]
    rest = [chunk(1, content="ght"), chunk(0, content="ft"), chunk(1, reason="stop"), chunk(0, reason="length")]
    upstream.script(answer(sse(*pieces), sse(*rest, usage_chunk(), DONE)))
    chunks = list(client.chat.completions.create(model="scripted/pair", messages=make_messages("hi"), n=2, stream=True))
    assert [joined(chunks, choice) for choice in (0, 1)] == ["left", "right"]
    reasons = {part.index: part.finish_reason for piece in chunks for part in piece.choices if part.finish_reason}
    assert reasons == {0: "length", 1: "stop"}


def test_usage_is_always_asked_of_the_upstream(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk(role="assistant", content="hi"), chunk(reason="stop"), usage_chunk(), DONE)))
    chunks = list(client.chat.completions.create(model="scripted/usage", messages=make_messages("hi"), stream=True))
    assert upstream.requests[0].json["stream_options"] == {"include_usage": True}
    assert all(piece.choices and piece.usage is None for piece in chunks)


def test_chunks_arrive_while_the_upstream_still_thinks(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(
        answer(sse(chunk(role="assistant", content="early")), Wait("go on"), sse(chunk(reason="stop"), DONE))
    )
    stream = client.chat.completions.create(model="scripted/slow", messages=make_messages("hi"), stream=True)
    assert next(stream).choices[0].delta.content == "early"  # the upstream has not gone on: nothing told it to
    upstream.tell("go on")
    assert [part.finish_reason for piece in stream for part in piece.choices] == ["stop"]


def test_stream_that_breaks_off_is_an_error(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk(role="assistant", content="half of")), Close()))
    stream = client.chat.completions.create(model="scripted/broken", messages=make_messages("hi"), stream=True)
    assert next(stream).choices[0].delta.content == "half of"
    with pytest.raises(openai.APIError):
        list(stream)


def test_leaving_a_stream_closes_the_upstream(client: openai.OpenAI, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk(role="assistant", content="once")), Hang()))
    stream = client.chat.completions.create(model="scripted/left", messages=make_messages("hi"), stream=True)
    next(stream)
    stream.close()
    upstream.wait_until_closed(0)


def test_gateway_goes_on_after_a_stream_was_left(client: openai.OpenAI, model: str) -> None:
    with client.chat.completions.create(
        model=model, messages=make_messages("Tell a long story"), stream=True
    ) as stream:
        next(stream)
    assert client.chat.completions.create(model=model, messages=make_messages("Say hello")).choices


def test_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=make_messages("hi"))
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert "no-such-model" in caught.value.message


def test_wrong_key_is_refused(gateway: Gateway, model: str) -> None:
    stranger = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="wrong-key", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as caught:
        stranger.chat.completions.create(model=model, messages=make_messages("hi"))
    assert caught.value.code == "invalid_api_key"
    assert "wrong-key" not in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("temperature", "hot", "temperature"),
        ("max_tokens", True, "max_tokens"),
        ("n", 1.5, "n"),
        ("messages", [], "messages"),
        ("messages", [{"role": 5, "content": "hi"}], "messages.0.role"),
        ("messages", [{"role": "user", "content": 5}], "messages.0.content"),
    ],
)
def test_wrong_field_is_named(client: openai.OpenAI, model: str, field: str, value: object, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=make_messages("hi"), extra_body={field: value})
    assert caught.value.param == param
    assert caught.value.code
    assert caught.value.type == "invalid_request_error"


def test_rate_limit_of_the_upstream_reaches_the_caller(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="mock/limited", messages=make_messages("fail with a rate limit"))
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("stream", [False, True])
def test_refusal_of_the_upstream_keeps_its_status_and_message(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="maximum context length is 128000"):
        client.chat.completions.create(
            model="mock/long", messages=make_messages("fail with a long context"), stream=stream
        )


def test_refused_upstream_key_is_not_the_callers_fault(client: openai.OpenAI, aimock: Aimock) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="mock/keyless", messages=make_messages("fail with a refused key"))
    assert caught.value.status_code == 502
    assert aimock.key not in str(caught.value.body)


def test_fault_of_the_upstream_is_a_bad_gateway(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="mock/faulty", messages=make_messages("fail with a fault"))
    assert caught.value.status_code == 502


def test_models_are_listed(client: openai.OpenAI) -> None:
    models = {model.id: model for model in client.models.list()}
    assert {"local-chat", "mock-gpt"} <= models.keys()
    assert all(model.object == "model" and model.owned_by for model in models.values())


def test_one_model_is_retrieved(client: openai.OpenAI, model: str) -> None:
    assert client.models.retrieve(model).id == model


def test_unknown_model_is_not_retrieved(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("no-such-model")
    assert caught.value.code == "model_not_found"


@pytest.mark.gen_test(timeout=30)
async def test_asynchronous_calls_run_side_by_side(gateway: Gateway, model: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as client:

        async def whole() -> str:
            result = await client.chat.completions.create(model=model, messages=make_messages("Say hello"))
            return result.choices[0].message.content or ""

        async def streamed() -> str:
            stream = await client.chat.completions.create(model=model, messages=make_messages("Say hello"), stream=True)
            return joined([piece async for piece in stream])

        answers = await asyncio.gather(*(ask() for ask in (whole, streamed) for _ in range(5)))
    assert len(set(answers)) == 1
    assert "hello" in answers[0].lower()
