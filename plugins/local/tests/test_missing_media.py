"""A gateway without the package of the media: what it serves, and what its errors say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tornado_gate.cli import cli
from tornado_gate_local import media

CONF = """
server: {{data_dir: {folder}}}
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
  local-image-1: {{provider: local, operations: [images]}}
"""


@pytest.fixture(autouse=True)
def no_media(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "find_spec", lambda name: None)


def test_check_names_the_command_that_installs_the_operations_of_a_model(tmp_path: Path) -> None:
    conf = tmp_path / "gate.yaml"
    conf.write_text(CONF.format(folder=tmp_path), encoding="utf-8")
    checked = CliRunner().invoke(cli, ["check", "--conf", str(conf)])
    assert checked.exit_code == 1
    assert (
        "no target of this model supports 'images'; supported: nothing. Run: pip install tornado-gate-demo-media"
        in (checked.output)
    )
