"""The log of a server at a terminal is text, so that the key of the first start is found; elsewhere it is JSON."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import COMMAND
from tornado_gate.server.process.process import choose_log_format


def read_until(terminal: int, pattern: str, seen: str = "") -> str:
    """Return what a terminal shows, until it has a match."""
    while not re.search(pattern, seen):
        seen += os.read(terminal, 65536).decode()
    return seen


@pytest.mark.parametrize(("arguments", "is_json"), [((), False), (("--log-format", "json"), True)])
def test_lines_at_a_terminal_are_text_unless_a_flag_says_json(
    arguments: tuple[str, ...], is_json: bool, tmp_path: Path
) -> None:
    terminal, end = pty.openpty()
    command = [COMMAND, "serve", "--port", "0", "--data-dir", str(tmp_path / "var"), *arguments]
    server = subprocess.Popen(command, stdout=end, stderr=end, cwd=tmp_path)
    os.close(end)
    try:
        seen = read_until(terminal, r"serving http://\S+\r\n")
        url = re.findall(r"serving (http://\S+)", seen)[0]
        assert "here is an API key" in seen
        assert httpx.get(f"{url}/nowhere", trust_env=False).status_code == 404
        seen = read_until(terminal, r"nowhere[^\r\n]*\r\n", seen)
    finally:
        server.terminate()
        server.wait(60)
        os.close(terminal)
    lines = [line for line in seen.splitlines() if "nowhere" in line]
    assert all(line.startswith("{") == is_json for line in lines)
    assert any(line.startswith("{") for line in seen.splitlines()) == is_json


def test_conf_decides_before_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal, usual in ((True, "text"), (False, "json")):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        assert choose_log_format(None) == usual
        assert choose_log_format("json") == "json"
        assert choose_log_format("text") == "text"
