"""The hooks of the common lane."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from format_openai_calls import QUESTION, call_for, chunks_of, text_of, wire_with
from openai.types import Model as VendorModel
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import tornado_gate_openai.format as plugin
from tornado_gate.errors import InvalidField, UnknownModel, UnsupportedOperation, UpstreamError
from tornado_gate.streams.events import replay
from tornado_gate.testing import iterate
from tornado_gate.types import (
    ChatRequest,
    ChatResult,
    Choice,
    Finish,
    Model,
    ModelList,
    ModelsRequest,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    Usage,
    UsageReport,
    VerbatimRequest,
)

RESULT = ChatResult(
    model="upstream-name",
    id="msg_1",
    choices=(Choice(parts=(Text(text="Hi"),), reason="stop"),),
    usage=Usage(input_tokens=1, output_tokens=2),
)
STREAM: list[StreamEvent] = [
    ResponseStart(model="upstream-name", id="chatcmpl-theirs", created=5),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="Hi"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="stop"),
]


def read_request(**fields: Any) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_with(QUESTION | fields))
    assert isinstance(request, ChatRequest)
    return request


def replied(events: Any, **fields: Any) -> Reply:
    return plugin.translate_response(call_for("asked-name"), read_request(**fields), iterate(events))


def frames(raw: bytes) -> list[Any]:
    return [orjson.loads(line[6:]) for line in raw.split(b"\n\n") if line.startswith(b"data: {")]


def test_the_routes_are_the_vendors() -> None:
    assert {
        (route.method, route.path, route.operation, route.wire_format)
        for route in plugin.routes()
        if route.operation not in ("videos", "realtime")
    } == {
        ("POST", "/v1/audio/speech", "speech", "openai-speech"),
        ("POST", "/v1/audio/transcriptions", "transcription", "openai-transcriptions"),
        ("POST", "/v1/audio/translations", "transcription", "openai-transcriptions"),
        ("POST", "/v1/embeddings", "embeddings", "openai-embeddings"),
        ("POST", "/v1/engines/{model}/embeddings", "embeddings", "openai-embeddings"),
        ("POST", "/v1/images/edits", "image_edits", "openai-image-edits"),
        ("POST", "/v1/images/generations", "images", "openai-images"),
        ("POST", "/v1/images/variations", "image_edits", "openai-image-edits"),
        ("POST", "/v1/moderations", "moderation", "openai-moderations"),
        ("POST", "/v1/chat/completions", "chat", "openai-chat"),
        ("POST", "/v1/completions", "chat", "openai-completions"),
        ("POST", "/v1/responses", "chat", "openai-responses"),
        ("GET", "/v1/responses/{response_id}", "chat", ""),
        ("DELETE", "/v1/responses/{response_id}", "chat", ""),
        ("GET", "/v1/responses/{response_id}/input_items", "chat", ""),
        ("POST", "/v1/responses/{response_id}/cancel", "chat", ""),
        ("POST", "/v1/conversations", "chat", ""),
        *((method, "/v1/conversations/{conversation_id}", "chat", "") for method in ("GET", "POST", "DELETE")),
        *((method, "/v1/conversations/{conversation_id}/items", "chat", "") for method in ("GET", "POST")),
        *((method, "/v1/conversations/{conversation_id}/items/{item_id}", "chat", "") for method in ("GET", "DELETE")),
        ("POST", "/v1/responses/compact", "chat", "openai-compactions"),
        ("POST", "/v1/responses/input_tokens", "count_tokens", "openai-input-tokens"),
        ("GET", "/v1/models", "models", ""),
        ("GET", "/v1/models/{model}", "models", ""),
    }


def test_a_chat_body_becomes_a_request() -> None:
    request = read_request(temperature=0.5, stream=True, stream_options={"include_usage": True}, top_k=3)
    assert (request.model, request.temperature, request.stream, request.include_usage) == ("m", 0.5, True, True)
    assert request.extra == {"top_k": 3}


def test_a_wrong_body_is_refused() -> None:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire_with({"model": "m", "messages": [{"role": "user"}]}))
    assert caught.value.param == "messages.0.content"


def test_a_whole_answer_is_the_vendors() -> None:
    reply = replied(replay(RESULT))
    assert (reply.content_type, reply.status, reply.keep_alive) == ("application/json", 200, b"")
    (raw,) = chunks_of(reply)
    answer = ChatCompletion.model_validate_json(raw)
    assert answer.id.startswith("chatcmpl-")
    assert (answer.model, answer.choices[0].message.content) == ("asked-name", "Hi")
    assert answer.created > 1_700_000_000
    assert answer.usage is not None
    assert answer.usage.total_tokens == 3


def test_an_answer_that_fails_raises_its_error() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([*STREAM[:3], StreamError(error=UpstreamError("gone"))]))


def test_a_stream_ends_with_done() -> None:
    reply = replied(STREAM, stream=True)
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream; charset=utf-8", b": ping\n")
    raw = text_of(reply)
    chunks = [ChatCompletionChunk.model_validate(frame) for frame in frames(raw)]
    assert [(chunk.id, chunk.created, chunk.model) for chunk in chunks] == [("chatcmpl-theirs", 5, "asked-name")] * 2
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert b"usage" not in raw
    assert raw.endswith(b"\n\ndata: [DONE]\n\n")


def test_usage_comes_last_when_it_was_asked_for() -> None:
    raw = text_of(replied(STREAM, stream=True, stream_options={"include_usage": True}))
    assert [frame["usage"] for frame in frames(raw)] == [
        None,
        None,
        {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    ]


def test_a_stream_that_fails_ends_with_its_error_and_nothing_more() -> None:
    error = UpstreamError("gone", param="p")
    chunks = chunks_of(replied([*STREAM[:3], StreamError(error=error)], stream=True))
    assert chunks[-1] == (
        b'data: {"error":{"message":"gone","type":"upstream_error","param":"p","code":"upstream_error"}}\n\n'
    )
    assert b"[DONE]" not in b"".join(chunks)
    assert b'"finish_reason":"' not in b"".join(chunks)


def test_an_answer_that_the_model_did_not_complete_ends_with_an_error_and_no_done() -> None:
    failed = [*STREAM[:3], Finish(reason="error", raw="MALFORMED_FUNCTION_CALL")]
    chunks = chunks_of(replied(failed, stream=True))
    assert b'"code":"upstream_response_failed"' in chunks[-1]
    assert b"MALFORMED_FUNCTION_CALL" in chunks[-1]
    assert not any(word in b"".join(chunks) for word in (b"[DONE]", b'"finish_reason":"'))
    with pytest.raises(UpstreamError, match="MALFORMED_FUNCTION_CALL"):
        text_of(replied(failed))


def test_a_failure_before_the_first_chunk_is_raised() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([STREAM[0], UpstreamError("gone")], stream=True))


def test_an_error_is_a_body_or_a_frame() -> None:
    error = UnknownModel("x")
    body = plugin.translate_error(error, False)
    assert orjson.loads(body) == {"error": error.body()}
    assert plugin.translate_error(error, True) == b"data: " + body + b"\n\n"


MODEL = Model(
    id="openai/gpt-4o",
    owner="openai",
    operations=frozenset({"chat"}),
    created=9,
    facts={"display_name": "GPT", "input_token_limit": None, "id": "other"},
)


def test_a_model_list_is_the_vendors() -> None:
    request = plugin.translate_request(call_for(""), wire_with(path="/v1/models"))
    assert request == ModelsRequest()
    reply = plugin.translate_response(call_for(), request, iterate([ModelList(models=(MODEL,))]))
    assert reply.content_type == "application/json"
    listed = orjson.loads(text_of(reply))
    assert listed == {
        "object": "list",
        "data": [{"display_name": "GPT", "id": "openai/gpt-4o", "object": "model", "created": 9, "owned_by": "openai"}],
    }
    VendorModel.model_validate(listed["data"][0])


def test_one_model_is_the_object_itself() -> None:
    wire = wire_with(path="/v1/models/{model}", model="openai/gpt-4o")
    request = plugin.translate_request(call_for(), wire)
    assert request == ModelsRequest(model="openai/gpt-4o")
    events = iterate([ModelList(models=(MODEL,), single=True)])
    assert orjson.loads(text_of(plugin.translate_response(call_for(), request, events)))["id"] == "openai/gpt-4o"


def test_a_request_of_another_operation_has_no_answer() -> None:
    request = VerbatimRequest(wire_format="w", operation="images", path="/", raw=b"{}", body={})
    with pytest.raises(UnsupportedOperation):
        plugin.translate_response(call_for(), request, iterate([]))
