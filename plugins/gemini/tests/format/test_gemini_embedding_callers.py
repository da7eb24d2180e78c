"""The embedding methods: what callers may send, and what they get."""

from __future__ import annotations

import struct
from typing import Any

import orjson
import pytest
from format_gemini_calls import call_for, chunks_of, text_of, wire_to
from google.genai import types as vendor

import tornado_gate_gemini.format as plugin
from tornado_gate.errors import InvalidField, UpstreamError, UpstreamRateLimited
from tornado_gate.testing import iterate
from tornado_gate.types import EmbeddingRequest, EmbeddingResult, StreamError, UpstreamResponse, Usage, VerbatimRequest

EMBED = "/v1beta/models/m:embedContent"
BATCH = "/v1beta/models/m:batchEmbedContents"


def content(*texts: str) -> dict[str, Any]:
    return {"parts": [{"text": text} for text in texts]}


def parsed(path: str, body: Any, losses: list[str] | None = None) -> EmbeddingRequest:
    call = call_for(operation="embeddings")
    request = plugin.translate_request(call, wire_to(path, body))
    assert isinstance(request, EmbeddingRequest)
    assert call.losses == (losses or [])
    return request


def catch_refusal(path: str, body: Any) -> InvalidField:
    """The same fault in both lanes."""
    for hook in (plugin.translate_request, plugin.forward_request):
        with pytest.raises(InvalidField) as caught:
            hook(call_for(operation="embeddings"), wire_to(path, body))
    return caught.value


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize("prefix", ["models/", "models/models/", ""])
@pytest.mark.parametrize("method", ["embedContent", "batchEmbedContents"])
def test_both_methods_are_served_wherever_generate_content_is(version: str, prefix: str, method: str) -> None:
    wire = wire_to(f"/{version}/{prefix}a/b:{method}", {"x": 1})
    assert (wire.route.operation, wire.route.wire_format) == ("embeddings", "gemini-embeddings")
    assert wire.path_arguments == {"model": "a/b"}


def test_one_content_is_one_input() -> None:
    body = {"content": content("a", "b"), "taskType": "RETRIEVAL_DOCUMENT", "title": "T", "outputDimensionality": 8}
    request = parsed(EMBED, body)
    assert (request.model, request.inputs, request.wire_format) == ("m", ("a\nb",), "gemini-embeddings")
    assert (request.task, request.title, request.dimensions) == ("RETRIEVAL_DOCUMENT", "T", 8)
    assert request.field_name("dimensions") == "outputDimensionality"
    assert request.field_name("inputs") == "content"


def test_snake_case_and_the_nested_config_say_the_same() -> None:
    request = parsed(EMBED, {"content": content("a"), "output_dimensionality": 8, "task_type": "CLUSTERING"})
    assert (request.dimensions, request.task) == (8, "CLUSTERING")
    assert request.field_name("dimensions") == "output_dimensionality"
    nested = {"content": content("a"), "embed_content_config": {"output_dimensionality": 4, "auto_truncate": True}}
    request = parsed(EMBED, nested)
    assert request.dimensions == 4
    assert request.field_name("dimensions") == "embed_content_config.output_dimensionality"
    assert request.extra == {"embed_content_config": {"autoTruncate": True}}


def test_a_batch_as_the_sdk_sends_it() -> None:
    entries = [{"model": "models/m", "content": {**content(text), "role": "user"}} for text in ("a", "b", "c")]
    request = parsed(BATCH, {"requests": [{**entry, "outputDimensionality": 2} for entry in entries]})
    assert (request.inputs, request.dimensions) == (("a", "b", "c"), 2)


def test_a_batch_of_more_than_the_vendor_takes_at_once_is_taken() -> None:
    request = parsed(BATCH, {"requests": [{"content": content(str(number))} for number in range(2048)]})
    assert request.inputs[-1] == "2047"


def test_what_only_some_of_a_batch_say_is_lost_where_they_say_it() -> None:
    body = {
        "requests": [
            {"content": content("a"), "taskType": "CLUSTERING"},
            {"content": content("b"), "task_type": "SEMANTIC_SIMILARITY", "title": "T", "x": 1},
        ],
        "y": 2,
    }
    losses = ["y", "requests.0.taskType", "requests.1.task_type", "requests.1.title", "requests.1.x"]
    request = parsed(BATCH, body, losses)
    assert (request.task, request.title, request.extra) == (None, None, {})


def test_unknown_members_that_all_of_a_batch_have_are_kept_where_they_stand() -> None:
    assert parsed(BATCH, {"requests": [{"content": content("a"), "x": 1}] * 2}).extra == {"requests.0.x": 1}


def test_a_batch_has_one_number_of_dimensions() -> None:
    body = {"requests": [{"content": content("a"), "outputDimensionality": 2}, {"content": content("b")}]}
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire_to(BATCH, body))
    assert caught.value.param == "requests.1.outputDimensionality"
    assert plugin.forward_request(call_for(), wire_to(BATCH, body)).body == body  # the vendor takes it


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": "a"}, "content"),
        ({"content": {}}, "content.parts"),
        ({"content": {"parts": []}}, "content.parts"),
        ({"content": {"parts": "a"}}, "content.parts"),
        ({"content": {"parts": [{"text": 1}]}}, "content.parts.0.text"),
        ({"content": content("a"), "outputDimensionality": True}, "outputDimensionality"),
        ({"content": content("a"), "output_dimensionality": 1.5}, "output_dimensionality"),
        ({"content": content("a"), "outputDimensionality": "8"}, "outputDimensionality"),
        ({"content": content("a"), "taskType": 1}, "taskType"),
        ({"content": content("a"), "title": []}, "title"),
        ({"content": content("a"), "embedContentConfig": {"outputDimensionality": "1"}},
         "embedContentConfig.outputDimensionality"),
    ],
)  # fmt: skip
def test_a_wrong_member_is_named_alone_and_in_a_batch(body: Any, param: str) -> None:
    error = catch_refusal(EMBED, body)
    assert error.param == param
    assert param in error.message
    error = catch_refusal(BATCH, {"requests": [{"content": content("a")}, body]})
    assert error.param == f"requests.1.{param}"
    assert f"'requests.1.{param}'" in error.message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "requests"),
        ({"requests": {}}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": ["a"]}, "requests.0"),
    ],
)
def test_a_wrong_batch_is_refused(body: Any, param: str) -> None:
    assert catch_refusal(BATCH, body).param == param


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (EMBED, {"content": content("a"), "outputDimensionality": 0}, "outputDimensionality"),
        (BATCH, {"requests": [{"content": content("a")}] * 2049}, "requests"),
    ],
)
def test_limits_are_left_to_an_upstream_of_this_format(path: str, body: Any, param: str) -> None:
    assert plugin.forward_request(call_for(operation="embeddings"), wire_to(path, body)).body == body
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(operation="embeddings"), wire_to(path, body))
    assert caught.value.param == param


def test_what_is_no_text_is_named_and_passes_verbatim() -> None:
    body = {"content": {"parts": [{"text": "a"}, {"inline_data": {"mime_type": "image/png", "data": "AAEC"}}]}}
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire_to(EMBED, body))
    assert caught.value.param == "content.parts.1"
    assert plugin.forward_request(call_for(), wire_to(EMBED, body)).body == body


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(InvalidField) as caught:
        plugin.translate_request(call_for(), wire_to(BATCH, {"requests": [{"content": content("")}]}))
    assert caught.value.param == "requests.0.content.parts"


# Down


def answered(path: str, *events: Any) -> Any:
    request = parsed(path, {"content": content("a"), "requests": [{"content": content("a")}]}, ["content"])
    return orjson.loads(text_of(plugin.translate_response(call_for(), request, iterate(events))))


def test_vectors_come_back_in_the_vendors_shape() -> None:
    packed = struct.pack("<2f", 0.5, -1.0)
    result = EmbeddingResult(vectors=((1.0, 2.5), packed), usage=Usage(input_tokens=7))
    value = answered(BATCH, result)
    assert value == {
        "embeddings": [{"values": [1.0, 2.5]}, {"values": [0.5, -1.0]}],
        "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
    }
    assert vendor.EmbedContentResponse.model_validate(value).embeddings[1].values == [0.5, -1.0]


def test_one_vector_comes_back_alone() -> None:
    request = parsed(EMBED, {"content": content("a")})
    reply = plugin.translate_response(call_for(), request, iterate([EmbeddingResult(vectors=((1.0, 2.5),))]))
    assert text_of(reply) == b'{"embedding":{"values":[1.0,2.5]}}'


def test_a_large_answer_comes_in_pieces_that_are_one_json_text() -> None:
    result = EmbeddingResult(vectors=tuple([0.25] * 3072 for _ in range(20)))
    request = parsed(BATCH, {"requests": [{"content": content("a")}] * 20})
    pieces = chunks_of(plugin.translate_response(call_for(), request, iterate([result])))
    assert len(pieces) > 3
    assert len(orjson.loads(b"".join(pieces))["embeddings"]) == 20


def test_a_failure_is_raised_before_anything_is_written() -> None:
    with pytest.raises(UpstreamRateLimited):
        answered(BATCH, StreamError(error=UpstreamRateLimited("Slow")))


# Verbatim


def test_a_body_goes_up_as_it_came_under_its_own_method() -> None:
    raw = b'{ "content": {"parts":[{"text":"\\u00e9"}]}, "x_new": 1.0 }'
    request = plugin.forward_request(call_for(), wire_to(EMBED, raw))
    assert isinstance(request, VerbatimRequest)
    assert (request.raw, request.path, request.operation) == (raw, EMBED, "embeddings")
    assert request.wire_format == "gemini-embeddings"


def passed(raw: bytes) -> tuple[list[bytes], Usage | None]:
    call = call_for()
    request = plugin.forward_request(call, wire_to(EMBED, {"content": content("a")}))
    incoming = UpstreamResponse(chunks=iterate([raw[:20], raw[20:]]))
    return chunks_of(plugin.forward_response(call, request, incoming)), call.meter.usage


@pytest.mark.parametrize("name", ["usageMetadata", "usage_metadata"])
def test_an_answer_comes_down_as_it_came_and_its_usage_is_noted(name: str) -> None:
    raw = b'{"embedding": {"values": [0.10]},\n "%b" : {"promptTokenCount": 3} }\n' % name.encode()
    assert passed(raw) == ([raw], Usage(input_tokens=3))
    assert passed(b'{"embeddings": [{"values": [0.10]}]}')[1] is None


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"embedding": {"values": [0.1', b"{}", b'{"candidates": []}'])
def test_an_answer_that_is_none_is_a_fault(raw: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        passed(raw)
    assert caught.value.status == 502


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(UpstreamRateLimited):
        passed(b'{"error": {"code": 429, "message": "Slow"}}')
