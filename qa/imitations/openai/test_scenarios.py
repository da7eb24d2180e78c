"""Every caller's format against the strict imitation: nothing is refused, and nothing is lost without a report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qa.imitations.openai.run import Stage, list_cases
from qa.imitations.openai.scenario import Scenario
from qa.imitations.openai.scenarios import SCENARIOS
from tests.support.variants import represent


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("imitation")) as opened:
        yield opened


def test_there_are_scenarios_of_every_format_with_names_of_their_own() -> None:
    names = [(scenario.format, scenario.name) for scenario in SCENARIOS]
    assert len(names) == len(set(names)) >= 150
    assert {wire_format for wire_format, _ in names} == {"chat", "responses", "messages", "generate"}


@pytest.mark.parametrize(
    "scenario",
    represent(SCENARIOS, lambda scenario: scenario.format),
    ids=lambda scenario: f"{scenario.format}: {scenario.name}",
)
def test_the_vendor_refuses_nothing_and_no_loss_is_unreported(stage: Stage, scenario: Scenario) -> None:
    findings = {case.id: stage.run(case) for case in list_cases((scenario,))}
    refused = {name: found.refused for name, found in findings.items() if found.refused}
    unreported = {name: found.unreported for name, found in findings.items() if found.unreported}
    others = {name: found.others for name, found in findings.items() if found.others}
    assert (refused, unreported, others) == ({}, {}, {})
