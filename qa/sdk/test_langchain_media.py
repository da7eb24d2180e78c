"""LangChain's embeddings against the gateway: it cuts texts into tokens itself, and sends their numbers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
import tiktoken
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from qa.sdk import media_gateway
from qa.sdk.media_answers import make_answer
from qa.sdk.media_gateway import KEY
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

media = media_gateway.media

CAT, DOG, TAX = "The cat sat on the mat.", "A cat is sitting on a mat.", "Quarterly tax forms are due in April."


@pytest.fixture(autouse=True)
def tokens_are_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor's vocabularies are fetched from afar when first used; this one is made here: each byte is a token."""
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
    )
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda _model: encoding)
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _name: encoding)


def embeddings(media: Gateway, model: str = "local-embed", **rest: Any) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(
        model=model, base_url=f"{media.url}/v1", api_key=SecretStr(KEY), max_retries=0, timeout=20, **rest
    )


def likeness(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors."""
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


@pytest.mark.parametrize("as_tokens", [True, False], ids=["tokens", "texts"])
def test_near_texts_have_near_vectors(media: Gateway, as_tokens: bool) -> None:
    cat, dog, tax = embeddings(media, check_embedding_ctx_length=as_tokens).embed_documents([CAT, DOG, TAX])
    assert likeness(cat, dog) > likeness(cat, tax)


def test_question_has_the_vector_that_its_text_has_among_others(media: Gateway) -> None:
    model = embeddings(media, dimensions=64)
    among_others = model.embed_documents([TAX, CAT])[1]
    alone = model.embed_query(CAT)
    assert len(alone) == 64
    assert alone == pytest.approx(among_others)


def test_long_text_is_sent_in_pieces_and_has_one_vector(media: Gateway) -> None:
    vectors = embeddings(media, embedding_ctx_length=8, chunk_size=3).embed_documents([CAT, TAX])
    assert len(vectors) == 2
    assert all(likeness(vector, vector) == pytest.approx(1) for vector in vectors)
    assert vectors[0] != vectors[1]


def test_vectors_come_to_an_asynchronous_caller(media: Gateway) -> None:
    vectors = asyncio.run(embeddings(media).aembed_documents([CAT, TAX]))
    assert vectors[0] == pytest.approx(embeddings(media).embed_query(CAT))


def test_tokens_reach_an_upstream_as_they_are(media: Gateway, upstream: Upstream) -> None:
    data = [{"object": "embedding", "index": index, "embedding": [float(index), 1.0]} for index in range(2)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    upstream.script(make_answer({"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage}))
    vectors = embeddings(media, "scripted/text-embedding-3-small").embed_documents(["ab", "c"])
    assert vectors == [[0.0, 1.0], [1.0, 1.0]]
    assert upstream.requests[0].json["input"] == [[97, 98], [99]]
