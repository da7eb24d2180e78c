"""Vectors: what the upstream is sent, and what becomes of its answers."""

from __future__ import annotations

import orjson
import pytest
from gemini_calls import BASE, call_for, translate_request
from gemini_media import (
    EMBEDDING,
    body_of,
    events_of,
    json_of,
)

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import (
    EmbeddingRequest,
    EmbeddingResult,
    Usage,
    VerbatimRequest,
    replace,
)

TEXTS = EmbeddingRequest(model="m", inputs=("a", "b"))


def test_texts_go_up_as_one_batch_that_names_the_model_each_time() -> None:
    request = replace(
        TEXTS, dimensions=8, title="T", task="CLUSTERING", wire_format="gemini-embeddings", extra={"x": 1}
    )
    settings = {"taskType": "CLUSTERING", "title": "T", "outputDimensionality": 8, "x": 1}
    assert translate_request(request, call_for(EMBEDDING)).url == f"{BASE}/models/{EMBEDDING}:batchEmbedContents"
    assert body_of(request, EMBEDDING) == {
        "requests": [
            {"model": f"models/{EMBEDDING}", "content": {"parts": [{"text": text}]}, **settings} for text in ("a", "b")
        ]
    }


def test_a_foreign_requests_unknown_fields_are_lost() -> None:
    request = replace(TEXTS, user="u", task="query", extra={"y": 1, "z": None}, names={"user": "user_id"})
    body = body_of(request, EMBEDDING, ["user_id", "task", "y"])
    assert set(body["requests"][0]) == {"model", "content"}


def test_settings_nested_in_snake_case_go_up_in_camel_case() -> None:
    extra = {"embed_content_config": {"autoTruncate": True}}
    body = body_of(replace(TEXTS, wire_format="gemini-embeddings", extra=extra), EMBEDDING)
    assert body["requests"][0]["embedContentConfig"] == {"autoTruncate": True}


def test_tokens_cannot_be_said() -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(EmbeddingRequest(model="m", inputs=((1, 2),)), call_for(EMBEDDING))
    assert caught.value.param == "input"


ANSWER = {"embeddings": [{"values": [0.5, 1]}, {"values": [-1e-3, 0.25]}], "usageMetadata": {"promptTokenCount": 7}}


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_vectors_come_back_as_they_were_read(size: int) -> None:
    raw = orjson.dumps(ANSWER, option=orjson.OPT_INDENT_2)
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    assert events_of(TEXTS, pieces, EMBEDDING) == [
        EmbeddingResult(vectors=([0.5, 1], [-1e-3, 0.25]), usage=Usage(input_tokens=7))
    ]


def test_one_vector_of_the_other_method_is_read_too() -> None:
    one = replace(TEXTS, inputs=("a",))
    assert events_of(one, json_of({"embedding": {"values": [1.5]}}), EMBEDDING) == [EmbeddingResult(vectors=([1.5],))]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"embeddings": []}',
        b'{"embeddings": [{"values": [1]}]}',
        b'{"embeddings": [{"values": [1]}, {}]}',
        b'{"embeddings": [{"values": [1]}, {"values": []}]}',
        b'{"embeddings": [{"values": [1]}, {"values": ["a"]}]}',
        b'{"embeddings": [{"values": [1]}, {"values": [[1]]}]}',
        b'{"embeddings": [{"values": [1]}, {"values": [1, null]}]}',
        b'{"embeddings": [{"values": [1]}, {"values": [1',
        b'{"embeddings": [{"values": [1]}, {"values": [1]}',
        b'{"embeddings": [{"values": [1]}, {"values": [1]}, {"values": [1]}]}',
        b'{"embeddings": [{"other": {"values": [1]}}, {"values": [1]}]}',
    ],
)
def test_vectors_that_are_none_are_a_fault_of_the_upstream(raw: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        events_of(TEXTS, [raw], EMBEDDING)
    assert caught.value.status == 502


def verbatim(method: str, raw: bytes) -> VerbatimRequest:
    path = f"/v1beta/models/asked:{method}"
    return VerbatimRequest(
        wire_format="gemini-embeddings", operation="embeddings", path=path, raw=raw, body=orjson.loads(raw)
    )


def test_a_body_goes_up_as_it_came_with_the_upstreams_name_of_the_model() -> None:
    raw = b'{ "content": {"parts":[{"text":"a"}]}, "x": 1.0 }'
    outgoing = translate_request(verbatim("embedContent", raw), call_for(EMBEDDING))
    assert (outgoing.body, outgoing.url) == (raw, f"{BASE}/models/{EMBEDDING}:embedContent")
    named = b'{"model": "models/asked", "content": {"parts":[{"text":"a"}]}, "x": 1.0}'
    assert translate_request(verbatim("embedContent", named), call_for(EMBEDDING)).body == named.replace(
        b"asked", EMBEDDING.encode()
    )


def test_every_request_of_a_batch_names_the_upstreams_model() -> None:
    raw = b'{"requests": [{"model": "models/asked", "content": {}}, {"content": {}}], "x": 1.0}'
    outgoing = translate_request(verbatim("batchEmbedContents", raw), call_for(EMBEDDING))
    assert outgoing.url.endswith(":batchEmbedContents")
    name = f"models/{EMBEDDING}"
    requests = [{"model": name, "content": {}}, {"content": {}, "model": name}]
    assert orjson.loads(outgoing.body or b"") == {"requests": requests, "x": 1.0}
    assert b'"x": 1.0' in (outgoing.body or b"")


def test_a_batch_in_snake_case_goes_up_in_camel_case() -> None:
    raw = b'{"requests": [{"task_type": "CLUSTERING", "output_dimensionality": 2, "content": {}}]}'
    entry = {"taskType": "CLUSTERING", "outputDimensionality": 2, "content": {}, "model": f"models/{EMBEDDING}"}
    assert translate_request(verbatim("batchEmbedContents", raw), call_for(EMBEDDING)).json == {"requests": [entry]}
