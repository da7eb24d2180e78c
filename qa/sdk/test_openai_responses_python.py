"""openai-python's responses and completions against the gateway, and the contract's dialect by plain HTTP.

Three ways to an answer: the embedded provider, an independent upstream by translation to its chat, and the same upstream
with the bodies as they came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import (
    FunctionToolParam,
    Response,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseStreamEvent,
)
from pydantic import BaseModel

from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.upstream import Close, Upstream, answer, sse

KEY = "test-key-of-the-responses-tests"

CONF = """
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  translated: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}"}}
  verbatim: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}", responses: true, completions: true}}
  native: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}", api: responses, responses: false}}
  scripted: {{plugin: openai, base_url: "{scripted}/v1", api_key: scripted-upstream-key, responses: true, completions: true}}
  scripted-chat: {{plugin: openai, base_url: "{scripted}/v1", api_key: scripted-upstream-key}}
models:
  local-chat: {{provider: local}}
  translated: {{provider: translated, model: gpt-4o}}
  verbatim: {{provider: verbatim, model: gpt-4o}}
  native: {{provider: native, model: gpt-4o}}
  "scripted/*": {{provider: scripted}}
  "scripted-chat/*": {{provider: scripted-chat}}
keys:
  - {{name: test, key: "{key}"}}
  - {{name: other, key: "{key}-of-another"}}
"""


class Report(BaseModel):
    city: str
    degrees: int


def tool(name: str, description: str) -> FunctionToolParam:
    city: dict[str, object] = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": description, "parameters": city, "strict": True}


TOOLS = [tool("get_weather", "The weather of a city"), tool("get_time", "The time of day in a city")]
PARALLEL = "What is the weather in Paris and the time in Tokyo?"


@pytest.fixture(scope="module")
def gateway(aimock: Aimock, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(aimock=aimock.url, aimock_key=aimock.key, scripted=upstream_process.url, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("responses"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture(params=["local-chat", "translated", "native", "verbatim"])
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["local-chat", "translated", "native"])
def bridged(request: pytest.FixtureRequest) -> str:
    """A model whose turns the gateway keeps."""
    name: str = request.param
    return name


@pytest.fixture(params=["local-chat", "translated"])
def complete(request: pytest.FixtureRequest) -> str:
    """A model that counts tokens and fills schemas: aimock does neither where it is asked for responses."""
    name: str = request.param
    return name


def post(gateway: Gateway, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    """A plain client, which no SDK's headers give away."""
    headers = {"authorization": f"Bearer {KEY}", "user-agent": "curl/8.5.0", **headers}
    return httpx2.post(f"{gateway.url}{path}", json=body, headers=headers, timeout=20)


def calls_of(response: Response) -> list[ResponseFunctionToolCall]:
    return [item for item in response.output if isinstance(item, ResponseFunctionToolCall)]


@pytest.mark.representative
def test_response_answers(client: openai.OpenAI, model: str) -> None:
    response = client.responses.create(model=model, input="Say hello", instructions="Be brief.")
    assert (response.object, response.status) == ("response", "completed")
    assert response.id.startswith("resp")
    assert response.created_at > 1_700_000_000
    assert "hello" in response.output_text.lower()
    (message,) = response.output
    assert message.type == "message"
    assert (message.status, message.content[0].type) == ("completed", "output_text")


def test_usage_is_told(client: openai.OpenAI, complete: str) -> None:
    usage = client.responses.create(model=complete, input="Say hello").usage
    assert usage is not None
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens > 0


@pytest.mark.representative
def test_stream_says_what_the_whole_answer_says(client: openai.OpenAI, model: str) -> None:
    whole = client.responses.create(model=model, input="Say hello")
    events = list(client.responses.create(model=model, input="Say hello", stream=True))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == whole.output_text
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text


def test_numbers_and_ids_of_a_stream_agree(client: openai.OpenAI, bridged: str) -> None:
    events = list(client.responses.create(model=bridged, input=PARALLEL, tools=TOOLS, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert {id_of(event) for event in events if id_of(event)} == {last.response.id}
    for place, item in enumerate(last.response.output):
        mine = [event for event in events if getattr(event, "output_index", None) == place]
        assert {getattr(event, "item_id", item.id) for event in mine} == {item.id}
        assert [mine[0].type, mine[-1].type] == ["response.output_item.added", "response.output_item.done"]
        assert item.type == "function_call"
        assert item.call_id != item.id


def id_of(event: ResponseStreamEvent) -> str:
    return str(getattr(getattr(event, "response", None), "id", ""))


def test_stream_helper_collects_the_answer(client: openai.OpenAI, model: str) -> None:
    with client.responses.stream(model=model, input=PARALLEL, tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    assert sorted(item.name for item in final.output if item.type == "function_call") == ["get_time", "get_weather"]


def test_tool_is_called_and_its_result_used(client: openai.OpenAI, model: str) -> None:
    question: ResponseInputItemParam = {"role": "user", "content": "What is the weather in Paris?"}
    first = client.responses.create(model=model, input=[question], tools=TOOLS[:1])
    (call,) = calls_of(first)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert call.id != call.call_id
    result: ResponseInputItemParam = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    turn: list[Any] = [question, *(item.model_dump(exclude_none=True) for item in first.output), result]
    second = client.responses.create(model=model, input=turn, tools=TOOLS[:1])
    assert "18 degrees" in second.output_text


@pytest.mark.representative
def test_result_alone_goes_on_with_a_response_that_was_kept(client: openai.OpenAI, bridged: str) -> None:
    first = client.responses.create(model=bridged, input="What is the weather in Paris?", tools=TOOLS[:1])
    (call,) = calls_of(first)
    result: ResponseInputItemParam = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    second = client.responses.create(model=bridged, input=[result], previous_response_id=first.id, tools=TOOLS[:1])
    assert "18 degrees" in second.output_text
    assert second.previous_response_id == first.id


def test_streamed_response_can_be_continued_at_once(client: openai.OpenAI, bridged: str) -> None:
    events = client.responses.create(model=bridged, input="What is the weather in Paris?", tools=TOOLS[:1], stream=True)
    for event in events:
        if event.type == "response.completed":  # the stream is still open
            break
    assert event.type == "response.completed"
    (call,) = calls_of(event.response)
    result: ResponseInputItemParam = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    second = client.responses.create(model=bridged, input=[result], previous_response_id=event.response.id)
    assert "18 degrees" in second.output_text
    events.close()


def test_items_can_be_named_by_reference(client: openai.OpenAI, bridged: str) -> None:
    first = client.responses.create(model=bridged, input="What is the weather in Paris?", tools=TOOLS[:1])
    (call,) = calls_of(first)
    items: list[ResponseInputItemParam] = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"type": "item_reference", "id": str(call.id)},
        {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"},
    ]
    assert "18 degrees" in client.responses.create(model=bridged, input=items).output_text


def test_upstream_that_keeps_its_own_turns_gets_ours_in_full(client: openai.OpenAI, aimock: Aimock) -> None:
    first = client.responses.create(model="local-chat", input="Say hello")
    client.responses.create(model="verbatim", input="Say hello", previous_response_id=first.id)
    body = aimock.journal()[-1].body
    assert "previous_response_id" not in body
    texts = json.dumps(body)
    assert first.output_text.split()[0] in texts


@pytest.mark.parametrize("wrong", ["resp_unknown", "x" * 300, "../../etc"])
def test_unknown_response_is_not_found(client: openai.OpenAI, bridged: str, wrong: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=bridged, input="Say hello", previous_response_id=wrong)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_response_of_another_account_is_as_unknown(gateway: Gateway, client: openai.OpenAI) -> None:
    mine = client.responses.create(model="local-chat", input="Say hello")
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=f"{KEY}-of-another", max_retries=0) as stranger:
        with pytest.raises(openai.BadRequestError) as caught:
            stranger.responses.create(model="local-chat", input="Say hello", previous_response_id=mine.id)
        with pytest.raises(openai.NotFoundError):
            stranger.responses.retrieve(mine.id)
    assert caught.value.code == "previous_response_not_found"


def test_response_that_was_not_to_be_kept_is_not(client: openai.OpenAI, bridged: str) -> None:
    first = client.responses.create(model=bridged, input="Say hello", store=False)
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=bridged, input="Say hello", previous_response_id=first.id)


def test_response_that_was_kept_is_retrieved(client: openai.OpenAI, bridged: str) -> None:
    first = client.responses.create(model=bridged, input="Say hello")
    again = client.responses.retrieve(first.id)
    assert (again.id, again.output_text, again.usage) == (first.id, first.output_text, first.usage)
    (item,) = client.responses.input_items.list(first.id)
    assert item.type == "message"
    assert item.content[0].type == "input_text"


def test_schema_is_filled_and_parsed(client: openai.OpenAI, complete: str) -> None:
    response = client.responses.parse(model=complete, input="Report the weather in Oslo.", text_format=Report)
    assert response.output_parsed is not None
    assert response.output_parsed.city == "Oslo"


@pytest.mark.gen_test(timeout=30)
async def test_asynchronous_client_streams(gateway: Gateway, model: str) -> None:
    client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    async with client, client.responses.stream(model=model, input="Say hello") as stream:
        final = await stream.get_final_response()
    assert "hello" in final.output_text.lower()


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("temperature", "hot", "temperature"),
        ("max_output_tokens", True, "max_output_tokens"),
        ("input", [{"role": 5, "content": "hi"}], "input.0.role"),
        ("tools", [{"type": "function", "name": 5}], "tools.0.name"),
    ],
)
def test_wrong_field_is_named(client: openai.OpenAI, model: str, field: str, value: object, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=model, input="hi", extra_body={field: value})
    assert caught.value.param == param


def test_background_is_refused_where_no_upstream_has_it(client: openai.OpenAI, bridged: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=bridged, input="hi", background=True)
    assert caught.value.param == "background"


def test_broken_stream_ends_with_a_failed_response(client: openai.OpenAI, upstream: Upstream) -> None:
    half = {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "half of"}, "finish_reason": None}]}
    upstream.script(answer(sse(half), Close()))
    events = list(client.responses.create(model="scripted-chat/broken", input="hi", stream=True))
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    assert kinds[-2:] == ["error", "response.failed"]
    assert "response.completed" not in kinds


def test_broken_verbatim_stream_ends_with_a_failed_response(client: openai.OpenAI, upstream: Upstream) -> None:
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "model": "m"}
    created = {"type": "response.created", "sequence_number": 0, "response": response}
    upstream.script(answer(sse(created), Close()))
    events = list(client.responses.create(model="scripted/broken-response", input="hi", stream=True))
    assert [event.type for event in events] == ["response.created", "error", "response.failed"]
    assert [event.sequence_number for event in events] == [0, 1, 2]


def test_contracts_client_gets_the_contracts_shape(gateway: Gateway, model: str) -> None:
    body = {"model": model, "input": "Say hello", "instructions": "Be brief.", "reasoning": {"effort": "low"}}
    answered = post(gateway, "/v1/responses", body)
    assert answered.status_code == 200
    response = answered.json()
    assert (response["object"], response["status"]) == ("response", "completed")
    assert isinstance(response["created_at"], int)
    (message,) = response["output"]
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert message["id"]
    assert message["status"]
    (part,) = message["content"]
    assert part.keys() == {"type", "text"}
    assert part["type"] == "text"
    assert "hello" in part["text"].lower()
    usage = response["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"user-agent": "OpenAI/Python 3.52.0"}, {}),
        ({"user-agent": "Agents/Python 0.20.0"}, {}),
        ({"x-stainless-lang": "js"}, {}),
        ({}, {"input": [{"role": "user", "content": "Say hello"}]}),
        ({}, {"temperature": 0.5}),
    ],
)
def test_every_other_client_gets_the_vendors_shape(
    gateway: Gateway, model: str, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    response = post(gateway, "/v1/responses", {"model": model, "input": "Say hello", **fields}, **headers).json()
    assert response["output"][-1]["content"][0]["type"] == "output_text"
    assert response["usage"]["prompt_tokens"] == response["usage"]["input_tokens"]


def test_completion_answers(client: openai.OpenAI, complete: str) -> None:
    completion = client.completions.create(model=complete, prompt="Say hello", max_tokens=100, temperature=0)
    assert completion.object == "text_completion"
    (choice,) = completion.choices
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert "hello" in choice.text.lower()
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


def test_completion_streams(client: openai.OpenAI, bridged: str) -> None:
    whole = client.completions.create(model=bridged, prompt="Say hello").choices[0].text
    chunks = list(client.completions.create(model=bridged, prompt="Say hello", stream=True))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole
    assert [choice.finish_reason for choice in chunks[-1].choices] == ["stop"]


def test_completion_echoes_its_prompt(client: openai.OpenAI, bridged: str) -> None:
    text = client.completions.create(model=bridged, prompt="Say hello", echo=True).choices[0].text
    assert text.startswith("Say hello")
    assert len(text) > len("Say hello")


def test_several_prompts_need_an_upstream_that_completes(
    client: openai.OpenAI, bridged: str, upstream: Upstream
) -> None:
    with pytest.raises(openai.BadRequestError, match="has 2 prompts, but this model supports only one") as caught:
        client.completions.create(model=bridged, prompt=["a", "b"])
    assert caught.value.param == "prompt"
    choices = [{"text": text, "index": index, "finish_reason": "stop"} for index, text in enumerate(("A", "B"))]
    body = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}
    upstream.script(answer(json.dumps(body)))
    whole = client.completions.create(model="scripted/many", prompt=["a", "b"])
    assert [choice.text for choice in whole.choices] == ["A", "B"]
    assert upstream.requests[0].path == "/v1/completions"


def test_key_of_the_upstream_never_comes_back(client: openai.OpenAI, upstream: Upstream) -> None:
    error = {"error": {"message": "you sent scripted-upstream-key", "type": "server_error"}}
    upstream.script(answer(json.dumps(error), repeat=True))
    for name in ("scripted/leak", "scripted-chat/leak"):
        for stream in (False, True):
            with pytest.raises(openai.APIError) as caught:
                list(client.responses.create(model=name, input="hi", stream=stream))
            assert "scripted-upstream-key" not in str(caught.value.body)
