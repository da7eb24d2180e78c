"""Embeddings through the hooks: vectors, near and far, and what is counted, refused and lost."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path

import pytest

import tornado_gate_local as local
from tornado_gate.codec.vectors import to_floats
from tornado_gate.errors import InvalidField, UnsupportedOperation
from tornado_gate.types import Data, EmbeddingRequest, EmbeddingResult, TranscriptionRequest
from tornado_gate_local.operations.embeddings import SLICE_TOKENS, convert_to_text
from tornado_gate_local.vectors import embed
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import POOL

NAMES = {"inputs": "input", "dimensions": "outputDimensionality", "task": "taskType"}

ANSWERS = {
    "password": "To reset your password, open the settings and choose 'forgot password'.",
    "refund": "Refunds are paid within five days to the card that you paid with.",
    "delivery": "Parcels are delivered within two days; track your delivery with the number in the mail.",
    "invoice": "Your invoice lies in the account under billing, to download as a PDF file.",
    "cancel": "You can cancel a subscription at the end of every month.",
    "warranty": "The warranty covers broken devices for two years after the purchase.",
    "address": "Change the shipping address in your profile before the order leaves the warehouse.",
    "opening": "Our shops are open from nine to six, and closed on Sundays and holidays.",
}
IN_ALIKE_WORDS = {
    "I forgot my password": "password",
    "how can I reset passwords": "password",
    "when is the refund paid": "refund",
    "refunding to a card": "refund",
    "where is my parcel": "delivery",
    "tracking number of a delivery": "delivery",
    "when will it be delivered": "delivery",
    "download the invoice": "invoice",
    "billing documents as PDF": "invoice",
    "cancel my subscription": "cancel",
    "cancelling subscriptions": "cancel",
    "stop paying every month": "cancel",
    "is a broken device under warranty": "warranty",
    "how many years does the warranty last": "warranty",
    "change shipping address": "address",
    "wrong address in the order": "address",
    "are the shops open on Sunday": "opening",
    "opening hours": "opening",
    "closed on holidays?": "opening",
}
IN_OTHER_WORDS = {
    "can't log in any more": "password",
    "I want my money back": "refund",
    "I need a receipt": "invoice",
    "the display is defective": "warranty",
    "I moved to another street": "address",
}


def make_request(*inputs, **fields) -> EmbeddingRequest:
    return EmbeddingRequest(model="local-embed", inputs=inputs, names=NAMES, **fields)


@pytest.fixture
def vectors(work):
    """The result of a request."""

    async def run(request: EmbeddingRequest) -> EmbeddingResult:
        (result,) = await work(request)
        assert isinstance(result, EmbeddingResult)
        return result

    return run


def near(one, other) -> float:
    return sum(a * b for a, b in zip(to_floats(one), to_floats(other), strict=True))


@pytest.mark.gen_test(timeout=50)
async def test_each_text_gets_a_vector_of_length_one_in_the_order_of_the_texts(vectors):
    result = await vectors(make_request("first", "the second text", "first"))
    assert [len(to_floats(one)) for one in result.vectors] == [256] * 3
    assert all(math.isclose(near(one, one), 1, abs_tol=1e-5) for one in result.vectors)
    assert result.vectors[0] == result.vectors[2] != result.vectors[1]
    assert result.model == "upstream-name"
    assert result.usage.input_tokens == count_tokens(["first", "the second text", "first"])


@pytest.mark.parametrize("dimensions", [1, 7, 1_536, 4_096])
@pytest.mark.gen_test(timeout=50)
async def test_dimensions_are_as_asked(vectors, dimensions):
    result = await vectors(make_request("one", "two", dimensions=dimensions))
    assert [len(one) for one in result.vectors] == [4 * dimensions] * 2


@pytest.mark.parametrize("dimensions", [0, -1, 4_097])
@pytest.mark.gen_test
async def test_other_dimensions_are_refused_in_the_callers_word(refusal, dimensions):
    error = await refusal(make_request("one", dimensions=dimensions))
    assert error.param == "outputDimensionality"
    assert "4,096" in error.message


@pytest.mark.gen_test
async def test_too_many_inputs_are_refused_before_anything_is_made(refusal):
    assert (await refusal(make_request(*["one"] * 2_049))).param == "input"


@pytest.mark.gen_test(timeout=50)
async def test_equal_tokens_have_equal_vectors_and_those_that_share_tokens_are_near(vectors):
    one, same, alike, other = (
        await vectors(make_request((1, 22, 333), (1, 22, 333), (1, 22, 4), (50_000, 60_001)))
    ).vectors
    assert one == same
    assert near(one, alike) > near(one, other) + 0.2


@pytest.mark.gen_test(timeout=50)
async def test_tokens_are_counted_one_by_one_and_texts_by_the_rule(vectors):
    result = await vectors(make_request((1, 22, 333), (7,), "two words"))
    assert result.usage.input_tokens == 4 + count_tokens(["two words"])


@pytest.mark.gen_test
async def test_many_tokens_are_turned_into_text_in_slices_and_none_is_lost():
    tokens = tuple(range(2 * SLICE_TOKENS + 5))
    turning = asyncio.ensure_future(convert_to_text(tokens))
    await asyncio.sleep(0)
    assert not turning.done()
    assert await turning == " ".join(map(str, tokens))


@pytest.mark.gen_test(timeout=50)
async def test_thousands_of_texts_are_embedded_in_another_process_while_the_loop_goes_on(vectors):
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    texts = [f"text number {number}" for number in range(2_048)]
    result = await vectors(make_request(*texts, dimensions=1_024))
    counting.cancel()
    assert turns > 50
    assert await POOL.run(os.getpid) != os.getpid()
    assert result.vectors[2_047] == embed(texts[2_047:], 1_024).get_packed(0)


@pytest.mark.gen_test(timeout=50)
async def test_questions_find_the_answer_that_shares_their_words_and_the_readme_says_how_often(vectors):
    answers = (await vectors(make_request(*ANSWERS.values()))).vectors
    questions = IN_ALIKE_WORDS | IN_OTHER_WORDS
    found = []
    for vector in (await vectors(make_request(*questions))).vectors:
        nearness = [near(vector, answer) for answer in answers]
        found.append(list(ANSWERS)[nearness.index(max(nearness))])
    right = {question for question, answer in zip(questions, found, strict=True) if questions[question] == answer}
    assert right >= set(IN_ALIKE_WORDS)
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(right)} of {len(questions)}" in readme


@pytest.mark.gen_test
async def test_what_has_no_effect_is_reported_in_the_callers_words(call):
    request = make_request(
        "one", task="RETRIEVAL_QUERY", title="A title", user="ann", extra={"truncate": "END", "null": None}
    )
    await local.translate_request(call, request)
    assert call.losses == ["taskType", "title", "truncate"]


@pytest.mark.gen_test
async def test_a_strict_caller_gets_an_error_instead_of_a_loss(make_call):
    with pytest.raises(InvalidField) as caught:
        await local.translate_request(make_call(strict=True), make_request("one", task="CLUSTERING"))
    assert caught.value.param == "taskType"


@pytest.mark.gen_test
async def test_a_transcript_is_not_among_the_operations(call):
    with pytest.raises(UnsupportedOperation):
        await local.translate_request(
            call, TranscriptionRequest(model="m", audio=Data(media_type="audio/wav", base64=""))
        )
