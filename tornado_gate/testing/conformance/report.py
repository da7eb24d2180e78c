"""The results of the kit: one `Row` for each driven request, one `Failure` for each broken promise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tornado_gate.types.value import State, field

Outcome = Literal["ok", "refused", "failed"]


class Row(State):
    """One cell of the support matrix: a request of a format for an operation. `why` is the reason of a refusal."""

    operation: str
    format: str
    request: str
    streamed: bool = False
    lane: str = "common"
    outcome: Outcome = "ok"
    why: str = ""
    losses: str = ""

    def describe(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Failure(State):
    """A promise that the plugin broke. `check` is its name, `places` are the requests, `what` describes the fault and
    the remedy.
    """

    check: str
    what: str
    places: list[str]

    def describe(self) -> dict[str, Any]:
        return {"check": self.check, "what": self.what, "places": self.places}


class PluginReport(State):
    """The result for one plugin. `checks` counts the checks by name. `notes` list the requests that were not driven,
    with the reasons.
    """

    name: str
    kind: str
    version: str = ""
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    def count(self, check: str) -> None:
        """Count one execution of a check."""
        self.checks[check] = self.checks.get(check, 0) + 1

    def fail(self, check: str, where: str, what: str) -> None:
        """Record a failure. Equal failures become one failure with several places."""
        for known in self.failures:
            if (known.check, known.what) == (check, what):
                known.places.append(where)
                return
        self.failures.append(Failure(check, what, [where]))

    @property
    def failed_places(self) -> int:
        return sum(len(failure.places) for failure in self.failures)

    def describe(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "version": self.version,
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "matrix": [row.describe() for row in self.rows],
            "checks": self.checks,
            "failures": [failure.describe() for failure in self.failures],
            "notes": self.notes,
        }


_MARKS = {"ok": "ok", "refused": "refused", "failed": "FAILED"}


def render_report(report: PluginReport) -> str:
    """Render the report as text: the matrix, the reasons of refusals, the failures, and a last line with the result."""
    lines = [f"{report.name} {report.version} ({report.kind})".replace("  ", " ")]
    if report.rows:
        lines += ["", *_render_matrix(report.rows)]
    reasons = _list_reasons(report.rows)
    if reasons:
        lines += ["", *reasons]
    if report.notes:
        lines += ["", *(f"note: {note}" for note in report.notes)]
    for failure in report.failures:
        lines += ["", f"FAILED {failure.check}: {failure.places[0]}"]
        lines += [f"       and {len(failure.places) - 1} other requests"] if len(failure.places) > 1 else []
        lines += [f"  {line}" for line in failure.what.splitlines()]
    count, kinds = sum(report.checks.values()), len(report.checks)
    verdict = "passed" if report.passed else f"{len(report.failures)} FAILED"
    lines += ["", f"{report.name}: {verdict}, {count} checks of {kinds} kinds in {report.seconds:.1f} s"]
    return "\n".join(lines)


def _render_matrix(rows: Iterable[Row]) -> list[str]:
    """Return one line for each operation and format, with the result of each kind of request."""
    headings = ["OPERATION", "FORMAT", "WHOLE", "STREAM"]
    cells: dict[tuple[str, str], dict[bool, list[Row]]] = {}
    for row in rows:
        cells.setdefault((row.operation, row.format), {}).setdefault(row.streamed, []).append(row)
    table = [headings]
    for (operation, name), by_stream in sorted(cells.items()):
        table.append([operation, name, *(_render_cell(by_stream.get(streamed, [])) for streamed in (False, True))])
    widths = [max(len(line[column]) for line in table) for column in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _render_cell(rows: list[Row]) -> str:
    """Return the outcomes by lane, with their number: ``verbatim: 2 ok, 1 refused``."""
    texts = []
    for lane in ("common", "verbatim"):
        outcomes = [row.outcome for row in rows if row.lane == lane]
        counted = [
            f"{outcomes.count(outcome)} {_MARKS[outcome]}"
            for outcome in ("ok", "refused", "failed")
            if outcome in outcomes
        ]
        if counted:
            texts.append(f"{lane}: {', '.join(counted)}")
    return "; ".join(texts) or "-"


def _list_reasons(rows: Iterable[Row]) -> list[str]:
    reasons = []
    for row in rows:
        if row.outcome == "refused":
            reasons.append(f"refused: {row.format} {row.request}: {row.why}")
        elif row.losses:
            reasons.append(f"loss:    {row.format} {row.request}: {row.losses}")
    return reasons
