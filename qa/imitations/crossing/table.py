"""The figures of all conversations, as a table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from qa.imitations.calling.run import Report
from qa.imitations.calling.scenario import Caller
from qa.imitations.crossing.scenarios import CALLERS, DIRECTIONS

_VENDORS: Final = {"openai": "OpenAI", "anthropic": "Anthropic", "gemini": "Gemini"}
_HEAD: Final = (
    "| from, to and back | caller | conversations | requests | refused | lost without report | answered with less |"
)


def render_table(reports: Mapping[tuple[str, str, Caller], Report]) -> str:
    """One row for each direction and caller, and the sum."""
    rows = [_HEAD, "|---|---|---|---|---|---|---|"]
    for first, second in DIRECTIONS:
        for caller in CALLERS:
            report = reports.get((first, second, caller))
            if report is not None:
                rows.append(f"| {_VENDORS[first]} → {_VENDORS[second]} | {caller} |{_render([report])}")
    return "\n".join([*rows, f"| all | all |{_render(reports.values())}"])


def _render(reports: Iterable[Report]) -> str:
    lists = [(one.tried, one.requests, len(one.refused), len(one.unreported), len(one.poorer)) for one in reports]
    return "".join(f" {sum(column)} |" for column in zip(*lists, strict=True))
