"""Nothing that the gateway sends is refused, nothing is lost without a report, and no answer is poorer than the vendor's."""

from __future__ import annotations

import pytest

from qa.imitations.anthropic.run import run_all
from qa.imitations.anthropic.scenarios import list_scenarios

SHARE = 4
"""Every fourth model for each feature, in turn; ``python -m qa.imitations.anthropic`` tries all."""

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
    assert report.tried > 800


def test_each_scenario_has_its_own_name() -> None:
    names = [scenario.name for scenario in list_scenarios()]
    assert len(names) > 3000
    assert len(set(names)) == len(names)
