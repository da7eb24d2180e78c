"""Convert letters to phonemes for `formant`. Pure; rough rules of English spelling; every script works."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from tornado_gate.types.value import Value


class Phoneme(Value, frozen=True):
    """`formants` in Hz for a throat of 1; `voiced` and `noise` are loudness 0 to 1; `noise_at` is a frequency in Hz.

    `milliseconds` is the duration at pace 1. Plosives (`STOPS`) are preceded by `SILENCE`.
    """

    milliseconds: int
    formants: tuple[int, int, int]
    voiced: float = 0.0
    noise: float = 0.0
    noise_at: int = 3_000


def _make_vowel(first: int, second: int, third: int, milliseconds: int = 110) -> Phoneme:
    return Phoneme(milliseconds, (first, second, third), voiced=1.0)


SILENCE = Phoneme(40, (500, 1_500, 2_500))
WORD_GAP = Phoneme(35, (500, 1_500, 2_500))
PAUSE = Phoneme(160, (500, 1_500, 2_500))
STOP = Phoneme(300, (500, 1_500, 2_500))

# Formants of vowels: the usual textbook values for men (Peterson and Barney 1952), rounded.
VOWELS = {
    "a": _make_vowel(730, 1_090, 2_440),
    "e": _make_vowel(530, 1_840, 2_480, 95),
    "i": _make_vowel(390, 1_990, 2_550, 85),
    "o": _make_vowel(570, 840, 2_410),
    "u": _make_vowel(440, 1_020, 2_240, 95),
    "y": _make_vowel(270, 2_290, 3_010, 90),
    "ee": _make_vowel(270, 2_290, 3_010, 130),
    "oo": _make_vowel(300, 870, 2_240, 130),
    "ai": _make_vowel(600, 1_700, 2_500, 130),
    "ou": _make_vowel(640, 1_000, 2_400, 140),
    "er": _make_vowel(490, 1_350, 1_690, 120),
}
SAME = {
    "ea": "ee",
    "ie": "ee",
    "ay": "ai",
    "ei": "ai",
    "ey": "ee",
    "ow": "ou",
    "oa": "o",
    "oi": "o",
    "oy": "o",
    "au": "o",
    "aw": "o",
    "ir": "er",
    "ur": "er",
    "ue": "oo",
    "ew": "oo",
}
CONSONANTS = {
    "m": Phoneme(70, (280, 900, 2_200), voiced=0.5),
    "n": Phoneme(65, (280, 1_700, 2_600), voiced=0.5),
    "l": Phoneme(65, (360, 1_300, 2_700), voiced=0.7),
    "r": Phoneme(65, (420, 1_300, 1_600), voiced=0.7),
    "w": Phoneme(60, (300, 700, 2_200), voiced=0.7),
    "j": Phoneme(70, (300, 1_900, 2_600), voiced=0.4, noise=0.4, noise_at=2_800),
    "s": Phoneme(95, (320, 1_500, 2_600), noise=0.6, noise_at=6_500),
    "sh": Phoneme(100, (320, 1_700, 2_600), noise=0.7, noise_at=3_200),
    "ch": Phoneme(95, (320, 1_700, 2_600), noise=0.8, noise_at=3_400),
    "f": Phoneme(85, (320, 1_200, 2_500), noise=0.3, noise_at=7_000),
    "th": Phoneme(75, (320, 1_400, 2_600), voiced=0.2, noise=0.25, noise_at=6_000),
    "h": Phoneme(60, (500, 1_500, 2_500), noise=0.35, noise_at=1_500),
    "v": Phoneme(65, (300, 1_200, 2_500), voiced=0.5, noise=0.2, noise_at=6_500),
    "z": Phoneme(80, (300, 1_500, 2_600), voiced=0.4, noise=0.4, noise_at=6_500),
    "b": Phoneme(35, (250, 900, 2_300), voiced=0.5, noise=0.2, noise_at=900),
    "d": Phoneme(35, (280, 1_700, 2_600), voiced=0.5, noise=0.3, noise_at=3_500),
    "g": Phoneme(40, (280, 1_900, 2_300), voiced=0.5, noise=0.3, noise_at=2_000),
    "p": Phoneme(35, (300, 900, 2_300), noise=0.6, noise_at=1_000),
    "t": Phoneme(35, (300, 1_700, 2_600), noise=0.7, noise_at=4_500),
    "k": Phoneme(40, (300, 1_900, 2_300), noise=0.7, noise_at=2_200),
    "ng": Phoneme(80, (280, 2_000, 2_600), voiced=0.5),
}
SPELT = {"ph": "f", "ck": "k", "qu": "kw", "wh": "w", "c": "k", "q": "k", "x": "ks"}
STOPS = frozenset("bdgptk") | {"ch"}
DIGITS = ("zero", "wun", "too", "three", "for", "faiv", "siks", "seven", "ait", "nain")
_SYLLABLES = "bdgklmnprstvz"


MAX_CACHED_LENGTH = 100
"""Letters of a word whose phonemes are cached."""


def list_phonemes(text: str) -> list[Phoneme]:
    """The phonemes of a text, with pauses for its punctuation. At least one."""
    sounds: list[Phoneme] = []
    word: list[str] = []
    for letter in [*unicodedata.normalize("NFKD", text.lower()), " "]:
        if letter.isalnum():
            word.append(_spell_letter(letter))
        elif not unicodedata.combining(letter) and letter not in "'’":
            sounds += (list_word_phonemes if len(word) <= MAX_CACHED_LENGTH else list_word_phonemes.__wrapped__)(
                "".join(word)
            )
            word = []
            sounds.append(STOP if letter in ".!?。！？\n" else PAUSE if letter in ",;:-，、" else WORD_GAP)
    return sounds


def _spell_letter(letter: str) -> str:
    """A letter that English does not have becomes a syllable, always the same one."""
    if letter.isascii() and letter.isalpha():
        return letter
    digit = unicodedata.digit(letter, None)
    if digit is not None:
        return DIGITS[digit]
    number = ord(letter)
    return _SYLLABLES[number % len(_SYLLABLES)] + "aeiou"[number // len(_SYLLABLES) % 5]


@lru_cache(maxsize=2_000)
def list_word_phonemes(word: str) -> tuple[Phoneme, ...]:
    """The phonemes of one word in lower-case Latin letters."""
    if len(word) > 3 and word.endswith("e") and word[-2] not in "aeiou":
        word = word[:-1]
    sounds: list[Phoneme] = []
    at = 0
    while at < len(word):
        pair, letter = word[at : at + 2], word[at]
        if at and letter == word[at - 1] and letter not in "aeiou":  # a double consonant is one phoneme
            at += 1
            continue
        unit = pair if pair in VOWELS or pair in SAME or pair in CONSONANTS or pair in SPELT else letter
        sounds += _list_unit_phonemes(SAME.get(unit, unit))
        at += len(unit)
    return tuple(sounds)


def _list_unit_phonemes(unit: str) -> list[Phoneme]:
    if unit in VOWELS:
        return [VOWELS[unit]]
    if unit in CONSONANTS:
        return [SILENCE, CONSONANTS[unit]] if unit in STOPS else [CONSONANTS[unit]]
    return [sound for letter in SPELT.get(unit, "") for sound in _list_unit_phonemes(letter)]
