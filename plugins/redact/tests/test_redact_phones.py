"""Telephone numbers in the national form of regions: what is found and what is not, in streams, and the time that it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.gateway import Gateway, run_command
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Upstream, answer, sse
from tornado_gate.errors import ConfigError
from tornado_gate_redact import find_values
from tornado_gate_redact.folding import WINDOW
from tornado_gate_redact.phones import MAX_CHECKS
from tornado_gate_redact.settings import RedactSettings, read_settings

NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "US": (
        "415-555-2671", "(415) 555-2671", "(415)555-2671", "415.555.2671", "415 555 2671", "415/555-2671", "4155552671",
        "1-415-555-2671", "1 (415) 555-2671", "４１５-５５５-２６７１",
    ),
    "DE": (
        "(030) 901820", "(0 30) 90 18 20", "030 901820", "030/901820", "030 / 90 18 20", "030-90 18 20", "0171 1234567",
        "0171-1234567", "01711234567", "0049 30 901820",
    ),
    "FR": ("01 42 68 53 00", "01.42.68.53.00", "0142685300", "06-12-34-56-78"),
    "GB": ("020 7946 0958", "(020) 7946 0958", "07400 123456", "0161 496 0123"),
    "IN": ("98765 43210", "098765 43210"),
    "JP": ("03-1234-5678", "090-1234-5678"),
    "ES": ("612 345 678", "91 123 45 67"),
    "IT": ("06 69812345", "347 123 4567"),
    "BR": ("(11) 91234-5678",),
    "AR": ("011 15-2345-6789", "011 4123-4567"),
    "RU": ("8 (916) 123-45-67", "8 800 555-35-35"),
    "AU": ("0412 345 678", "(02) 9374 4000"),
    "CN": ("138 0013 8000", "010-6552 9988"),
}  # fmt: skip
SURROUNDINGS: Final = (
    "Call {} now.", "({})", "tel:{}\n", "{}", "{}x12", '{{"phone":"{}"}}', "{}, or {}", "{}\n{}", "phone={}&", "Tel.: {};",
)  # fmt: skip
OTHERS: Final = (
    "2024-05-12 10", "2024-05-12 10:30:00", "12.05.2024 10", "05/12/2024 10", "20240512 1030", "192.168.10.12",
    "10.20.30.40", "order 12345678901234", "ABC-415-555-2671", "#4155552671", "415-555-2671-99", "4155552671abc",
    "https://shop.example/4155552671", "$1 234 567 890", "$ 4155552671", "4155552671 €", "1.234.567,89 €", "1,415,555,267",
    "123e4567-e89b-12d3-a456-426614174000", "12345678-1234-1234-1234-123456789012", "4111 1111 1111 1111",
    "4111-1111-1111-1111", "5555555555554444", "1700000000", "id 1700000000000", "978-3-16-148410-0",
    "3.14159265358979", "0.4155552671", "50.110924, 8.682127", "12:30:45", "536-22-8726", "1 234 567", "version 1.2.3.4.5",
)  # fmt: skip
HERE: Final = ("US", "DE", "GB", "FR", "ES", "IN")


def use(*regions: str, **rest: Any) -> RedactSettings:
    return read_settings({"kinds": ["phone"], "regions": list(regions), **rest})


def find_texts(used: RedactSettings, text: str) -> list[str]:
    return [text[start:end] for start, end, _ in find_values(used, text)]


@pytest.mark.parametrize("region", NUMBERS)
def test_numbers_as_people_of_a_region_write_them_are_found_and_only_there(region: str) -> None:
    used, none = use(region), read_settings({"kinds": ["phone"]})
    faults = []
    for number in NUMBERS[region]:
        for around in SURROUNDINGS:
            text = around.format(number, number)
            expected = [number] * around.count("{}")
            if find_texts(used, text) != expected or find_texts(none, text):
                faults.append((text, find_texts(used, text), find_texts(none, text)))
    assert not faults


def test_dates_addresses_prices_and_identifiers_are_no_numbers() -> None:
    found = {(region, text): find_texts(use(region), text) for region in HERE for text in OTHERS}
    assert not {place: texts for place, texts in found.items() if texts}


def test_a_number_is_one_of_its_region_only() -> None:
    assert find_texts(use("US"), "030 901820 and 415-555-2671") == ["415-555-2671"]
    assert find_texts(use("DE"), "030 901820 and 415-555-2671") == ["030 901820"]
    assert find_texts(use("DE", "US"), "030 901820 and 415-555-2671") == ["030 901820", "415-555-2671"]


def test_other_kinds_and_international_numbers_are_found_as_before() -> None:
    used = read_settings({"regions": ["US", "DE"]})
    text = "+1 415-555-2671, +49 (0)30 901820, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, 415-555-2671"
    kinds = [kind for _, _, kind in find_values(used, text)]
    assert kinds == ["phone", "phone", "card", "iban", "phone"]
    assert find_texts(used, text) == text.split(", ")


def test_numbers_among_other_numbers_are_found() -> None:
    assert find_texts(use("US"), "12 415-555-2671 12 times, 3 4155552671") == ["415-555-2671", "4155552671"]
    assert find_texts(use("US"), "415-555-2671 415-555-2672") == ["415-555-2671", "415-555-2672"]
    assert find_texts(use("DE"), "room 12 030/901820")[0] == "030/901820"


def test_a_number_at_the_border_of_two_windows_is_found_once() -> None:
    missed = []
    for region, numbers in NUMBERS.items():
        for before in (1, len(numbers[0]) // 2, len(numbers[0])):
            text = "\n" * (WINDOW - before) + numbers[0] + " \n"
            if find_texts(use(region), text) != [numbers[0]]:
                missed.append((region, before))
    assert not missed


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("0145.-/ ()+x,"), max_size=120))
def test_spans_of_numbers_are_in_order_and_do_not_overlap(text: str) -> None:
    after = 0
    for start, end, _ in find_values(use("US", "DE", "FR"), text):
        assert after <= start < end <= len(text)
        after = end


def test_checks_are_limited_and_later_numbers_of_a_window_are_replaced_by_their_form() -> None:
    invalid = "415-055-2671, "
    assert find_texts(use("US"), invalid * MAX_CHECKS) == []
    assert len(find_texts(use("US"), invalid * (MAX_CHECKS + 5))) == 5


@pytest.mark.parametrize(
    ("given", "place", "fault"),
    [
        ({"regions": ["US", "UK"]}, "regions.1", "US or DE"),
        ({"regions": ["us"]}, "regions.0", "two capitals"),
        ({"regions": ["US"], "kinds": ["email"]}, "regions", "'phone'"),
        ({"regions": ["US"] * 11}, "regions", "10"),
    ],
)
def test_faults_of_regions_say_where_they_are(given: dict[str, Any], place: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_settings(given)
    ((path, message),) = raised.value.faults
    assert ".".join(map(str, path)) == place
    assert fault in message


def test_an_unknown_region_is_a_fault_with_its_line(tmp_path: Path, upstream: Upstream, conf: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(conf.format(url=upstream.url, settings="\n    regions: [US,\n      UK]"))
    done = run_command("check", "--conf", str(file))
    assert done.returncode != 0
    assert f"{file}:8: plugins.redact.regions.1: is no region" in done.stdout + done.stderr


def test_the_library_is_imported_only_for_regions() -> None:
    code = (
        "import sys; from tornado_gate_redact.settings import read_settings; read_settings({'regions': []});"
        "print('phonenumbers' in sys.modules); read_settings({'regions': ['US']}); print('phonenumbers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]


@pytest.fixture(scope="module")
def regional(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory, conf: str) -> Iterator[Gateway]:
    """Start a gateway with reversible marks, and two regions."""
    text = conf.format(url=upstream_process.url, settings="restore: true, kinds: [phone], regions: [US, DE]")
    started = Gateway.start(text, tmp_path_factory.mktemp("regional"))
    yield started
    started.stop()


def ask(gateway: Gateway, text: str, *, streamed: bool) -> str:
    """Return the text of the response."""
    body = {"model": "of-chat", "messages": [{"role": "user", "content": text}], "stream": streamed}
    headers = {"authorization": "Bearer key-of-ann-0123456789"}
    response = httpx.post(gateway.url + "/v1/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)
    if not streamed:
        return str(response.json()["choices"][0]["message"]["content"])
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def test_numbers_are_restored_and_numbers_of_others_replaced(regional: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(completion("I called [PHONE_2], then [PHONE_1], not (030) 901821.")))
    text = ask(regional, "Call (030) 901820 or 415-555-2671 on 2024-05-12 10:00", streamed=False)
    (sent,) = upstream.requests
    assert sent.json["messages"][0]["content"] == "Call [PHONE_1] or [PHONE_2] on 2024-05-12 10:00"
    assert text == "I called 415-555-2671, then (030) 901820, not ***."


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_numbers_are_found_however_a_stream_is_divided(regional: Gateway, upstream: Upstream, size: int) -> None:
    """The text is longer than the characters that the stream holds back."""
    text = 5 * "I called [PHONE_1] on 2024-05-12 10:00, then (030) 901821 or 415-555-2672 and (415) 555-2673.\n"
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    upstream.script(answer(sse(*[chunk(content=part) for part in parts], chunk(reason="stop"), usage_chunk(), DONE)))
    received = ask(regional, "Call 030/901820", streamed=True)
    assert received == 5 * "I called 030/901820 on 2024-05-12 10:00, then *** or *** and ***.\n"


WORST: Final = (
    "4", "4155552671 ", "415-555-2671 ", "415-055-2671 ", "0300 000 ", "01 42 ", "12 ", "1-", "(1)", "1(", "(415) ", "(", "1 (",
)  # fmt: skip


def measure(used: RedactSettings, text: str) -> float:
    began = time.thread_time()
    find_values(used, text)
    return time.thread_time() - began


@pytest.mark.qa
def test_the_time_is_in_proportion_to_the_text_and_below_two_seconds_for_a_megabyte() -> None:
    used, slow = use("US", "DE", "GB", "FR", "ES", "IN", "JP", "BR", "RU", "IT"), {}
    for piece in WORST:
        few, many = (
            min(measure(used, piece * (size // len(piece))) for _ in range(2)) for size in (100_000, 1_000_000)
        )
        if many > 2.0 or many > 35 * max(few, 0.002):
            slow[piece] = (few, many)
    assert not slow
