"""Runs the conversations behind one gateway with the three imitations, and counts by direction and caller."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from qa.imitations.anthropic.api import KEY as ANTHROPIC_KEY
from qa.imitations.anthropic.api import MessagesApi
from qa.imitations.anthropic.vendor import ANTHROPIC
from qa.imitations.calling.run import KEY, Report, Runner, find_vendor, serve_gateway
from qa.imitations.calling.scenario import Caller
from qa.imitations.calling.server import Imitation
from qa.imitations.crossing.openai_vendor import OPENAI, OpenAIApi
from qa.imitations.crossing.scenarios import list_scenarios
from qa.imitations.gemini.api import KEY as GEMINI_KEY
from qa.imitations.gemini.api import GenerateApi
from qa.imitations.gemini.vendor import GEMINI
from tests.support.gateway import Gateway

_CONF: Final = """
plugins: {{anthropic: true, openai: true, gemini: true}}
providers:
  a: {{plugin: anthropic, base_url: "{anthropic}", api_key: {anthropic_key}}}
  g: {{plugin: gemini, base_url: "{gemini}", api_key: {gemini_key}}}
  o: {{plugin: openai, base_url: "{openai}/v1", api_key: key-of-the-vendor, openai_models: true}}
models:
  "claude-*": {{provider: a, model: "claude-*"}}
  "gemini-*": {{provider: g, model: "gemini-*"}}
  "*": {{provider: o, model: "*"}}
keys:
  - {{name: test, key: {key}}}
circuits: {{failures: 100000, open_seconds: 0.001}}
"""

Reports = dict[tuple[str, str, Caller], Report]


@contextmanager
def serve() -> Iterator[tuple[Gateway, Mapping[str, Imitation]]]:
    """A gateway in front of the three imitations."""
    imitations = {
        "anthropic": Imitation(MessagesApi().answer),
        "gemini": Imitation(GenerateApi().answer),
        "openai": Imitation(OpenAIApi().answer),
    }
    for imitation in imitations.values():
        imitation.start()
    urls = {name: imitation.url for name, imitation in imitations.items()}
    conf = _CONF.format(**urls, anthropic_key=ANTHROPIC_KEY, gemini_key=GEMINI_KEY, key=KEY)
    try:
        with tempfile.TemporaryDirectory() as folder, serve_gateway(conf, Path(folder)) as gateway:
            yield gateway, imitations
    finally:
        for imitation in imitations.values():
            imitation.stop()


def run_all(share: int = 1, only: str = "") -> Reports:
    """The reports on the conversations whose name contains `only`, by first vendor, second vendor and caller."""
    vendors = {"anthropic": ANTHROPIC, "gemini": GEMINI, "openai": OPENAI}
    reports: Reports = {}
    with serve() as (gateway, imitations):
        for scenario in list_scenarios(share):
            if only not in scenario.name:
                continue
            second = scenario.feature.turns[0].model
            place = find_vendor(scenario.model), find_vendor(second), scenario.caller
            runner = Runner(gateway, imitations, vendors, report=reports.setdefault(place, Report()))
            runner.run([scenario])
    return reports
