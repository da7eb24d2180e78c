"""The commands of docs/reference/admin.md run as they are."""

from __future__ import annotations

import os
import re
import subprocess

import httpx
import pytest

from tests.server.openapi.conftest import ROOT

COMMANDS = re.findall(r"```bash\n(.*?)```", (ROOT / "docs/reference/admin.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.qa
def test_the_commands_of_the_page_work(client: httpx.Client, administrator_key: str) -> None:
    environment = {**os.environ, "GATE_URL": str(client.base_url).rstrip("/"), "GATE_KEY": administrator_key}
    assert len(COMMANDS) >= 8
    answers = [
        subprocess.run(["bash", "-euo", "pipefail", "-c", command], env=environment, capture_output=True, check=False)
        for command in COMMANDS
    ]
    for command, answer in zip(COMMANDS, answers, strict=True):
        assert answer.returncode == 0, f"{command}: {answer.stdout!r} {answer.stderr!r}"
    assert b'"text":"tg-' in answers[0].stdout
    assert b'"name":"nightly"' in answers[1].stdout
    assert b"day,model,requests" in answers[3].stdout
    assert b"team.create" in answers[-2].stdout
    assert b'"is_writable":true' in answers[-1].stdout
