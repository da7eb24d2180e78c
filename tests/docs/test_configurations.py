"""The examples of the configuration in the docs: `tornado-gate check` accepts each, with what the example leaves out."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import Block, read_blocks
from tests.support.gateway import run_command
from tests.support.guides import DOCS
from tests.support.tls import CertificateFiles

pytestmark = pytest.mark.qa
OF_OTHER_PROGRAMS = ("# prometheus.yml", "# librechat.yaml", "# ~/.continue/config.yaml", "API Key: ")
PROVIDER = {"plugin": "openai", "base_url": "https://vendor.example/v1", "api_key": "key-of-the-example-0123456789"}
MODELS = ("gpt-4o", "text-embedding-3-small")
"""Models to which the patterns of examples refer."""


def list_examples() -> list[tuple[str, Block]]:
    """Return the pages and their examples. Those for authors of plugins are tested with the plugins."""
    pages = ["../README.md", *(str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md")))]
    return [
        (page, block)
        for page in pages
        if not page.startswith("plugins/")
        for block in read_blocks(page)
        if block.language == "yaml" and not block.text.startswith(OF_OTHER_PROGRAMS)
    ]


EXAMPLES = list_examples()


def complete(text: str, folder: Path) -> dict[str, Any]:
    """Return an example with the providers, models and files that it refers to."""
    text = re.sub(r"\$\{secret:(\w+)\}", r"${\1}", text)
    files = CertificateFiles.write(folder)
    for name in re.findall(r"[\w/-]+\.pem", text):
        text = text.replace(name, str(files.key if "key" in name else files.certificate))
    values: dict[str, Any] = yaml.safe_load(text)
    providers = values.setdefault("providers", {})
    models = values.setdefault("models", {})
    for entry in models.values():
        targets = [target["provider"] for target in entry.get("targets", ()) if "provider" in target]
        for name in (*targets, *([entry["provider"]] if "provider" in entry else ())):
            providers.setdefault(name, dict(PROVIDER))
    providers.setdefault("completing", dict(PROVIDER))
    for name in MODELS:
        models.setdefault(name, {"provider": "completing"})
    return values


def make_value(name: str) -> str:
    """Return a value for a variable of the environment, by its name."""
    if name == "DATABASE":
        return "postgresql://user:password@127.0.0.1:5432/name"
    if name.endswith(("URL", "ENDPOINT")):
        return f"https://{name.lower().replace('_', '-')}.example/v1"
    return f"key-of-{name}-0123456789"


@pytest.mark.parametrize(("page", "block"), EXAMPLES, ids=[f"{page}-{block.line}" for page, block in EXAMPLES])
def test_an_example_of_the_configuration_is_accepted(page: str, block: Block, tmp_path: Path) -> None:
    values = complete(block.text, tmp_path)
    file = tmp_path / "gate.yaml"
    file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    environment = {name: make_value(name) for name in re.findall(r"\$\{(?:secret:)?(\w+)", block.text)}
    checked = run_command("check", "--conf", str(file), folder=tmp_path, environment={**os.environ, **environment})
    assert checked.returncode == 0, checked.stderr
