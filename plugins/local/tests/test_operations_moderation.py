"""Moderation through the hooks: the shape of verdicts, and what is said of pictures."""

from __future__ import annotations

import asyncio

import pytest
from openai.types.moderation import Categories

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.types import Data, Image, ModerationRequest, Text
from tornado_gate_local import word_list
from tornado_gate_local.word_list import CATEGORIES

PICTURE = Image(source=Data(media_type="image/png", base64=""))
THREAT = "I will kill you."


def make_request(*inputs, **fields) -> ModerationRequest:
    return ModerationRequest(model="local-moderation", inputs=inputs, names={"inputs": "input"}, **fields)


@pytest.fixture
def verdicts(work):
    async def run(request: ModerationRequest):
        (result,) = await work(request)
        return result

    return run


@pytest.mark.gen_test(timeout=50)
async def test_every_input_gets_a_verdict_on_every_category_of_the_vendor(verdicts):
    result = await verdicts(make_request((Text(text="A quiet evening at the lake."),), (Text(text=THREAT),)))
    fields = {field.alias or name for name, field in Categories.model_fields.items()}
    for verdict in result.verdicts:
        assert set(verdict.categories) == set(verdict.scores) == set(verdict.applied) == fields == set(CATEGORIES)
        assert all(0 <= score <= 1 for score in verdict.scores.values())
        assert all(kinds == ["text"] for kinds in verdict.applied.values())
        assert verdict.flagged == any(verdict.categories.values())
    assert [verdict.flagged for verdict in result.verdicts] == [False, True]
    assert result.verdicts[1].categories["violence"]
    assert result.usage is None
    assert result.model == "upstream-name"


@pytest.mark.gen_test(timeout=50)
async def test_more_text_than_a_worker_reads_in_time_is_refused_at_once(verdicts):
    half = (Text(text="a " * (word_list.MAX_CHARACTERS // 4)),)
    with pytest.raises(InvalidField, match=r"at most 4,000,000 characters .* this one has 4,000,001") as caught:
        await verdicts(make_request(half, half, (Text(text="a"),)))
    assert (caught.value.param, caught.value.code) == ("input", "string_above_max_length")


@pytest.mark.gen_test(timeout=50)
async def test_two_answers_have_two_ids(verdicts):
    one, other = await verdicts(make_request((Text(text="a"),))), await verdicts(make_request((Text(text="a"),)))
    assert one.id.startswith("modr-")
    assert one.id != other.id


@pytest.mark.gen_test(timeout=50)
async def test_all_texts_of_an_input_are_judged_together(verdicts):
    result = await verdicts(make_request((Text(text="Hello."), Text(text=THREAT))))
    assert [verdict.flagged for verdict in result.verdicts] == [True]


@pytest.mark.gen_test(timeout=50)
async def test_a_picture_is_reported_by_its_place_and_the_verdict_is_on_the_text(verdicts, call):
    result = await verdicts(make_request((Text(text=THREAT), PICTURE)))
    assert call.losses == ["input.1"]
    assert result.verdicts[0].flagged
    assert result.verdicts[0].applied["violence"] == ["text"]


@pytest.mark.gen_test(timeout=50)
async def test_a_verdict_on_a_picture_alone_applies_to_nothing(verdicts, call):
    result = await verdicts(make_request((PICTURE,)))
    assert call.losses == ["input"]
    assert set(map(tuple, result.verdicts[0].applied.values())) == {()}


@pytest.mark.gen_test
async def test_of_several_inputs_the_place_is_that_of_the_input(call):
    await local.translate_request(call, make_request((Text(text="a"),), (PICTURE,)))
    assert call.losses == ["input.1"]


@pytest.mark.gen_test
async def test_unknown_fields_and_members_are_reported(call):
    inputs = (Text(text="a", extra={"language": "en"}), Text(text="b"))
    await local.translate_request(call, make_request(inputs, extra={"policy": "strict"}))
    assert call.losses == ["input.0.language", "policy"]


@pytest.mark.gen_test
async def test_a_strict_caller_gets_an_error_for_a_picture(make_call):
    with pytest.raises(InvalidField) as caught:
        await local.translate_request(make_call(strict=True), make_request((Text(text="a"), PICTURE)))
    assert caught.value.param == "input.1"


@pytest.mark.parametrize("texts", [["word " * 1_000], ["a"] * 100])
@pytest.mark.gen_test(timeout=50)
async def test_long_and_many_texts_are_not_judged_in_the_loop(verdicts, monkeypatch, texts):
    monkeypatch.setattr(word_list, "moderate", None)  # a worker imports its own

    class Elsewhere:
        async def run(self, function, given):
            assert function is None
            await asyncio.sleep(0)
            return tuple(map(word_list.judge, given))

    assert len(await word_list.moderate_in_worker(texts, Elsewhere())) == len(texts)
