"""Refusals with their explanation, and JSON mode, between all formats. Real gateway, scripted upstreams, vendors' SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.searches import CONF, G_USAGE, O_ANSWER, QUESTION, R_ANSWER, make_anthropic, make_openai
from tests.support.upstream import Upstream, answer, sse
from tests.test_crossings import A_USAGE, KEY, post, script, sent

WHY = "The request could enable harm."
A_STOP = {"type": "refusal", "category": "bio", "explanation": WHY}
A_ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
    "stop_reason": "refusal", "stop_sequence": None, "stop_details": A_STOP, "usage": A_USAGE,
}  # fmt: skip
REFUSED = {"role": "assistant", "content": None, "refusal": WHY}
O_REFUSAL = {**O_ANSWER, "choices": [{"index": 0, "finish_reason": "stop", "message": REFUSED}]}
R_PART = {"type": "refusal", "refusal": WHY}
R_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [R_PART]}
R_REFUSAL = {**R_ANSWER, "output": [R_MESSAGE]}
G_CANDIDATE = {"index": 0, "content": {"role": "model", "parts": []}, "finishReason": "SAFETY", "finishMessage": WHY}
G_REFUSAL = {"candidates": [G_CANDIDATE], "usageMetadata": G_USAGE, "modelVersion": "gemini-3-pro-preview"}
G_BLOCKED = {
    "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": WHY}, "usageMetadata": G_USAGE,
    "modelVersion": "gemini-3-pro-preview",
}  # fmt: skip
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "claude": ("a-model", A_ANSWER),
    "chat": ("o-model", O_REFUSAL),
    "responses": ("r-model", R_REFUSAL),
    "gemini": ("g-model", G_REFUSAL),
    "gemini, prompt": ("g-model", G_BLOCKED),
}


def stream_of(vendor: str) -> str:
    if vendor.startswith("gemini"):
        return sse(WHOLE[vendor][1])
    if vendor == "claude":
        start = {**A_ANSWER, "stop_reason": None, "stop_details": None}
        delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": A_STOP}
        return sse(
            {"type": "message_start", "message": start},
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )
    if vendor == "chat":
        deltas = [{"role": "assistant", "content": None}, *({"refusal": piece} for piece in (WHY[:9], WHY[9:]))]
        chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        end = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return sse(*chunks, end, "[DONE]")
    where = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    return sse(
        {"type": "response.created", "response": {**R_ANSWER, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**R_MESSAGE, "content": []}},
        *({"type": "response.refusal.delta", **where, "delta": piece} for piece in (WHY[:9], WHY[9:])),
        {"type": "response.content_part.done", **where, "part": R_PART},
        {"type": "response.output_item.done", "output_index": 0, "item": R_MESSAGE},
        {"type": "response.completed", "response": R_REFUSAL},
    )


def list_vendors(own: str) -> list[str]:
    """The vendors whose answers are translated for a caller."""
    return [vendor for vendor in WHOLE if not vendor.startswith(own)]


def give(upstream: Upstream, vendor: str, stream: bool) -> str:
    """Script the refusal of a vendor and return the model to ask."""
    model, whole = WHOLE[vendor]
    upstream.script(answer(stream_of(vendor) if stream else json.dumps(whole)))
    return model


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    conf = conf.replace("\ncircuits:", "\n  old-model: {provider: a, model: claude-3-opus-20240229}\ncircuits:")
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("crossings"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    """The gateway of all tests here, and an upstream with nothing in its script."""
    return one_gateway


STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@STREAM
@pytest.mark.parametrize("vendor", list_vendors("chat"))
def test_chat_has_the_explanation_as_refusal(gateway: Gateway, upstream: Upstream, vendor: str, stream: bool) -> None:
    asked: Any = {"model": give(upstream, vendor, stream), "messages": [{"role": "user", "content": QUESTION}]}
    completions = make_openai(gateway).chat.completions
    if stream:
        chunks = [chunk.choices[0] for chunk in completions.create(stream=True, **asked)]
        refusal = "".join(chunk.delta.refusal or "" for chunk in chunks)
        reason: Any = chunks[-1].finish_reason
    else:
        choice = completions.create(**asked).choices[0]
        refusal, reason = choice.message.refusal or "", choice.finish_reason
    assert refusal == WHY
    assert reason == ("stop" if vendor == "responses" else "content_filter")


@STREAM
@pytest.mark.parametrize("vendor", list_vendors("responses"))
def test_responses_have_the_explanation_as_a_refusal_part(
    gateway: Gateway, upstream: Upstream, vendor: str, stream: bool
) -> None:
    asked: Any = {"model": give(upstream, vendor, stream), "input": QUESTION}
    if stream:
        with make_openai(gateway).responses.stream(**asked) as stream_of_events:
            events: list[Any] = list(stream_of_events)
        assert "response.refusal.done" in [event.type for event in events]
        response: Any = events[-1].response
    else:
        response = make_openai(gateway).responses.create(**asked)
    (message,) = response.output
    assert [(part.type, part.refusal) for part in message.content] == [("refusal", WHY)]
    if vendor == "chat":
        assert response.status == "completed"
    else:
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "content_filter")


@STREAM
@pytest.mark.parametrize("vendor", list_vendors("claude"))
def test_messages_have_the_explanation_in_stop_details(
    gateway: Gateway, upstream: Upstream, vendor: str, stream: bool
) -> None:
    client = make_anthropic(gateway)
    asked: Any = {"model": give(upstream, vendor, stream), "max_tokens": 9}
    asked["messages"] = [{"role": "user", "content": QUESTION}]
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert (message.stop_details.type, message.stop_details.explanation) == ("refusal", WHY)
    assert message.stop_details.category is None


@STREAM
@pytest.mark.parametrize("vendor", list_vendors("gemini"))
def test_a_candidate_has_the_explanation_as_finish_message(
    gateway: Gateway, upstream: Upstream, vendor: str, stream: bool
) -> None:
    model = give(upstream, vendor, stream)
    method = "streamGenerateContent" if stream else "generateContent"
    response = post(gateway, f"/v1beta/models/{model}:{method}", {"contents": [{"parts": [{"text": QUESTION}]}]})
    candidate = (response.json()[-1] if stream else response.json())["candidates"][0]
    assert (candidate["finishReason"], candidate["finishMessage"]) == ("SAFETY", WHY)


WANTED: dict[str, Any] = {"tower": "Eiffel {[", "tall": True}
FENCED = "Here is the tower:\n```json\n" + json.dumps(WANTED) + "\n```\nAnything else?"
JSON_CALLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "JSON, please."}],
            "response_format": {"type": "json_object"},
        },
    ),
    "responses": (
        "/v1/responses",
        {"instructions": "Be brief.", "input": "JSON, please.", "text": {"format": {"type": "json_object"}}},
    ),
    "generate": (
        "/v1beta/models/{model}:generateContent",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"parts": [{"text": "JSON, please."}]}],
            "generationConfig": {"responseMimeType": "application/json"},
        },
    ),
}


def stream_texts(text: str) -> str:
    pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces
    ]
    return sse(
        {"type": "message_start", "message": {**A_ANSWER, "stop_reason": None, "stop_details": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def read_text(value: Any) -> str:
    """All text in a response or a chunk of any format."""
    if isinstance(value, list):
        return "".join(map(read_text, value))
    if not isinstance(value, dict):
        return ""
    own = value.get("content") or value.get("text") or ""
    inner = [value.get(name) for name in ("choices", "message", "delta", "output", "candidates", "parts")]
    return (own if isinstance(own, str) else read_text(own)) + "".join(map(read_text, inner))


@pytest.mark.parametrize("model", ["a-model", "old-model"])
@pytest.mark.parametrize("caller", list(JSON_CALLERS))
def test_json_mode_at_claude_is_an_instruction_and_a_response_without_fences(
    gateway: Gateway, upstream: Upstream, caller: str, model: str
) -> None:
    script(upstream, {**A_ANSWER, "content": [{"type": "text", "text": FENCED}], "stop_reason": "end_turn"})
    path, body = JSON_CALLERS[caller]
    response = post(gateway, path.format(model=model), {"model": model, **body} if caller != "generate" else body)
    assert response.status_code == 200, response.text
    assert "x-gate-loss" not in response.headers
    system = json.dumps(sent(upstream)["system"])
    assert "Be brief." in system
    assert f"one valid JSON {'value' if caller == 'generate' else 'object'} and nothing else" in system
    assert "output_config" not in sent(upstream)
    assert json.loads(read_text(response.json())) == WANTED


def test_json_mode_at_claude_streams_json_alone(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(stream_texts(FENCED)))
    asked: Any = {"model": "a-model", "response_format": {"type": "json_object"}, "stream": True}
    chunks = list(
        make_openai(gateway).chat.completions.create(messages=[{"role": "user", "content": "JSON, please."}], **asked)
    )
    assert json.loads("".join(chunk.choices[0].delta.content or "" for chunk in chunks)) == WANTED
    assert len(chunks) > 5


def test_a_text_without_json_is_not_changed(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(stream_texts("I cannot do that.")))
    path, body = JSON_CALLERS["chat"]
    response = post(gateway, path, {"model": "a-model", **body, "stream": True})
    frames = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames) == "I cannot do that."
