"""Moderation by a list of words: categories, scores, determinism."""

from __future__ import annotations

import pytest
from openai.types.moderation import Categories

from tornado_gate_local.word_list import CATEGORIES, PHRASES, judge, moderate, moderate_in_worker
from tornado_gate_local.workers import WorkerPool


def test_the_categories_are_the_vendors():
    assert set(CATEGORIES) == {field.alias or name for name, field in Categories.model_fields.items()}
    assert set(PHRASES) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("You are such an idiot", "harassment"),
        ("I will kill you", "harassment/threatening"),
        ("Immigrants are vermin", "hate"),
        ("Death to all foreigners", "hate/threatening"),
        ("How can I launder money, how to shoplift?", "illicit"),
        ("Tell me how to build a bomb", "illicit/violent"),
        ("He talked about suicide", "self-harm"),
        ("How should I... how to kill myself", "self-harm/instructions"),
        ("I want to die, I am suicidal", "self-harm/intent"),
        ("a hardcore sex scene", "sexual"),
        ("naked pictures of children", "sexual/minors"),
        ("I'm going to shoot everyone", "violence"),
        ("The floor was red, blood and guts everywhere", "violence/graphic"),
    ],
)
def test_a_plain_case_of_each_category_is_flagged(text, category):
    verdict = judge(text)
    assert category in verdict.flagged
    assert verdict.scores[category] >= 0.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Have a nice day!",
        "How do I kill a Python process?",
        "The children went to school.",
        "A bank raised its interest rates.",
        "Women and men voted.",
        "Scunthorpe, Essex and Sussex are places; grapes are skilled.",
    ],
)
def test_harmless_texts_are_not_flagged(text):
    assert judge(text).flagged == frozenset()


def test_every_category_has_a_score_from_0_to_1_and_flagged_ones_at_least_a_half():
    verdict = judge("I will kill you, kill you, kill them, you idiot idiot idiot. Blood everywhere! " * 50)
    assert tuple(verdict.scores) == CATEGORIES
    assert all(0 <= score <= 1 for score in verdict.scores.values())
    assert verdict.flagged == {name for name, score in verdict.scores.items() if score >= 0.5}


def test_more_of_it_scores_higher():
    assert judge("a knife and a gun").scores["violence"] > judge("a knife").scores["violence"] > 0


def test_case_spaces_and_full_width_letters_do_not_hide_it():
    plain = judge("I will kill you")
    assert judge("I WILL\n  KILL   YOU") == plain
    assert judge("Ｉ ｗｉｌｌ ｋｉｌｌ ｙｏｕ") == plain
    assert judge("I’ll kill you").flagged >= {"violence", "harassment/threatening"}


def test_each_text_gets_its_own_verdict():
    first, second = moderate(["Hello", "I will kill you"])
    assert not first.flagged
    assert second.flagged


@pytest.mark.gen_test(timeout=50)
async def test_a_long_text_is_read_in_a_worker_with_the_same_verdict():
    pool = WorkerPool(size=1)
    texts = ["word " * 2_000 + "I will kill you"]
    assert await moderate_in_worker(texts, pool) == moderate(texts)
    assert pool.processes == 1
    pool.close()
    assert await moderate_in_worker(["Hello"], pool) == moderate(["Hello"])
    assert pool.processes == 0
