"""A few requests of schemathesis to every quick operation of /openapi.json; `make fuzz` sends many."""

from __future__ import annotations

from pathlib import Path

from qa.conformance import described_api
from tests.support.gateway import Gateway


def test_no_operation_answers_otherwise_than_it_is_described(tmp_path: Path) -> None:
    gateway = Gateway.start(described_api.make_conf(), tmp_path)
    try:
        options = ("--phases", "fuzzing", "-n", "1", "--seed", "1", "--exclude-path-regex", described_api.SLOW)
        ended = described_api.check(gateway.url, tmp_path, *options)
    finally:
        gateway.stop()
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    assert "No issues found" in ended.stdout
