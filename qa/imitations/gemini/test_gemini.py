"""Nothing that the gateway sends is refused, nothing is lost without a report, and no answer is poorer than the vendor's."""

from __future__ import annotations

import pytest

from qa.imitations.gemini.crossing import run_crossings
from qa.imitations.gemini.run import run_all
from qa.imitations.gemini.scenarios import list_scenarios

SHARE = 4
"""Every fourth model for each feature, in turn; ``python -m qa.imitations.gemini`` tries all."""

FEW = 64
"""One model for some features of each caller: what `make test` knows of the imitation."""


@pytest.mark.representative
def test_no_request_of_some_conversations_is_refused() -> None:
    report = run_all(FEW)
    assert report.list_faults() == []
    assert report.tried > 3


def test_no_request_is_refused_and_no_loss_is_unreported() -> None:
    report = run_all(SHARE)
    assert report.list_faults() == []
    assert report.tried > 600


def test_conversations_go_on_at_the_other_vendor() -> None:
    report = run_crossings()
    assert report.list_faults() == []
    assert report.tried > 150


def test_each_scenario_has_its_own_name() -> None:
    names = [scenario.name for scenario in list_scenarios()]
    assert len(names) > 2500
    assert len(set(names)) == len(names)
