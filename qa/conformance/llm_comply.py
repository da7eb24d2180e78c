"""Runs the conformance suite llm-comply over every wire format and lane.

Two gateways run: one serves the embedded model, the other has the first as its upstream, by each provider plugin.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.gateway import Gateway

KEY = "test-key-of-the-conformance-tests"
INNER_CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}}}
keys: [{{name: test, key: {KEY}}}]
"""
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  local: {{plugin: local}}
  openai: {{plugin: openai, base_url: "{url}/v1", api_key: {key}}}
  anthropic: {{plugin: anthropic, base_url: "{url}", api_key: {key}}}
  gemini: {{plugin: gemini, base_url: "{url}", api_key: {key}}}
models:
  local-chat: {{provider: local}}
  by-openai: {{provider: openai, model: local-chat}}
  by-anthropic: {{provider: anthropic, model: local-chat}}
  by-gemini: {{provider: gemini, model: local-chat}}
keys: [{{name: test, key: {key}}}]
"""
MODELS = ("local-chat", "by-openai", "by-anthropic", "by-gemini")
FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "openai-chat": ("/v1", ()),
    "open-responses": ("/v1", ()),
    "anthropic": ("/v1", ("-H", "anthropic-version:2023-06-01")),
    "google-genai": ("", ()),
}
"""By the suite's name of a wire format: the path of its base URL, and further arguments."""

COMMAND = Path(sys.executable).with_name("llm-comply")


@contextlib.contextmanager
def running_site(folder: Path) -> Iterator[str]:
    """Run both gateways; yields the URL of the one that is tested."""
    inner_folder, outer_folder = folder / "inner", folder / "outer"
    inner_folder.mkdir()
    outer_folder.mkdir()
    inner = Gateway.start(INNER_CONF, inner_folder)
    try:
        outer = Gateway.start(CONF.format(url=inner.url, key=KEY), outer_folder)
        try:
            yield outer.url
        finally:
            outer.stop()
    finally:
        inner.stop()


def run_suite(url: str, wire_format: str, model: str) -> list[dict[str, Any]]:
    """The results of the suite's tests of one format: ``id``, ``name``, ``status``, ``errors``."""
    path, arguments = FORMATS[wire_format]
    command = [str(COMMAND), "-u", url + path, "-k", KEY, "-m", model, "--format", wire_format, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


def main() -> list[str]:
    """Run the suite; returns the lines of a table."""
    lines = ["| wire format | model | passed | skipped | failed |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as url:
        for wire_format in FORMATS:
            for model in MODELS:
                results = run_suite(url, wire_format, model)
                counts = {
                    status: [one for one in results if one["status"] == status] for status in ("skipped", "failed")
                }
                passed = len(results) - sum(map(len, counts.values()))
                failed = "; ".join(f"{one['name']}: {one['errors'][0]}" for one in counts["failed"])
                lines.append(f"| {wire_format} | {model} | {passed} | {len(counts['skipped'])} | {failed or 0} |")
    return lines
