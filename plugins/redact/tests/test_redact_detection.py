"""Detection: a corpus with its precision and recall, any position in any text, and the time that it takes."""

from __future__ import annotations

import re
import time

import pytest
from corpus_of_redact import CLEAN, FOUND
from hypothesis import given, settings
from hypothesis import strategies as st

from tornado_gate_redact import find_values
from tornado_gate_redact.checks import is_iban, passes_luhn
from tornado_gate_redact.detectors import DETECTORS
from tornado_gate_redact.folding import INVISIBLE, WINDOW, fold
from tornado_gate_redact.patterns import compile_pattern
from tornado_gate_redact.settings import RedactSettings, read_settings

ALL = read_settings({"kinds": list(DETECTORS)})


def values(text: str, used: RedactSettings = ALL) -> list[tuple[str, str]]:
    return [(text[start:end], kind) for start, end, kind in find_values(used, text)]


def test_everything_of_the_corpus_is_found_and_nothing_else() -> None:
    missed, wrong, right = [], [], 0
    for kind, sentences in FOUND.items():
        for sentence in sentences:
            expected = [(value, kind) for value in re.findall("«(.*?)»", sentence)]
            detected = values(sentence.replace("«", "").replace("»", ""))
            right += len(set(expected) & set(detected))
            missed += [(sentence, pair) for pair in expected if pair not in detected]
            wrong += [(sentence, pair) for pair in detected if pair not in expected]
    for sentence in CLEAN:
        wrong += [(sentence, pair) for pair in values(sentence)]
    precision, recall = right / (right + len(wrong)), right / (right + len(missed))
    assert (precision, recall) == (1.0, 1.0), f"precision {precision:.3f}, recall {recall:.3f}\n{wrong}\n{missed}"


KNOWN = [(value, kind) for kind, found in FOUND.items() for text in found for value in re.findall("«(.*?)»", text)]
SURROUNDINGS = st.sampled_from(["", " ", "\n", "(", '"', "é ", "text ", ", ", "：", "\u200b"])


@settings(max_examples=150)
@given(st.lists(st.tuples(SURROUNDINGS, st.sampled_from(KNOWN)), min_size=1, max_size=4))
def test_values_are_found_wherever_they_stand(parts: list[tuple[str, tuple[str, str]]]) -> None:
    text, places = "", []
    for around, (value, kind) in parts:
        text += around + " "
        places.append((len(text), value, kind))
        text += value + " \n"
    detected = {(start, kind) for start, _, kind in find_values(ALL, text)}
    assert {(start, kind) for start, _, kind in places} <= detected


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("aé1１＠@.+-　 \u200b\u2060𝐚٣" + INVISIBLE), max_size=40))
def test_folding_keeps_the_places_of_characters(text: str) -> None:
    folded = fold(text)
    assert not set(folded.text) & set(INVISIBLE)
    for index, character in enumerate(folded.text):
        start, end = folded.find_span(index, index + 1)
        assert end == start + 1
        assert fold(text[start:end]).text == character


@settings(max_examples=200)
@given(st.text(max_size=80))
def test_spans_are_in_order_and_do_not_overlap(text: str) -> None:
    after = 0
    for start, end, _ in find_values(ALL, text):
        assert after <= start < end <= len(text)
        after = end


@settings(max_examples=100)
@given(st.integers(0, 10**15 - 1), st.integers(1, 9))
def test_a_wrong_digit_is_noticed(number: int, change: int) -> None:
    digits = f"{number:015}"
    (check,) = [digit for digit in "0123456789" if passes_luhn(digits + digit)]
    assert not passes_luhn(digits + str((int(check) + change) % 10))


def test_the_examples_of_ibans_pass() -> None:
    assert is_iban("DE89370400440532013000")
    assert not is_iban("DE89370400440532013001")
    assert not is_iban("DE8937040044053201300")


def measure(text: str, used: RedactSettings = ALL) -> float:
    began = time.process_time()
    find_values(used, text)
    return time.process_time() - began


@pytest.mark.qa
def test_hostile_texts_take_time_in_proportion_to_their_length() -> None:
    """Quadratic detectors would take a hundred times as long for ten times the text."""
    hostile = ["@", "a", "1", "4 ", "4444 ", "+1 ", "a.", "a@a.", "DE12 ", "ab:", "1.", "a\u200b", "x@a-", "sk-", "eyJ"]
    hostile += ["eyJaaaaaaaaaaaa.", "4111 1111 1111 1112 ", "ghp_", "é1 "]
    faults = []
    for piece in hostile:
        few, many = piece * (20_000 // len(piece)), piece * (200_000 // len(piece))
        least, most = (min(measure(text) for _ in range(2)) for text in (few, many))
        if most > 35 * max(least, 0.002):
            faults.append((piece, least, most))
    assert not faults


WORST = {
    "email": "a@a@",
    "phone": "+49 30 1234567 ",
    "iban": "DE12 ",
    "card": "4111-",
    "ssn": "123-45-6789 ",
    "secret": "sk-aaaaaaaaaaaaaaaaaaaa ",
    "ip": "a::b ",
    "jwt": "eyJaaaaaaaaaaaa.",
    "invisible": "a\u200b@",
    "badge": "a",
}
"""The slowest text of each detector, by kind. The last two are ignored characters, and a pattern of conf."""
MEGABYTES = 10


@pytest.mark.qa
def test_the_worst_text_of_ten_megabytes_takes_each_detector_a_time_by_its_size() -> None:
    slow = {}
    for kind, piece in WORST.items():
        own = {"kinds": [], "patterns": {"badge": "(a{1,20}){1,20}b"}} if kind == "badge" else {"kinds": [kind]}
        used = RedactSettings() if kind == "invisible" else read_settings(own)
        seconds = measure(piece * (MEGABYTES * 1_000_000 // len(piece.encode())), used)
        if seconds > 2.0 * MEGABYTES:
            slow[kind] = seconds
    assert not slow


def test_a_value_at_the_border_of_two_windows_is_found() -> None:
    missed = []
    for value, kind in KNOWN:
        for before in {1, len(value) // 2, len(value)}:
            filler = "\n" * (WINDOW - before)
            detected = [(text, of) for text, of in values(f"{filler}{value} \n") if of == kind]
            if detected != [(value, kind)]:
                missed.append((value, before, detected))
    assert not missed


def test_no_pattern_of_conf_blocks() -> None:
    detector = compile_pattern("(a{1,20}){1,20}b")
    began = time.process_time()
    assert list(detector.find("a" * 5000, 0, 5000)) == []
    assert time.process_time() - began < 5
    assert detector.characters == 401
