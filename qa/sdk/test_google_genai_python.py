"""google-genai for Python against the gateway: the embedded model, Gemini's own API behind it, and OpenAI's behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

from qa.sdk.conftest import KEY
from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.upstream import Close, Upstream, Wait, answer, sse

# Each target has a circuit of its own: what fails on purpose is asked under a name of its own ("mock/…", "scripted/…").
CONF = """
plugins: {{local: true, openai: true, gemini: true, format-gemini: true}}
providers:
  local: {{plugin: local}}
  google: {{plugin: gemini, base_url: "{aimock}", api_key: "{aimock_key}"}}
  openai: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}"}}
  scripted: {{plugin: gemini, base_url: "{scripted}", api_key: scripted-key}}
models:
  local-chat: {{provider: local, display_name: The embedded one, input_token_limit: 32000}}
  mock-gemini: {{provider: google, model: gemini-2.5-flash}}
  mock-gpt: {{provider: openai, model: gpt-4o}}
  "mock/*": {{provider: google}}
  "scripted/*": {{provider: scripted}}
keys:
  - {{name: test, key: "{key}"}}
"""


class Report(BaseModel):
    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: The city's name.
    """
    return f"18 degrees in {city}"


CITY = types.Schema(
    type=types.Type.OBJECT, properties={"city": types.Schema(type=types.Type.STRING)}, required=["city"]
)
WEATHER = types.FunctionDeclaration(name="get_weather", description="The weather of a city", parameters=CITY)
TIME = types.FunctionDeclaration(name="get_time", description="The time of day in a city", parameters=CITY)
PARALLEL = "What is the weather in Paris and the time in Tokyo?"
MANUAL = types.AutomaticFunctionCallingConfig(disable=True)


@pytest.fixture(scope="module")
def gateway(aimock: Aimock, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose models are the embedded one and aimock's, by two of its surfaces."""
    conf = CONF.format(aimock=aimock.url, aimock_key=aimock.key, scripted=upstream_process.url, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("gateway"))
    yield started
    started.stop()


def client_of(gateway: Gateway, version: str | None = None, key: str = KEY) -> genai.Client:
    options = types.HttpOptions(base_url=gateway.url, api_version=version, timeout=20_000)
    return genai.Client(api_key=key, vertexai=False, http_options=options)


@pytest.fixture(scope="module", params=[None, "v1beta"])
def client(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[genai.Client]:
    """Of the version that the SDK takes by itself, and of the contract's."""
    with client_of(gateway, request.param) as client:
        yield client


@pytest.fixture(params=["local-chat", "mock-gemini", "mock-gpt"])
def model(request: pytest.FixtureRequest) -> str:
    """A model of the embedded provider, one that speaks this format, and one that speaks another."""
    name: str = request.param
    return name


def joined(chunks: Iterable[types.GenerateContentResponse]) -> str:
    return "".join(chunk.text or "" for chunk in chunks)


def finish_of(result: types.GenerateContentResponse) -> types.FinishReason | None:
    (candidate,) = result.candidates or []
    return candidate.finish_reason


@pytest.mark.representative
def test_content_is_generated(client: genai.Client, model: str) -> None:
    result = client.models.generate_content(model=model, contents="Say hello")
    assert "hello" in (result.text or "").lower()
    assert finish_of(result) == types.FinishReason.STOP
    usage = result.usage_metadata
    assert usage is not None
    assert usage.total_token_count == (usage.prompt_token_count or 0) + (usage.candidates_token_count or 0)


@pytest.mark.representative
def test_stream_says_what_the_whole_answer_says(client: genai.Client, model: str) -> None:
    whole = client.models.generate_content(model=model, contents="Say hello")
    chunks = list(client.models.generate_content_stream(model=model, contents="Say hello"))
    assert joined(chunks) == whole.text
    assert len(chunks) > 1
    assert [finish_of(chunk) for chunk in chunks if finish_of(chunk)] == [types.FinishReason.STOP]
    assert chunks[-1].usage_metadata is not None


def test_chat_goes_on_from_turn_to_turn(client: genai.Client, model: str) -> None:
    chat = client.chats.create(model=model)
    chat.send_message("Say hello")
    assert list(chat.send_message_stream("Say hello again"))
    assert [content.role for content in chat.get_history(curated=True)][:3] == ["user", "model", "user"]


@pytest.mark.representative
def test_function_is_called_and_its_result_used_by_hand(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[WEATHER])], automatic_function_calling=MANUAL
    )
    question = types.Content(role="user", parts=[types.Part(text="What is the weather in Paris?")])
    first = client.models.generate_content(model=model, contents=[question], config=config)
    (call,) = first.function_calls or []
    assert (call.name, call.args) == ("get_weather", {"city": "Paris"})
    assert first.candidates is not None
    turn = first.candidates[0].content
    assert turn is not None
    result = types.Part.from_function_response(name="get_weather", response={"result": "18 degrees"})
    contents = [question, turn, types.Content(role="user", parts=[result])]
    second = client.models.generate_content(model=model, contents=contents, config=config)
    assert "18 degrees" in (second.text or "")
    assert finish_of(second) == types.FinishReason.STOP


def test_function_is_called_and_its_result_used_by_the_sdk(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(tools=[get_weather])
    result = client.models.generate_content(model=model, contents="What is the weather in Paris?", config=config)
    assert "18 degrees" in (result.text or "")
    assert result.automatic_function_calling_history


def test_function_is_called_in_a_stream_by_the_sdk(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(tools=[get_weather])
    question = "What is the weather in Paris?"
    chunks = list(client.models.generate_content_stream(model=model, contents=question, config=config))
    assert "18 degrees" in joined(chunks)


@pytest.mark.parametrize("stream", [False, True])
def test_parallel_functions_are_called(client: genai.Client, model: str, stream: bool) -> None:
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[WEATHER, TIME])], automatic_function_calling=MANUAL
    )
    if stream:
        results = list(client.models.generate_content_stream(model=model, contents=PARALLEL, config=config))
    else:
        results = [client.models.generate_content(model=model, contents=PARALLEL, config=config)]
    calls = [call for result in results for call in result.function_calls or []]
    assert sorted(call.name or "" for call in calls) == ["get_time", "get_weather"]
    assert all(isinstance((call.args or {})["city"], str) for call in calls)


@pytest.mark.parametrize("model", ["local-chat", "mock-gpt"])
def test_schema_is_filled_and_parsed(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Report)
    result = client.models.generate_content(model=model, contents="Report the weather in Oslo.", config=config)
    assert isinstance(result.parsed, Report)
    assert result.parsed.city == "Oslo"


@pytest.mark.parametrize("model", ["local-chat", "mock-gpt"])
def test_json_schema_is_filled(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_json_schema=Report.model_json_schema()
    )
    result = client.models.generate_content(model=model, contents="Report the weather in Oslo.", config=config)
    assert json.loads(result.text or "")["city"] == "Oslo"


def test_instructions_and_config_are_taken(client: genai.Client, model: str) -> None:
    config = types.GenerateContentConfig(
        system_instruction="Be brief.", temperature=0.2, top_p=0.9, max_output_tokens=500, stop_sequences=["END"]
    )
    result = client.models.generate_content(model=model, contents="Say hello", config=config)
    assert "hello" in (result.text or "").lower()


def test_picture_is_taken(client: genai.Client) -> None:
    picture = types.Part.from_bytes(data=b"\x89PNG\xff\xfe\xfb", mime_type="image/png")
    question = types.Content(role="user", parts=[picture, types.Part(text="What is this?")])
    result = client.models.generate_content(model="local-chat", contents=[question])
    assert result.text


def test_tokens_are_counted(client: genai.Client) -> None:
    few = client.models.count_tokens(model="local-chat", contents="Hi")
    many = client.models.count_tokens(model="local-chat", contents="Hi " * 100)
    assert 0 < (few.total_tokens or 0) < (many.total_tokens or 0)


def test_tokens_of_a_model_whose_upstream_does_not_count_are_estimated(client: genai.Client) -> None:
    result = client.models.count_tokens(model="mock-gpt", contents="Hi " * 4000)
    assert 3000 <= (result.total_tokens or 0) < 3500
    assert result.sdk_http_response is not None
    assert (result.sdk_http_response.headers or {})["x-gate-estimate"] == "input_tokens"


def test_tokens_are_counted_by_the_upstream(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(answer('{"totalTokens": 31}'))
    assert client.models.count_tokens(model="scripted/m", contents="Hi").total_tokens == 31
    assert upstream.requests[0].path == "/v1beta/models/m:countTokens"


def test_models_are_listed(client: genai.Client) -> None:
    models = {model.name: model for model in client.models.list()}
    assert {"models/local-chat", "models/mock-gemini", "models/mock-gpt"} <= models.keys()
    local = models["models/local-chat"]
    assert (local.display_name, local.input_token_limit) == ("The embedded one", 32000)
    assert "generateContent" in (local.supported_actions or [])


def test_models_are_listed_page_by_page(client: genai.Client) -> None:
    names = [model.name for model in client.models.list()]
    assert [model.name for model in client.models.list(config={"page_size": 1})] == names


def test_one_model_is_retrieved(client: genai.Client, model: str) -> None:
    assert client.models.get(model=model).name == f"models/{model}"


def test_unknown_model_is_not_found(client: genai.Client) -> None:
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="no-such-model", contents="Hi")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    assert "no-such-model" in (caught.value.message or "")
    with pytest.raises(errors.ClientError):
        client.models.get(model="no-such-model")


def test_wrong_key_is_refused(gateway: Gateway) -> None:
    stranger = client_of(gateway, "v1beta", key="wrong-key")
    with stranger, pytest.raises(errors.ClientError) as caught:
        stranger.models.generate_content(model="local-chat", contents="Hi")
    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")
    assert "wrong-key" not in str(caught.value)


def test_wrong_field_is_named(client: genai.Client, model: str) -> None:
    options = types.HttpOptions(extra_body={"generationConfig": {"temperature": "hot"}})
    config = types.GenerateContentConfig(http_options=options)
    with pytest.raises(errors.ClientError, match=r"generationConfig\.temperature") as caught:
        client.models.generate_content(model=model, contents="Hi", config=config)
    assert (caught.value.code, caught.value.details["error"]["code"]) == (400, 400)
    assert caught.value.details["error"]["param"] == "generationConfig.temperature"


@pytest.mark.parametrize("stream", [False, True])
def test_refusal_of_the_upstream_keeps_its_status_and_message(client: genai.Client, stream: bool) -> None:
    with pytest.raises(errors.ClientError, match="maximum context length is 128000") as caught:
        if stream:
            list(client.models.generate_content_stream(model="mock/long", contents="fail with a long context"))
        else:
            client.models.generate_content(model="mock/long", contents="fail with a long context")
    assert caught.value.code == 400


def test_refused_upstream_key_is_not_the_callers_fault(client: genai.Client, aimock: Aimock) -> None:
    with pytest.raises(errors.ServerError) as caught:
        client.models.generate_content(model="mock/keyless", contents="fail with a refused key")
    assert caught.value.code == 502
    assert aimock.key not in str(caught.value)


def chunk(text: str, **candidate: Any) -> dict[str, Any]:
    """One chunk as the vendor's API sends it."""
    content = {"parts": [{"text": text}], "role": "model"}
    return {"candidates": [{"content": content, "index": 0, **candidate}], "modelVersion": "m", "responseId": "r"}


def test_chunks_arrive_while_the_upstream_still_thinks(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk("early")), Wait("go on"), sse(chunk("late", finishReason="STOP"))))
    stream = client.models.generate_content_stream(model="scripted/slow", contents="Hi")
    assert next(stream).text == "early"  # the upstream has not gone on: nothing told it to
    upstream.tell("go on")
    assert joined(stream) == "late"


def test_body_reaches_an_upstream_of_this_format_as_it_came(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk("Hi", finishReason="STOP"))))
    config = types.GenerateContentConfig(top_k=5, safety_settings=[])
    list(client.models.generate_content_stream(model="scripted/m", contents="Hi", config=config))
    (request,) = upstream.requests
    assert request.path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == "scripted-key"
    assert request.json["contents"] == [{"parts": [{"text": "Hi"}], "role": "user"}]


def test_stream_that_breaks_off_is_an_error(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(answer(sse(chunk("half of")), Close()))
    stream = client.models.generate_content_stream(model="scripted/broken", contents="Hi")
    assert next(stream).text == "half of"
    with pytest.raises(errors.APIError) as caught:
        list(stream)
    assert caught.value.code == 502


def test_blocked_prompt_is_told(client: genai.Client, upstream: Upstream) -> None:
    upstream.script(answer(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}})))
    result = client.models.generate_content(model="scripted/m", contents="Hi")
    assert not result.candidates
    assert result.prompt_feedback is not None
    assert result.prompt_feedback.block_reason == types.BlockedReason.SAFETY


@pytest.mark.gen_test(timeout=30)
async def test_asynchronous_calls_run_side_by_side(gateway: Gateway, model: str) -> None:
    async with client_of(gateway, "v1beta").aio as client:

        async def whole() -> str:
            result = await client.models.generate_content(model=model, contents="Say hello")
            return result.text or ""

        async def streamed() -> str:
            stream = await client.models.generate_content_stream(model=model, contents="Say hello")
            return joined([piece async for piece in stream])

        answers = await asyncio.gather(*(ask() for ask in (whole, streamed) for _ in range(5)))
    assert len(set(answers)) == 1
    assert "hello" in answers[0].lower()
