"""A configuration in the database: versions by commands and by /admin/v1, which all nodes apply. Real gateways."""

from __future__ import annotations

import json
import stat
import subprocess
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.control.conftest import ROOT, Start
from tests.support.control import call
from tests.support.gateway import Gateway, run_command

CONF = """\
plugins: {local: true}
providers:
  local: {plugin: local}
models:
  local-chat: {provider: local}
keys:
  - {name: root, key: "${ROOT_KEY}", role: administrator}
"""
MORE = CONF.replace("keys:", "  more: {provider: local, model: local-chat}\nkeys:")
SECRETS = {"ROOT_KEY": ROOT, "GATE_SECRET_KEY": "a-key-of-the-secrets-of-all-nodes-0123"}
LIMIT_SECONDS = 1.0

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(shared_address: str, tmp_path: Path) -> Run:
    """Run a command with the database as --conf."""

    def run_with_database(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**SECRETS, "TORNADO_GATE_CONF": shared_address, **environment}
        return run_command(*arguments, environment=variables, folder=tmp_path)

    return run_with_database


@pytest.fixture
def push(run: Run, tmp_path: Path) -> Run:
    """Push a text; it must succeed."""

    def push_text(text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "new.yaml").write_text(text, encoding="utf-8")
        done = run("conf", "push", "new.yaml", *arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return push_text


def serve(start: Start, name: str, address: str, *arguments: str, **environment: str) -> Gateway:
    """Start a node whose configuration is in the database."""
    return start(name, "--conf", address, *arguments, environment={**SECRETS, **environment})


def list_models(gateway: Gateway) -> set[str]:
    return {model["id"] for model in call("GET", f"{gateway.url}/v1/models", key=ROOT)["data"]}


def list_nodes(gateway: Gateway) -> list[Any]:
    nodes: list[Any] = call("GET", f"{gateway.url}/admin/v1/nodes", key=ROOT)["data"]
    return nodes


def test_a_pushed_version_is_applied_by_all_nodes_and_rolled_back(
    start: Start, run: Run, push: Run, shared_address: str
) -> None:
    push(CONF, "-m", "the first")
    a, b = (serve(start, name, shared_address) for name in "ab")
    assert call("GET", f"{a.url}/readyz")["conf_version"] == 1

    done = push(MORE, "-m", "one more")
    assert "+  more: {provider: local" in done.stdout
    assert done.stderr.count("uses it after") == 2
    assert "more" in list_models(a) & list_models(b)
    assert [(node["conf_version"], node["behind"]) for node in list_nodes(a)] == [(2, 0)] * 2
    assert all(node["lag_seconds"] < LIMIT_SECONDS for node in list_nodes(a))
    assert "Nothing changes" in push(MORE).stdout

    done = run("conf", "rollback", "1")
    assert done.stderr.count("uses it after") == 2, done.stderr
    assert "more" not in list_models(a) | list_models(b)
    versions = json.loads(run("conf", "history", "--json").stdout)
    assert [(row["number"], row["message"]) for row in versions] == [
        (3, "rollback to version 1"),
        (2, "one more"),
        (1, "the first"),
    ]
    shown = run("conf", "show", "2").stdout
    assert shown == f"# tornado-gate: configuration version 2\n{MORE}"
    copy = a.folder / "var" / "stored_conf.json"
    assert (stat.S_IMODE(copy.stat().st_mode), ROOT in copy.read_text()) == (0o600, False)


def test_a_push_is_refused_if_it_has_faults_or_secrets_or_if_its_base_moved(
    run: Run, push: Run, tmp_path: Path
) -> None:
    push(CONF)
    (tmp_path / "edited.yaml").write_text(run("conf", "show").stdout, encoding="utf-8")
    push(MORE)
    refused = run("conf", "push", "edited.yaml")
    assert (refused.returncode, "the newest version is 2, and the change is for version 1" in refused.stderr) == (
        1,
        True,
    )
    assert run("conf", "push", "edited.yaml", "--force").returncode == 0
    for text, fault in [
        ("models: {x: {provider: unknown}}\n", "unknown provider"),
        (CONF.replace("${ROOT_KEY}", ROOT), "secret in clear"),
        (CONF + "database: postgresql://other/x\n", "remove the key"),
        (CONF.partition("keys:")[0], "the section 'keys' is missing"),
    ]:
        (tmp_path / "faulty.yaml").write_text(text, encoding="utf-8")
        done = run("conf", "push", "faulty.yaml")
        assert (done.returncode, fault in done.stdout) == (1, True), done.stdout + done.stderr
        assert ROOT not in done.stdout + done.stderr
    assert run("conf", "push", "new.yaml", "--dry-run").returncode == 0
    assert json.loads(run("conf", "history", "--json").stdout)[0]["number"] == 3


def test_a_change_by_the_api_is_a_version_with_its_author_and_its_secret_reaches_all_nodes(
    start: Start, run: Run, push: Run, shared_address: str
) -> None:
    push(CONF)
    a, b = (serve(start, name, shared_address) for name in "ab")
    body = {"name": "vendor", "plugin": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-of-the-vendor"}
    made = call("POST", f"{a.url}/admin/v1/providers", body, key=ROOT)
    assert made["applied"], made
    b.wait_for_log("configuration 2 is in force")
    assert {one["name"] for one in call("GET", f"{b.url}/admin/v1/providers", key=ROOT)["data"]} == {"local", "vendor"}
    version = json.loads(run("conf", "history", "--json").stdout)[0]
    assert (version["number"], version["made_by"], version["message"]) == (2, "root", "provider.create vendor")
    assert "sk-of-the-vendor" not in run("conf", "show").stdout
    with pytest.raises(urllib.error.HTTPError) as stale:
        call(
            "PATCH",
            f"{b.url}/admin/v1/providers/vendor",
            {"base_url": "http://127.0.0.1:8", "version": "0" * 64},
            key=ROOT,
        )
    assert stale.value.code == 409

    name = run("conf", "show").stdout.partition("${secret:")[2].partition("}")[0]
    assert name in run("secrets", "list").stdout


def test_a_node_that_cannot_apply_a_version_keeps_the_old_one_and_says_so(
    start: Start, push: Run, shared_address: str
) -> None:
    push(CONF)
    a, b = serve(start, "a", shared_address, MODEL="local-chat"), serve(start, "b", shared_address)
    text = MORE.replace("model: local-chat", 'model: "${MODEL}"')
    done = push(text, MODEL="local-chat")
    assert "cannot use it and keeps version 1" in done.stderr
    assert "environment variable MODEL is not set" in done.stderr
    ready = call("GET", f"{b.url}/readyz")
    assert (ready["status"], ready["conf_version"], ready["refused_conf_version"]) == ("ready", 1, 2)
    assert "more" in list_models(a)
    assert "more" not in list_models(b)
    view = next(node for node in list_nodes(a) if node["fault"])
    assert (view["conf_version"], view["behind"], view["refused_version"]) == (1, 1, 2)
    assert "tornado_gate_conf_refused 1.0" in httpx.get(f"{b.url}/metrics", trust_env=False).text

    b.stop()
    again = serve(start, "b", shared_address)
    again.wait_for_log("so this node uses its copy of the last usable one: configuration version 1")
    again.wait_for_log("configuration not reloaded")
    assert "more" not in list_models(again)
    push(CONF)
    again.wait_for_log("is in force")
    assert call("GET", f"{again.url}/readyz")["conf_version"] == 3
