"""`selftest`: every route of a temporary gateway; a failure is a row and exit code 1."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.upstream import Upstream, answer
from tornado_gate.cli import cli
from tornado_gate.cli.selftest.checks import run_checks
from tornado_gate.cli.selftest.gateway import TemporaryGateway


@pytest.mark.qa
def test_an_installation_that_works_is_exit_code_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["selftest", "--json"])
    rows = json.loads(result.stdout)
    assert result.exit_code == 0, [row for row in rows if row["failure"]]
    assert {row["route"] for row in rows} >= {
        *(
            "/v1/chat/completions",
            "/v1/messages",
            "/v1beta/models/{model}:generateContent",
            "/v1/videos/{task_id}/content",
        ),
        *("/v1/realtime", "/media/{file_id}", "/videos/{file_id}", "/metrics", "/healthz"),
    }
    assert list(tmp_path.iterdir()) == [], "nothing remains"


def test_a_gateway_that_does_not_start_is_exit_code_1_with_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    result = CliRunner().invoke(cli, ["selftest"])
    assert result.exit_code == 1
    assert "has not started: -m tornado_gate serve" in result.output


def test_each_failed_route_is_a_row_with_the_reason() -> None:
    example = {
        "name": "text",
        "address": "/v1/x",
        "method": "POST",
        "headers": {},
        "body": {},
        "fields": {},
        "files": {},
        "needs": "",
    }
    operation = {"responses": {"200": {"content": {"application/json": {}}}}}
    paths = {
        "/v1/x": {"post": {**operation, "x-gate-examples": [example, {**example, "name": "odd"}]}},
        "/v1/y/{id}": {
            "get": {**operation, "x-gate-examples": [{**example, "name": "one", "address": "/v1/y/RESPONSE"}]}
        },
        "/v1/z": {"post": {**operation, "x-gate-examples": [{**example, "needs": "a model"}]}},
    }
    upstream = Upstream.start()
    upstream.script(
        answer(json.dumps({"paths": paths}), path="/openapi.json"),
        answer('{"error": {"message": "broken"}}', status=500, path="/v1/x"),
        answer("not JSON", path="/v1/x"),
        answer('{"error": {"message": "no store"}}', status=503, path="/v1/responses"),
    )
    rows = {(row.route, row.example): row for row in run_checks(TemporaryGateway(upstream.url, "key"))}
    upstream.stop()
    assert rows["/v1/x", "text"].failure == "500: broken"
    assert rows["/v1/x", "odd"].failure == "the response is not valid JSON"
    assert rows["/v1/y/{id}", "one"].failure == "POST /v1/responses for it: 503: no store"
    assert rows["/v1/z", "text"].result == "skipped: needs a model"
    assert rows["/v1/realtime", "session"].result.startswith("FAILED")
