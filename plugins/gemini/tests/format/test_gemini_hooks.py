"""The hooks of the common lane."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from format_gemini_calls import COUNT, GENERATE, QUESTION, SDK, STREAM, call_for, chunks_of, frames, text_of, wire_to
from google.genai import types as vendor

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import (
    AuthenticationFailed,
    GateError,
    InvalidField,
    NotFound,
    UnknownModel,
    UnsupportedOperation,
    UpstreamError,
)
from tornado_gate.streams.events import close, replay
from tornado_gate.testing import iterate
from tornado_gate.types import (
    ChatRequest,
    ChatResult,
    Choice,
    CountTokensRequest,
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
    Thinking,
    TokenCount,
    Usage,
    UsageReport,
    VerbatimRequest,
)

RESULT = ChatResult(
    model="upstream-name",
    choices=(Choice(parts=(Thinking(text="hm"), Text(text="Hi")), reason="stop"),),
    usage=Usage(input_tokens=1, output_tokens=2),
)
EVENTS: list[StreamEvent] = [
    ResponseStart(model="upstream-name", id="r"),
    PartStart(index=0, kind="text"),
    PartDelta(index=0, data="H"),
    PartDelta(index=0, data="i"),
    PartEnd(index=0),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="stop"),
]


def read_request(path: str = GENERATE, body: Any = None, **query: str) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_to(path, QUESTION | (body or {}), **query))
    assert isinstance(request, ChatRequest)
    return request


def replied(events: Any, request: ChatRequest | None = None, headers: Any = None) -> Reply:
    call = call_for("asked-name", headers=headers)
    return plugin.translate_response(call, request or read_request(), iterate(events))


@pytest.mark.parametrize("version", ["v1beta", "v1"])
@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("models/gemini-3-flash", "gemini-3-flash"),
        ("models/models/gemini-3-flash", "gemini-3-flash"),
        ("models/models%2Fgemini-3-flash", "gemini-3-flash"),
        ("models/openai/gpt-4o", "openai/gpt-4o"),
        ("models/llama3:8b", "llama3:8b"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("openai/gpt-4o", "openai/gpt-4o"),
    ],
)
@pytest.mark.parametrize(
    ("method", "operation"),
    [("generateContent", "chat"), ("streamGenerateContent", "chat"), ("countTokens", "count_tokens")],
)
def test_the_path_names_model_and_method(version: str, path: str, model: str, method: str, operation: str) -> None:
    for slash in ("", "/"):
        wire = wire_to(f"/{version}/{path}:{method}{slash}", QUESTION)
        assert (wire.path_arguments["model"], wire.route.operation) == (model, operation)
        assert (wire.route.model, wire.route.wire_format) == ("path", "gemini-generate")


def test_one_method_streams() -> None:
    assert read_request(STREAM).stream
    assert not read_request(GENERATE).stream


@pytest.mark.parametrize(
    ("headers", "query", "mine"),
    [
        ({"x-goog-api-key": "k"}, {}, True),
        ({"x-goog-api-client": "sdk"}, {}, True),
        ({}, {"key": "k"}, True),
        ({"authorization": "Bearer k"}, {}, False),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/a/b"])
def test_the_list_under_v1_is_for_callers_of_this_format(path: str, headers: Any, query: Any, mine: bool) -> None:
    if mine:
        assert wire_to(path, headers=headers, **query).route.operation == "models"
    else:
        with pytest.raises(NotFound):
            wire_to(path, headers=headers, **query)


def test_a_whole_answer_is_the_vendors() -> None:
    reply = replied(replay(RESULT))
    assert (reply.content_type, reply.status, reply.keep_alive) == ("application/json", 200, b"")
    (raw,) = chunks_of(reply)
    answer = vendor.GenerateContentResponse.model_validate_json(raw)
    assert (answer.text, answer.model_version) == ("Hi", "asked-name")
    assert answer.response_id
    assert b'"thought"' not in raw


def test_thoughts_come_to_those_who_asked() -> None:
    request = read_request(body={"generationConfig": {"thinkingConfig": {"includeThoughts": True}}})
    assert b'{"text":"hm","thought":true}' in text_of(replied(replay(RESULT), request))


def test_a_stream_of_events() -> None:
    reply = replied(EVENTS, read_request(STREAM, alt="sse"))
    assert (reply.content_type, reply.keep_alive) == ("text/event-stream; charset=utf-8", b": ping\n\n")
    raw = text_of(reply)
    chunks = [vendor.GenerateContentResponse.model_validate(frame) for frame in frames(raw)]
    assert [chunk.text for chunk in chunks] == ["H", "i", ""]
    assert chunks[-1].usage_metadata is not None
    assert chunks[-1].usage_metadata.total_token_count == 3
    assert b"[DONE]" not in raw


def test_a_stream_without_alt_sse_is_an_array_whose_elements_go_out_at_once() -> None:
    reply = replied(EVENTS, read_request(STREAM))
    assert (reply.content_type, reply.keep_alive) == ("application/json", b"")
    chunks = chunks_of(reply)
    assert chunks[1::2] == [b"\n", b"\n", b"\n"]
    assert chunks[-1] == b"]"
    values = orjson.loads(b"".join(chunks))
    assert [value["candidates"][0]["content"]["parts"] for value in values] == [
        [{"text": "H"}],
        [{"text": "i"}],
        [{"text": ""}],
    ]


def test_an_answer_that_fails_raises_its_error() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([*EVENTS[:3], StreamError(error=UpstreamError("gone"))]))


@pytest.mark.parametrize("query", [{}, {"alt": "sse"}])
def test_a_failure_before_the_first_chunk_is_raised(query: dict[str, str]) -> None:
    with pytest.raises(UpstreamError, match="gone"):
        text_of(replied([EVENTS[0], UpstreamError("gone")], read_request(STREAM, **query)))


FAILED = [*EVENTS[:3], StreamError(error=UpstreamError("gone", param="p"))]
ERROR = {"message": "gone", "type": "upstream_error", "param": "p", "code": "upstream_error", "status": "UNAVAILABLE"}


def test_a_stream_that_fails_ends_with_its_error_and_no_finish() -> None:
    raw = text_of(replied(FAILED, read_request(STREAM, alt="sse")))
    assert frames(raw)[-1] == {"error": ERROR}
    assert b"finishReason" not in raw


def test_an_array_that_fails_ends_with_its_error_and_is_closed() -> None:
    values = orjson.loads(text_of(replied(FAILED, read_request(STREAM))))
    assert values[-1] == {"error": ERROR}
    assert "finishReason" not in str(values)


def test_the_vendors_sdk_gets_a_number() -> None:
    raw = text_of(replied(FAILED, read_request(STREAM, alt="sse"), headers=SDK))
    assert frames(raw)[-1]["error"]["code"] == 502


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (InvalidField("contents", "'contents' is missing."), 400, "INVALID_ARGUMENT"),
        (AuthenticationFailed("No key."), 401, "UNAUTHENTICATED"),
        (UnknownModel("x"), 404, "NOT_FOUND"),
    ],
)
def test_an_error_has_the_four_strings_or_the_sdks_number(error: GateError, status: int, name: str) -> None:
    for call in (None, call_for()):
        body = orjson.loads(plugin.translate_error(call, error, False))
        assert body == {"error": {**error.body(), "status": name}}
    body = orjson.loads(plugin.translate_error(call_for(headers=SDK), error, False))
    assert body == {"error": {**error.body(), "status": name, "code": status}}
    assert next(iter(body)) == "error"
    frame = plugin.translate_error(None, error, True)
    assert frame == b"data: " + plugin.translate_error(None, error, False) + b"\n\n"


@pytest.mark.parametrize("wrapped", [False, True])
def test_tokens_are_counted(wrapped: bool) -> None:
    inner = QUESTION | {"systemInstruction": {"parts": [{"text": "S"}]}}
    body = {"generateContentRequest": {**inner, "model": "models/m"}} if wrapped else inner
    request = plugin.translate_request(call_for(operation="count_tokens"), wire_to(COUNT, body))
    assert isinstance(request, CountTokensRequest)
    assert [message.role for message in request.chat.messages] == ["system", "user"]
    event = TokenCount(input_tokens=7, extra={"cachedContentTokenCount": 3, "input_tokens_details": {}})
    reply = plugin.translate_response(call_for(), request, iterate([event]))
    assert orjson.loads(text_of(reply)) == {"totalTokens": 7, "cachedContentTokenCount": 3}


def model(name: str, *operations: str, **facts: Any) -> Model:
    return Model(id=name, owner="o", operations=frozenset(operations), created=9, facts=facts)


LISTED = ModelList(
    models=(
        model("openai/gpt-4o", "chat", "count_tokens", display_name="GPT", input_token_limit=5, version="2"),
        model("vectors", "embeddings"),
        model("pictures", "images", "image_edits"),
        model("transcripts", "transcription"),
        model("tunedModels/mine", "chat", base_model_id="gemini-3-flash"),
    )
)


def listed(**query: str) -> Any:
    request = plugin.translate_request(call_for(""), wire_to("/v1beta/models", **query))
    return orjson.loads(text_of(plugin.translate_response(call_for(), request, iterate([LISTED]))))


def test_a_model_list_is_the_vendors() -> None:
    value = listed()
    assert [entry["name"] for entry in value["models"]] == [
        "models/openai/gpt-4o",
        "models/vectors",
        "models/pictures",
        "tunedModels/mine",
    ]
    assert value["models"][0] == {
        "name": "models/openai/gpt-4o",
        "version": "2",
        "displayName": "GPT",
        "description": "",
        "inputTokenLimit": 5,
        "outputTokenLimit": 65536,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
    assert value["models"][1]["version"] == "001"
    assert value["models"][1]["inputTokenLimit"] == 1048576
    assert value["models"][3]["baseModelId"] == "gemini-3-flash"
    assert "nextPageToken" not in value


@pytest.mark.parametrize(
    ("operations", "methods"),
    [
        (("images",), ["generateContent", "streamGenerateContent"]),
        (("image_edits",), ["generateContent", "streamGenerateContent"]),
        (("speech",), ["generateContent", "streamGenerateContent"]),
        (("chat", "images", "speech"), ["generateContent", "streamGenerateContent"]),
        (("embeddings",), ["embedContent", "batchEmbedContents"]),
        (("speech", "count_tokens"), ["generateContent", "streamGenerateContent", "countTokens"]),
    ],
)
def test_a_model_is_reached_by_the_methods_that_it_answers(operations: tuple[str, ...], methods: list[str]) -> None:
    one = ModelList(models=(model("m", *operations),), single=True)
    request = plugin.translate_request(call_for(""), wire_to("/v1beta/models/m"))
    value = orjson.loads(text_of(plugin.translate_response(call_for(), request, iterate([one]))))
    assert value["supportedGenerationMethods"] == methods


def test_a_model_list_comes_in_pages() -> None:
    first = listed(pageSize="2")
    second = listed(page_size="2", page_token=first["nextPageToken"])
    names = [entry["name"] for page in (first, second) for entry in page["models"]]
    assert names == [entry["name"] for entry in listed()["models"]]
    assert "nextPageToken" not in second
    assert listed(pageSize="0") == listed()


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"pageSize": "many"}, "pageSize"),
        ({"pageSize": "-1"}, "pageSize"),
        ({"pageToken": "nonsense"}, "pageToken"),
        ({"page_token": "cGFnZTotMQ=="}, "page_token"),
    ],
)
def test_a_page_that_is_none_is_refused(query: dict[str, str], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(""), wire_to("/v1beta/models", **query))
    assert caught.value.param == param


def test_one_model_is_the_object_itself() -> None:
    request = plugin.translate_request(call_for(""), wire_to("/v1beta/models/openai/gpt-4o"))
    assert request == ModelsRequest(model="openai/gpt-4o")
    events = iterate([ModelList(models=LISTED.models[:1], single=True)])
    assert orjson.loads(text_of(plugin.translate_response(call_for(), request, events)))["displayName"] == "GPT"


def test_a_request_of_another_operation_has_no_answer() -> None:
    request = VerbatimRequest(wire_format="w", operation="images", path="/", raw=b"{}", body={})
    with pytest.raises(UnsupportedOperation):
        plugin.translate_response(call_for(), request, iterate([]))


def test_a_reply_that_nobody_reads_to_its_end_closes_its_events() -> None:
    closed: list[bool] = []

    async def events() -> Any:
        try:
            for event in EVENTS:
                yield event
        finally:
            closed.append(True)

    async def leave() -> None:
        reply = plugin.translate_response(call_for(), read_request(STREAM, alt="sse"), events())
        await anext(reply.chunks)
        await close(reply.chunks)

    asyncio.run(leave())
    assert closed == [True]
