"""Vectors of texts: near texts are nearer, lengths, sizes, packing."""

from __future__ import annotations

import base64
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.vectors import embed, embed_in_worker, make_vector
from tornado_gate_local.words import count_tokens
from tornado_gate_local.workers import WorkerPool

TOPICS = {
    "cooking": [
        "Bake the bread in a hot oven until the crust is brown.",
        "Knead the dough for the bread and let it rise.",
        "Cook the pasta in boiling water with salt.",
        "A sauce of tomatoes and garlic goes well with pasta.",
        "The oven must be hot before you bake a cake.",
    ],
    "football": [
        "The striker scored two goals in the football match.",
        "The goalkeeper saved a penalty in the last minute of the match.",
        "Our team won the football league this season.",
        "The coach of the team praised the goalkeeper.",
        "A penalty decided the match and the team lost the league.",
    ],
    "weather": [
        "Heavy rain and strong wind are expected tomorrow.",
        "The forecast promises sunshine and mild temperatures.",
        "A storm with rain and thunder crossed the coast.",
        "The weather forecast warns of a storm and snow.",
        "Temperatures will fall and snow is expected at the coast.",
    ],
    "computers": [
        "The program crashed because of a bug in the software.",
        "She wrote a Python program that sorts the files.",
        "Install the software update on your computer.",
        "The computer stores the files on a hard disk.",
        "A compiler turns the source code of a program into software.",
    ],
    "music": [
        "The orchestra played a symphony by Beethoven.",
        "She plays the violin and the piano in an orchestra.",
        "The band recorded a new song for the album.",
        "The piano concert ended with a symphony.",
        "The singer of the band wrote every song of the album.",
    ],
    "money": [
        "The bank raised the interest rate on loans.",
        "Shares fell on the stock market after the bank's report.",
        "Investors buy stock when the interest is low.",
        "The market expects higher interest rates from the bank.",
        "He pays back the loan with interest to the bank.",
    ],
}


def near(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dimensions", [128, 256, 1_536])
def test_the_nearest_sentence_is_of_the_same_topic_for_four_in_five(dimensions):
    labelled = [(topic, make_vector(text, dimensions)) for topic, texts in TOPICS.items() for text in texts]
    right = 0
    for topic, values in labelled:
        others = [(near(values, other), name) for name, other in labelled if other is not values]
        right += max(others)[1] == topic
    assert right / len(labelled) >= 0.8


def test_spelling_and_endings_matter_less_than_words():
    text = make_vector("The cats are sleeping", 256)
    assert near(text, make_vector("the cat sleeps", 256)) > 0.3
    assert near(text, make_vector("THE CATS ARE SLEEPING!", 256)) == pytest.approx(1)
    assert abs(near(text, make_vector("Quarterly revenue grew", 256))) < 0.2


def test_the_order_of_words_matters_a_little():
    one, other = make_vector("dog bites man", 256), make_vector("man bites dog", 256)
    assert 0.5 < near(one, other) < 0.99


def test_texts_without_spaces_between_words_have_neighbours_too():
    one = make_vector("今日は天気がいいです", 256)
    assert near(one, make_vector("今日は天気が悪いです", 256)) > near(one, make_vector("株価が下がった", 256)) + 0.2


@given(st.text(max_size=200), st.integers(1, 4_096))
@settings(max_examples=60, deadline=None)
def test_every_text_has_a_vector_of_length_one_that_is_always_the_same(text, dimensions):
    values = make_vector(text, dimensions)
    assert len(values) == dimensions
    assert math.sqrt(near(values, values)) == pytest.approx(1)
    assert make_vector(text, dimensions) == values


def test_vectors_do_not_change_from_one_version_to_the_next():
    assert [round(value, 4) for value in make_vector("Hello, world!", 4)] == PINNED


PINNED = [0.0, -0.5753, -0.7012, -0.4211]


def test_the_packed_form_is_little_endian_32_bit_floats():
    vectors = embed(["one", "two words"], 8)
    assert len(vectors) == 2
    assert struct.unpack("<8f", base64.b64decode(vectors.get_base64(1))) == vectors.get_floats(1)
    assert vectors.get_floats(1) == pytest.approx(make_vector("two words", 8), abs=1e-6)
    assert vectors.get_packed(0) + vectors.get_packed(1) == vectors.data


def test_tokens_are_counted_by_the_rule_of_the_provider():
    assert embed(["one", "two words"]).tokens == count_tokens(["one", "two words"])


@pytest.mark.parametrize("dimensions", [0, 4_097, -1])
def test_dimensions_out_of_bounds_are_refused(dimensions):
    with pytest.raises(InvalidArgument) as refused:
        embed(["x"], dimensions)
    assert refused.value.param == "dimensions"


@pytest.mark.parametrize("count", [0, 2_049])
def test_no_texts_and_too_many_are_refused(count):
    with pytest.raises(InvalidArgument) as refused:
        embed(["x"] * count)
    assert refused.value.param == "input"


class NoPool(WorkerPool):
    async def run(self, function, *args, **named):
        raise AssertionError("too little for a worker")


@pytest.mark.gen_test(timeout=50)
async def test_a_short_text_needs_no_worker():
    assert len(await embed_in_worker(["Hello"], pool=NoPool())) == 1


@pytest.mark.gen_test(timeout=50)
async def test_many_texts_are_done_in_a_worker():
    pool = WorkerPool(size=1)
    texts = [f"Text number {number}" for number in range(2_048)]
    vectors = await embed_in_worker(texts, 64, pool)
    assert pool.processes == 1
    pool.close()
    assert len(vectors) == 2_048
    assert vectors.get_floats(2_047) == embed(texts[-1:], 64).get_floats(0)
