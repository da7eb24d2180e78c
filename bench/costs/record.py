"""The fixed numbers in bench/costs.json, and the raises in docs/costs.md that explain them.

A case has three rows, with a number for each of `COUNTS`. `first` is what was counted when the case was added, `saved` is the sum
of what `--update` has lowered since, and `now` is what a request may execute. `now` is `first` less `saved` plus the raises
in docs/costs.md, so a number cannot grow without a line that says for what.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.costs.cases import CASES_BY_NAME
from bench.costs.measure import COUNTS

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "bench" / "costs.json"
PAGE = ROOT / "docs" / "costs.md"
LIBRARIES = ("cachetools", "marshmallow", "pluggy", "prometheus-client", "tornado")
"""The libraries with Python code on the path of a request. Compiled ones execute no bytecode."""
MIN_GAIN = 0.01
LIBRARY_TOLERANCE = 0.03
TOLERANCES = {"allocated": 0.02}
"""The parts by which a count may be higher. Allocated bytes depend on what free lists and caches hold."""
RAISE = "If a feature needs them, write its line into docs/costs.md and its numbers into `now` in bench/costs.json:"
UPDATE = ".venv/bin/python -m bench.costs --update"
Numbers = tuple[int, ...]


class BadRecord(Exception):
    """bench/costs.json and docs/costs.md contradict each other; the message says how."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the numbers depend on besides the gateway: Python's minor version and the versions of libraries."""

    python: str
    libraries: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """The numbers of a case, in the order of `COUNTS`."""

    first: Numbers
    saved: Numbers
    now: Numbers


@dataclass(frozen=True, slots=True)
class Record:
    """bench/costs.json."""

    environment: Environment
    cases: Mapping[str, CaseRecord]


@dataclass(frozen=True, slots=True)
class Raise:
    """A line of the table in docs/costs.md."""

    case: str
    before: Numbers
    after: Numbers
    feature: str
    reason: str


def find_environment() -> Environment:
    """Return the environment of this process."""
    python = ".".join(platform.python_version_tuple()[:2])
    return Environment(python, {name: version(name) for name in LIBRARIES})


def read_record(path: Path = RECORD) -> Record:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cases = {
        name: CaseRecord(*(tuple(rows[key]) for key in ("first", "saved", "now")))
        for name, rows in value["cases"].items()
    }
    return Record(Environment(value["python"], value["libraries"]), cases)


def write_record(record: Record, path: Path = RECORD) -> None:
    """Write the record with one line for each row of numbers."""
    head = {"python": record.environment.python, "libraries": record.environment.libraries, "counts": COUNTS}
    cases = {name: {"first": case.first, "saved": case.saved, "now": case.now} for name, case in record.cases.items()}
    text = json.dumps({**head, "cases": cases}, indent=2)
    text = re.sub(r"\[[^\[\]]*\]", lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
    path.write_text(text + "\n", encoding="utf-8")


def read_raises(page: Path = PAGE) -> list[Raise]:
    """Return the lines of the table. Raises BadRecord."""
    return [
        parse_raise(line) for line in page.read_text(encoding="utf-8").splitlines() if re.match(r"\| .*\d / \d", line)
    ]


def parse_raise(line: str) -> Raise:
    """Return a line of the table. Raises BadRecord."""
    try:
        case, before, after, feature, reason = (cell.strip() for cell in line.strip().strip("|").split("|"))
        found = Raise(case, parse_numbers(before), parse_numbers(after), feature, reason)
    except ValueError:
        raise BadRecord(f"docs/costs.md: not `| case | from | to | feature | why |`: {line}") from None
    if len(found.before) != len(COUNTS) or len(found.after) != len(COUNTS) or not feature or not reason:
        raise BadRecord(
            f"docs/costs.md: a line has {len(COUNTS)} numbers before and after, a feature and a reason: {line}"
        )
    if not any(after > before for before, after in zip(found.before, found.after, strict=True)):
        raise BadRecord(f"docs/costs.md: the line raises nothing; gains have no line: {line}")
    return found


def parse_numbers(text: str) -> Numbers:
    return tuple(int(part.replace(",", "")) for part in text.split("/"))


def format_numbers(numbers: Numbers) -> str:
    return " / ".join(f"{number:,}" for number in numbers)


def check_record(record: Record, raises: list[Raise]) -> list[str]:
    """Return a message for each number that its first number, the gains and the raises do not explain."""
    faults = [f"docs/costs.md: no case {line.case!r}" for line in raises if line.case not in record.cases]
    for name, case in record.cases.items():
        lines = [line for line in raises if line.case == name]
        for index, count in enumerate(COUNTS):
            raised = sum(line.after[index] - line.before[index] for line in lines)
            explained = case.first[index] - case.saved[index] + raised
            if case.saved[index] < 0 or case.now[index] != explained:
                faults.append(
                    f"{name}, {count}: bench/costs.json has {case.now[index]:,}, but {case.first[index]:,} at first, less "
                    f"{case.saved[index]:,} saved, plus {raised:,} in docs/costs.md is {explained:,}"
                )
    return faults


def compare(name: str, found: Numbers, record: Record, environment: Environment) -> Iterator[str]:
    """Yield a message for each count that is higher than its number, or so much lower that the gain must be kept."""
    case = record.cases.get(name)
    if case is None:
        yield f"{name}: no number yet. Write it: {UPDATE} {name}"
        return
    for count, number, fixed in zip(COUNTS, found, case.now, strict=True):
        tolerance = find_tolerance(name, count, record.environment, environment)
        if tolerance is None:
            continue
        if number > fixed * (1 + tolerance):
            line = f"| {name} | {format_numbers(case.now)} | {format_numbers(found)} | feature | why |"
            yield f"{name}: {number:,} {count}, {fixed:,} are allowed. {RAISE} {line}"
        elif number < fixed * (1 - tolerance - MIN_GAIN):
            yield f"{name}: {number:,} {count} instead of {fixed:,}. Keep the gain: {UPDATE} {name}"


def find_tolerance(name: str, count: str, fixed: Environment, current: Environment) -> float | None:
    """Return the part by which a count may be higher; None if it cannot be compared.

    All releases of Python 3.11 execute the same bytecodes. Another minor version has other bytecodes and inlines other calls, but
    creates the same coroutines. Other versions of libraries change their own part, which is at most 5 % of a case.
    """
    if count == "coroutines":
        return 0.0
    if current == fixed:
        return max(TOLERANCES.get(count, 0.0), CASES_BY_NAME[name].tolerance)
    return LIBRARY_TOLERANCE if current.python == fixed.python else None


def lower(case: CaseRecord, found: Numbers) -> CaseRecord:
    """Return the record with the lower numbers. A number is never raised."""
    gains = [max(0, now - number) for now, number in zip(case.now, found, strict=True)]
    return CaseRecord(
        case.first,
        tuple(saved + gain for saved, gain in zip(case.saved, gains, strict=True)),
        tuple(now - gain for now, gain in zip(case.now, gains, strict=True)),
    )


def update(record: Record, found: Mapping[str, Numbers], environment: Environment) -> Record:
    """Return the record with the lower numbers, and with cases that are new. Raises BadRecord in another environment."""
    if record.cases and environment != record.environment:
        raise BadRecord(
            f"the numbers are for Python {record.environment.python} with {record.environment.libraries}; this is Python "
            f"{environment.python} with {environment.libraries}"
        )
    added = {
        name: CaseRecord(numbers, (0,) * len(numbers), numbers)
        for name, numbers in found.items()
        if name not in record.cases
    }
    lowered = {name: lower(case, found[name]) if name in found else case for name, case in record.cases.items()}
    return Record(environment, {**lowered, **added})
