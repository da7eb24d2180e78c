"""Many inputs in several requests: in order, none lost, and counted together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.errors import UpstreamError
from tornado_gate.pipeline.embedding_batches import join, split, sum_usage
from tornado_gate.types import EmbeddingRequest, EmbeddingResult, Usage


def make_request(count: int, **rest: object) -> EmbeddingRequest:
    return EmbeddingRequest(model="m", inputs=tuple(f"text {number}" for number in range(count)), **rest)


def answered(request: EmbeddingRequest, usage: Usage | None = None, model: str = "up") -> EmbeddingResult:
    """A vector for each input, made of its number."""
    vectors = tuple((float(str(one).removeprefix("text ")),) for one in request.inputs)
    return EmbeddingResult(vectors=vectors, model=model, usage=usage)


@given(count=st.integers(1, 200), most=st.integers(1, 250))
def test_every_input_gets_its_own_vector_in_order(count: int, most: int) -> None:
    request = make_request(count)
    pieces = split(request, most)
    assert max(len(piece.inputs) for piece in pieces) <= most
    assert len(pieces) == -(-count // most)
    joined = join(pieces, [answered(piece) for piece in pieces])
    assert joined.vectors == tuple((float(number),) for number in range(count))


def test_a_piece_asks_for_what_the_whole_asked_for() -> None:
    request = make_request(
        3, dimensions=256, task="RETRIEVAL_QUERY", user="u", extra={"truncate": "NONE"}, names={"dimensions": "d"}
    )
    for piece in split(request, 2):
        assert (piece.model, piece.dimensions, piece.task, piece.user) == ("m", 256, "RETRIEVAL_QUERY", "u")
        assert (piece.extra, piece.field_name("dimensions")) == ({"truncate": "NONE"}, "d")


def test_a_request_that_fits_and_one_without_inputs_are_one_piece() -> None:
    assert split(make_request(3), 3) == [make_request(3)]
    assert split(make_request(0), 3) == [make_request(0)]
    assert join([make_request(0)], [EmbeddingResult(vectors=())]).vectors == ()


@pytest.mark.parametrize("vectors", [(), ((1.0,),), ((1.0,), (2.0,), (3.0,))])
def test_an_answer_with_too_few_or_too_many_vectors_is_the_upstreams_fault(
    vectors: tuple[tuple[float, ...], ...],
) -> None:
    pieces = split(make_request(4), 2)
    with pytest.raises(UpstreamError, match=f"{len(vectors)} vectors for 2 inputs"):
        join(pieces, [answered(pieces[0]), EmbeddingResult(vectors=vectors)])


def test_the_first_answer_names_the_model() -> None:
    pieces = split(make_request(3), 2)
    joined = join(pieces, [answered(pieces[0], model="m-1"), answered(pieces[1], model="m-2")])
    assert joined.model == "m-1"


def test_every_counter_is_summed() -> None:
    one = Usage(
        input_tokens=5,
        output_tokens=1,
        image_tokens=2,
        cache_read_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=6,
        extra={"billed_units": 7, "tier": "a", "cost": 0.5, "cached": True},
    )
    other = Usage(
        input_tokens=10,
        cache_read_tokens=0,
        extra={"billed_units": 1, "tier": "b", "cost": 1.0, "cached": True, "new": 2},
    )
    assert sum_usage([one, other]) == Usage(
        input_tokens=15,
        output_tokens=1,
        image_tokens=2,
        cache_read_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=6,
        extra={"billed_units": 8, "tier": "a", "cost": 1.5, "cached": True, "new": 2},
    )


def test_what_nobody_reported_stays_unreported_and_zero_stays_zero() -> None:
    assert sum_usage([]) is None
    assert sum_usage([None, None]) is None
    assert sum_usage([None, Usage(input_tokens=3), None]) == Usage(input_tokens=3)
    assert sum_usage([Usage(), Usage()]) == Usage()
    assert sum_usage([Usage(input_tokens=0), Usage()]) == Usage(input_tokens=0)


@pytest.mark.parametrize(
    ("reports", "total"),
    [
        ((Usage(input_tokens=2), Usage(input_tokens=1), Usage(input_tokens=5)), Usage(input_tokens=8)),
        ((Usage(input_tokens=2), None, Usage(input_tokens=5)), None),
        ((Usage(input_tokens=2), Usage(input_tokens=0), Usage(input_tokens=5)), None),
        ((None, None, None), None),
    ],
)
def test_a_joined_answer_carries_the_sum_or_nothing_when_an_upstream_left_out_a_piece(
    reports: tuple[Usage | None, ...], total: Usage | None
) -> None:
    pieces = split(make_request(3), 1)
    results = [answered(piece, usage) for piece, usage in zip(pieces, reports, strict=True)]
    assert join(pieces, results).usage == total
