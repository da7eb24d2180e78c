"""Conversations change their vendor in all six directions: nothing is refused, lost without a report, or answered with less."""

from __future__ import annotations

from qa.imitations.crossing.run import run_all
from qa.imitations.crossing.scenarios import CALLERS, DIRECTIONS, list_scenarios

SHARE = 4
"""Every fourth pair of models; ``python -m qa.imitations.crossing`` tries all."""


def test_conversations_with_thinking_go_on_at_another_vendor() -> None:
    reports = run_all(2 * SHARE, only="thinks")
    assert {place: faults for place, report in reports.items() if (faults := report.list_faults())} == {}
    assert len(reports) > 5


def test_conversations_go_on_at_every_other_vendor() -> None:
    reports = run_all(SHARE)
    faults = {place: report.list_faults() for place, report in reports.items() if report.list_faults()}
    assert faults == {}
    assert set(reports) == {(first, second, caller) for first, second in DIRECTIONS for caller in CALLERS}


def test_each_conversation_has_its_own_name() -> None:
    names = [scenario.name for scenario in list_scenarios()]
    assert len(names) == len(set(names)) > 700
