"""The terms and the punctuation of translations, as docs/contributing/translating.md states them."""

from __future__ import annotations

import re

from tests.languages.catalogue import read_catalogue
from tests.support.process import REPOSITORY

GLOSSARY = REPOSITORY / "docs" / "contributing" / "translating.md"
IDIOMS = ("无响应",)
"""Phrases that may have such a word: "silent" is no response of an upstream."""


def read_wrong_words() -> set[str]:
    """The words of the last column of the glossary without a remark."""
    rows = [line.split("|")[1:-1] for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.count("|") == 4]
    return {cell.strip() for *_, cell in rows[2:] if cell.strip() and "(" not in cell}


def test_chinese_has_the_words_of_the_glossary() -> None:
    wrong = read_wrong_words()
    assert {"提供方", "响应", "限额"} <= wrong
    for message in read_catalogue("zh"):
        text = str(message.string)
        for idiom in IDIOMS:
            text = text.replace(idiom, "")
        assert not [word for word in wrong if word in text], message.id


def test_chinese_has_full_width_punctuation_and_spaces_beside_latin_letters() -> None:
    half_width = re.compile(r"[\u4e00-\u9fff][;,:!?()]|[;,:!?()][\u4e00-\u9fff]")
    no_space = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]")
    for message in read_catalogue("zh"):
        assert not half_width.search(str(message.string)), message.id
        assert not no_space.search(str(message.string)), message.id
