"""What a request executes, against the fixed numbers in bench/costs.json. The rules are in docs/costs.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.costs.cases import CASES, CASES_BY_NAME, CostCase
from bench.costs.measure import count_cases, summarize
from bench.costs.record import (
    BadRecord,
    CaseRecord,
    Environment,
    Record,
    check_record,
    compare,
    find_environment,
    parse_raise,
    read_raises,
    read_record,
    update,
    write_record,
)

HERE = Environment("3.11", {"pluggy": "1"})
FIXED = Record(HERE, {"chat": CaseRecord((1000, 100, 100, 10, 5000), (0, 0, 0, 0, 0), (1000, 100, 100, 10, 5000))})
MORE_REQUESTS = 101


def find_faults(cases: Iterable[CostCase]) -> list[tuple[CostCase, list[str]]]:
    """Return the cases whose counts differ from the record, with the differences."""
    record, environment = read_record(), find_environment()
    compared = [(case, list(compare(case.name, cost.counts, record, environment))) for case, cost in count_cases(cases)]
    return [(case, faults) for case, faults in compared if faults]


@pytest.mark.timeout(600)
def test_no_request_executes_more_than_its_fixed_number_and_every_gain_is_kept() -> None:
    faults = find_faults(CASES)
    if faults:  # on a busy machine each of a few requests may have waked a thread, so count more of them
        faults = find_faults(replace(case, requests=MORE_REQUESTS) for case, _ in faults)
    assert not faults, "\n".join(fault for _, found in faults for fault in found)


def test_every_number_follows_from_the_first_one_the_gains_and_the_raises() -> None:
    assert check_record(read_record(), read_raises()) == []
    assert set(read_record().cases) == set(CASES_BY_NAME)


def test_a_higher_count_is_reported_with_the_line_that_would_explain_it() -> None:
    (fault,) = compare("chat", (1001, 100, 100, 10, 5000), FIXED, HERE)
    assert "1,001 bytecodes, 1,000 are allowed" in fault
    line = parse_raise(fault.partition("bench/costs.json: ")[2])
    assert (line.before, line.after) == ((1000, 100, 100, 10, 5000), (1001, 100, 100, 10, 5000))


@pytest.mark.parametrize(("bytecodes", "is_reported"), [(989, True), (990, False), (1000, False)])
def test_a_gain_of_more_than_a_percent_is_reported_with_the_command_that_keeps_it(
    bytecodes: int, is_reported: bool
) -> None:
    faults = list(compare("chat", (bytecodes, 100, 100, 10, 5000), FIXED, HERE))
    assert [fault.endswith("bench.costs --update chat") for fault in faults] == [True] * is_reported


def test_allocated_bytes_have_a_tolerance() -> None:
    assert list(compare("chat", (1000, 100, 100, 10, 5100), FIXED, HERE)) == []
    assert list(compare("chat", (1000, 100, 100, 10, 5101), FIXED, HERE)) != []


def test_an_update_lowers_numbers_and_never_raises_one() -> None:
    changed = update(FIXED, {"chat": (900, 101, 100, 10, 5000), "new": (5, 4, 3, 2, 1)}, HERE)
    assert changed.cases["chat"] == CaseRecord((1000, 100, 100, 10, 5000), (100, 0, 0, 0, 0), (900, 100, 100, 10, 5000))
    assert changed.cases["new"].now == (5, 4, 3, 2, 1)
    assert check_record(changed, []) == []


def test_a_raise_needs_its_line() -> None:
    raised = Record(HERE, {"chat": replace(FIXED.cases["chat"], now=(1020, 101, 100, 10, 5000))})
    assert [fault.partition(":")[0] for fault in check_record(raised, [])] == ["chat, bytecodes", "chat, calls"]
    line = parse_raise(
        "| chat | 1,000 / 100 / 100 / 10 / 5,000 | 1,020 / 101 / 100 / 10 / 5,000 | tags | each is checked |"
    )
    assert check_record(raised, [line]) == []
    assert check_record(raised, [line, line]) != []


@pytest.mark.parametrize(
    "line",
    [
        "| chat | 1 / 1 / 1 / 1 / 1 | 2 / 1 / 1 / 1 / 1 |  | no feature |",
        "| chat | 1 / 1 / 1 / 1 | 2 / 1 / 1 / 1 | a feature | too few numbers |",
        "| chat | 2 / 1 / 1 / 1 / 1 | 1 / 1 / 1 / 1 / 1 | a feature | a gain |",
        "| chat | 2 / 1 / 1 / 1 | a feature |",
    ],
)
def test_a_line_that_raises_nothing_or_explains_nothing_is_refused(line: str) -> None:
    with pytest.raises(BadRecord):
        parse_raise(line)


def test_gains_cannot_be_undone_by_a_negative_saving() -> None:
    case = CaseRecord((1000, 100, 100, 10, 5000), (-20, 0, 0, 0, 0), (1020, 100, 100, 10, 5000))
    assert check_record(Record(HERE, {"chat": case}), []) != []


def test_another_python_compares_coroutines_only_and_other_libraries_have_a_tolerance() -> None:
    higher = (1020, 102, 102, 10, 5100)
    assert list(compare("chat", higher, FIXED, Environment("3.12", HERE.libraries))) == []
    assert list(compare("chat", higher, FIXED, Environment("3.11", {"pluggy": "2"}))) == []
    assert list(compare("chat", (1040, 100, 100, 10, 5000), FIXED, Environment("3.11", {"pluggy": "2"}))) != []
    assert list(compare("chat", (1, 1, 1, 11, 1), FIXED, Environment("3.12", {}))) != []
    with pytest.raises(BadRecord):
        update(FIXED, {"chat": (900, 90, 90, 9, 4500)}, Environment("3.12", {}))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(FIXED, tmp_path / "costs.json")
    assert read_record(tmp_path / "costs.json") == FIXED


def test_the_cost_is_that_of_the_cheapest_request_and_the_mean_has_the_timers() -> None:
    sums = [[0, 0, 0, 0, 0], [10, 2, 1, 1, 9], [22, 5, 2, 2, 19], [32, 7, 3, 3, 28], [62, 9, 4, 4, 20]]
    cost = summarize(sums)
    assert cost.counts == (10, 2, 1, 1, 9)
    assert cost.mean == 21  # 62 / 3
