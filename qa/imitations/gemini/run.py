"""Runs all scenarios against the imitation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from qa.imitations.calling.run import KEY, Report, Runner, serve_gateway
from qa.imitations.calling.server import Imitation
from qa.imitations.gemini.api import KEY as UPSTREAM_KEY
from qa.imitations.gemini.api import GenerateApi
from qa.imitations.gemini.scenarios import list_scenarios
from qa.imitations.gemini.vendor import GEMINI

_CONF: Final = """
plugins: {{anthropic: true, openai: true, gemini: true}}
providers:
  imitation: {{plugin: gemini, base_url: "{url}", api_key: {upstream_key}}}
models:
  "gemini-*": {{provider: imitation, model: "gemini-*"}}
keys:
  - {{name: test, key: {key}}}
circuits: {{failures: 100000, open_seconds: 0.001}}
"""


def run_all(share: int = 1) -> Report:
    """The report on every scenario, or on each feature with every `share`-th model."""
    imitation = Imitation(GenerateApi().answer)
    imitation.start()
    conf = _CONF.format(url=imitation.url, upstream_key=UPSTREAM_KEY, key=KEY)
    try:
        with tempfile.TemporaryDirectory() as folder, serve_gateway(conf, Path(folder)) as gateway:
            return Runner(gateway, {"gemini": imitation}, {"gemini": GEMINI}).run(list_scenarios(share))
    finally:
        imitation.stop()
