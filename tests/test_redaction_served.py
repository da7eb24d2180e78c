"""No caller gets the key of an upstream, whatever the upstream repeats. Real gateway, scripted upstreams."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import DONE, EVENT_STREAM, JSON, Answer, Upstream, answer, sse

CALLER = "test-key-of-redaction"
KEY = "sk-proj-0123456789abcdef"
TOKEN = "proxy.token-0123456789"
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/o/v1", responses: true, api_key: {secret}, headers: {{x-proxy-token: "{token}"}}}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: {secret}, headers: {{x-proxy-token: "{token}"}}}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: {secret}, headers: {{x-proxy-token: "{token}"}}}}
  none: {{plugin: openai, base_url: "{url}/o/v1", responses: true, api_key: none}}
  ollama: {{plugin: openai, base_url: "{url}/o/v1", api_key: ollama}}
  empty-a: {{plugin: anthropic, base_url: "{url}/a", api_key: EMPTY}}
  empty-g: {{plugin: gemini, base_url: "{url}/g", api_key: EMPTY}}
models:
  o-model: {{provider: o, model: gpt-4o}}
  a-model: {{provider: a, model: claude-sonnet-4-5}}
  g-model: {{provider: g, model: gemini-3-pro-preview}}
  none-model: {{provider: none, model: gpt-4o}}
  ollama-model: {{provider: ollama, model: gpt-4o}}
  empty-a-model: {{provider: empty-a, model: claude-sonnet-4-5}}
  empty-g-model: {{provider: empty-g, model: gemini-3-pro-preview}}
  speech: {{provider: o, model: tts-1}}
  vectors: {{provider: o, model: text-embedding-3-small}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {caller}}}
"""

TURN = [{"role": "user", "content": "Hi"}]
CALLERS = ("chat", "responses", "messages", "generate")
OWN_MODELS = {"chat": "o-model", "responses": "o-model", "messages": "a-model", "generate": "g-model"}
LANES = [
    *OWN_MODELS.items(),
    ("chat", "a-model"), ("chat", "g-model"), ("responses", "a-model"), ("messages", "o-model"),
    ("messages", "g-model"), ("generate", "o-model"), ("generate", "a-model"),
]  # fmt: skip
"""The verbatim lane of each format, and translations from each to others."""


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, secret=KEY, token=TOKEN, caller=CALLER)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("redaction"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


def send_request(gateway: Gateway, caller: str, model: str, *, stream: bool = False) -> httpx.Response:
    """A request of one format."""
    path, body = "/v1/chat/completions", {"model": model, "messages": TURN, "stream": stream}
    if caller == "responses":
        path, body = "/v1/responses", {"model": model, "input": "Hi", "stream": stream}
    elif caller == "messages":
        path, body = "/v1/messages", {"model": model, "messages": TURN, "max_tokens": 9, "stream": stream}
    elif caller == "generate":
        path = f"/v1beta/models/{model}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
        body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    return post(gateway, path, body)


def post(gateway: Gateway, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {CALLER}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=30)


def spoken_to(caller: str, model: str) -> str:
    """Which API the upstream of `model` is asked by: its own, which for responses is that of the caller."""
    if model.endswith("o-model") or model in ("none-model", "ollama-model"):
        return "responses" if caller == "responses" else "chat"
    return "messages" if model.endswith("a-model") else "generate"


def o_message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


def o_response(*output: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "model": "gpt-4o", "output": list(output)}


def whole(api: str, text: str) -> str:
    """A whole answer of an API."""
    message = {"role": "assistant", "content": text}
    bodies: dict[str, Any] = {
        "chat": {"id": "c1", "model": "gpt-4o", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]},
        "responses": o_response(o_message(text)),
        "messages": {
            "id": "m1", "type": "message", "role": "assistant", "model": "claude", "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "generate": {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]},
    }  # fmt: skip
    return json.dumps(bodies[api])


def deltas(api: str, *texts: str) -> str:
    """The beginning of a stream of an API, with these texts."""
    if api == "chat":
        return sse(*({"id": "c1", "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts))
    if api == "generate":
        return sse(*({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]} for text in texts))
    if api == "messages":
        start = {"type": "message_start", "message": {**json.loads(whole(api, "")), "content": [], "stop_reason": None}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return named(start, block, *({
            "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}
        } for text in texts))  # fmt: skip
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return named(
        {"type": "response.created", "response": o_response(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**o_message(""), "content": []}},
        {"type": "response.content_part.added", **place, "part": o_message("")["content"][0]},
        *({"type": "response.output_text.delta", **place, "delta": text} for text in texts),
    )


def last(api: str, text: str) -> str:
    """The end of a stream that was begun by `deltas`."""
    if api == "chat":
        return sse({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, DONE)
    if api == "generate":
        return sse({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}]})
    if api == "messages":
        delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        return named({"type": "content_block_stop", "index": 0}, delta, {"type": "message_stop"})
    return named(
        {"type": "response.output_item.done", "output_index": 0, "item": o_message(text)},
        {"type": "response.completed", "response": o_response(o_message(text))},
    )


def named(*events: dict[str, Any]) -> str:
    return "".join(f"event: {event['type']}\n{sse(event)}" for event in events)


def error_body(api: str, message: str, status: int = 400) -> dict[str, Any]:
    if api == "messages":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    if api == "generate":
        return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    return {"error": {"message": message, "type": "invalid_request_error", "param": message, "code": message}}


def error_event(api: str, message: str) -> str:
    if api == "responses":
        return named({"type": "error", "message": message, "code": "server_error"})
    return sse(error_body(api, message, 500)) if api != "messages" else named(error_body(api, message))


def read_text(response: httpx.Response) -> str:
    """All of an answer, its headers included."""
    return "\n".join([*(f"{name}: {value}" for name, value in response.headers.items()), response.text])


def assert_masked(response: httpx.Response) -> None:
    everything = read_text(response)
    assert KEY not in everything
    assert TOKEN not in everything
    assert "***" in everything


SECRETS = pytest.mark.parametrize("secret", [KEY, TOKEN], ids=["key", "header-of-conf"])
EACH_LANE = pytest.mark.parametrize(("caller", "model"), LANES)


@SECRETS
@EACH_LANE
def test_a_whole_answer(gateway: Gateway, upstream: Upstream, caller: str, model: str, secret: str) -> None:
    upstream.script(answer(whole(spoken_to(caller, model), f"It is {secret}. Yes.")))

    response = send_request(gateway, caller, model)

    assert response.status_code == 200, response.text
    assert_masked(response)
    assert "It is ***. Yes." in response.text


@SECRETS
@EACH_LANE
def test_a_stream(gateway: Gateway, upstream: Upstream, caller: str, model: str, secret: str) -> None:
    api = spoken_to(caller, model)
    text = f"It is {secret}. Yes."
    upstream.script(answer(deltas(api, text), last(api, text), headers=EVENT_STREAM))

    response = send_request(gateway, caller, model, stream=True)

    assert response.status_code == 200, response.text
    assert_masked(response)
    assert "It is ***. Yes." in response.text


@EACH_LANE
def test_a_stream_that_is_cut_inside_the_key(gateway: Gateway, upstream: Upstream, caller: str, model: str) -> None:
    api = spoken_to(caller, model)
    raw = deltas(api, f"It is {KEY}. Yes.") + last(api, "")
    middle = raw.index(KEY) + 9
    upstream.script(answer(raw[:middle], raw[middle:], headers=EVENT_STREAM))

    assert_masked(send_request(gateway, caller, model, stream=True))


@EACH_LANE
def test_a_whole_answer_that_is_cut_inside_the_key(
    gateway: Gateway, upstream: Upstream, caller: str, model: str
) -> None:
    raw = whole(spoken_to(caller, model), f"It is {KEY}. Yes.")
    middle = raw.index(KEY) + 9
    upstream.script(answer(raw[:middle], raw[middle:]))

    assert_masked(send_request(gateway, caller, model))


@SECRETS
@pytest.mark.parametrize("stream", [False, True])
@EACH_LANE
def test_a_refusal(gateway: Gateway, upstream: Upstream, caller: str, model: str, stream: bool, secret: str) -> None:
    upstream.script(answer(json.dumps(error_body(spoken_to(caller, model), f"bad {secret}")), status=400))

    response = send_request(gateway, caller, model, stream=stream)

    assert response.status_code == 400
    assert_masked(response)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("spelling", [KEY, "\\u0073" + KEY[1:]], ids=["plain", "escaped"])
@EACH_LANE
def test_an_error_with_status_200(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, spelling: str, stream: bool
) -> None:
    api = spoken_to(caller, model)
    body = json.dumps(error_body(api, f"bad {KEY}")).replace(KEY, spelling)
    upstream.script(answer(f"data: {body}\n\n", headers=EVENT_STREAM) if stream else answer(body))

    response = send_request(gateway, caller, model, stream=stream)

    assert response.status_code >= 400
    assert_masked(response)


@pytest.mark.parametrize(
    "spelling",
    [KEY, "\\u0073" + KEY[1:], f"bad_{KEY}_of", base64.b64encode(KEY.encode()).decode()],
    ids=["plain", "escaped", "inside", "base64"],
)
@EACH_LANE
def test_an_error_in_the_middle_of_a_stream(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, spelling: str
) -> None:
    api = spoken_to(caller, model)
    broke = error_event(api, "it broke: KEY").replace("KEY", spelling)
    upstream.script(answer(deltas(api, "Hello"), broke, headers=EVENT_STREAM))

    response = send_request(gateway, caller, model, stream=True)

    assert "Hello" in response.text
    assert spelling not in response.text
    assert_masked(response)


@EACH_LANE
def test_a_header_of_a_refusal(gateway: Gateway, upstream: Upstream, caller: str, model: str) -> None:
    headers = {**JSON, "retry-after": f"Wed, 21 Oct 2015 07:28:00 GMT ({KEY})", "x-echo": KEY}
    upstream.script(answer(json.dumps(error_body(spoken_to(caller, model), "slow")), status=429, headers=headers))

    response = send_request(gateway, caller, model)

    assert response.headers["retry-after"] == "Wed, 21 Oct 2015 07:28:00 GMT (***)"
    assert_masked(response)


@pytest.mark.parametrize("stream", [False, True])
@EACH_LANE
def test_a_header_of_an_answer(gateway: Gateway, upstream: Upstream, caller: str, model: str, stream: bool) -> None:
    api = spoken_to(caller, model)
    kind = "text/event-stream" if stream else "application/json"
    steps = (deltas(api, "Hello"), last(api, "Hello")) if stream else (whole(api, "Hello"),)
    upstream.script(answer(*steps, headers={"content-type": f"{kind}; echo={KEY}", "x-echo": KEY}))

    response = send_request(gateway, caller, model, stream=stream)

    assert response.status_code == 200
    assert "Hello" in response.text
    assert KEY not in read_text(response)


SHORT = [
    ("chat", "none-model", "none"), ("responses", "none-model", "none"), ("messages", "none-model", "none"),
    ("chat", "ollama-model", "ollama"), ("generate", "ollama-model", "ollama"),
    ("messages", "empty-a-model", "EMPTY"), ("chat", "empty-a-model", "EMPTY"),
    ("generate", "empty-g-model", "EMPTY"), ("messages", "empty-g-model", "EMPTY"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("caller", "model", "word"), SHORT)
def test_a_key_that_is_a_word_changes_no_answer(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, word: str, stream: bool
) -> None:
    api, text = spoken_to(caller, model), f"There is {word}, the key {word}."
    upstream.script(
        answer(deltas(api, text), last(api, text), headers=EVENT_STREAM) if stream else answer(whole(api, text))
    )

    response = send_request(gateway, caller, model, stream=stream)

    assert text in response.text
    assert "***" not in response.text


@pytest.mark.parametrize(("caller", "model", "word"), SHORT)
def test_a_key_that_is_a_word_changes_no_error(
    gateway: Gateway, upstream: Upstream, caller: str, model: str, word: str
) -> None:
    message = f"There is {word} of it; the key {word} is odd."
    upstream.script(answer(json.dumps(error_body(spoken_to(caller, model), message)), status=400))

    response = send_request(gateway, caller, model)

    assert message in response.text


def spoken(*steps: str | bytes, content_type: str) -> Answer:
    return answer(*steps, headers={"content-type": content_type})


def test_sound_is_left_alone(gateway: Gateway, upstream: Upstream) -> None:
    raw = b"ID3 " + KEY.encode()
    upstream.script(spoken(raw[:9], raw[9:], content_type="audio/mpeg"))

    response = post(gateway, "/v1/audio/speech", {"model": "speech", "input": "Hi", "voice": "alloy"})

    assert response.content == raw


@pytest.mark.parametrize("count", [1, 40_000])
def test_vectors(gateway: Gateway, upstream: Upstream, count: int) -> None:
    vector = {"object": "embedding", "index": 0, "embedding": [0.5] * count}
    raw = json.dumps({"object": "list", "data": [vector], "model": KEY, "note": KEY})
    middle = raw.index(KEY) + 9
    upstream.script(answer(raw[:middle], raw[middle:]))

    response = post(gateway, "/v1/embeddings", {"model": "vectors", "input": "Hi"})

    assert response.content == raw.replace(KEY, "***").encode()
