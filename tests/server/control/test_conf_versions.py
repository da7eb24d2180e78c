"""A configuration in the database: versions by commands and by /admin/v1, which all nodes apply. Real gateways."""

from __future__ import annotations

import json
import stat
import subprocess
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psycopg
import pytest

from tests.server.control.conftest import ROOT, Start
from tests.support.admin_console import TOKEN
from tests.support.control import call
from tests.support.gateway import Gateway, run_command
from tests.support.people import sign_up_first
from tests.support.postgres import PostgresServer
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.config.secret_store import SecretError
from tornado_gate.config.source import digest_text
from tornado_gate.database.engine import Database
from tornado_gate.server.control import conf_versions
from tornado_gate.server.control.conf_versions import (
    BaseMoved,
    add_version,
    find_previous_text,
    list_versions,
    read_mark,
)
from tornado_gate.server.control.shared_secrets import SharedSecretStore

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
STARVED_SECONDS = 20.0
PATIENCE_SECONDS = 60.0
"""For one measurement: on a busy machine a process may not run for seconds."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(shared_address: str, tmp_path: Path) -> Run:
    """Run a command with the database as --conf, and with a text on its standard input."""

    def run_with_database(*arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**SECRETS, "TORNADO_GATE_CONF": shared_address, **environment}
        return run_command(*arguments, environment=variables, folder=tmp_path, text=text)

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


def serve(start: Start, name: str, address: str, *arguments: str, is_away: bool = False, **environment: str) -> Gateway:
    """Start a node whose configuration is in the database, which may be away."""
    return start(name, "--conf", address, *arguments, environment={**SECRETS, **environment}, is_away=is_away)


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
    assert all(node["lag_seconds"] < STARVED_SECONDS for node in list_nodes(a))
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


@pytest.mark.qa
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
        (CONF.replace("models:", "  off: {plugin: kling, api_key: a-key-in-clear}\nmodels:"), "secret in clear"),
        (CONF + "database: postgresql://other/x\n", "remove the key"),
        (CONF.partition("keys:")[0], "the section 'keys' is missing"),
    ]:
        (tmp_path / "faulty.yaml").write_text(text, encoding="utf-8")
        done = run("conf", "push", "faulty.yaml")
        assert (done.returncode, fault in done.stdout) == (1, True), done.stdout + done.stderr
        assert ROOT not in done.stdout + done.stderr
    assert run("conf", "push", "new.yaml", "--dry-run").returncode == 0
    assert json.loads(run("conf", "history", "--json").stdout)[0]["number"] == 3


@pytest.mark.qa
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
            {"timeouts": {"connect": 4}, "version": "0" * 64},
            key=ROOT,
        )
    assert stale.value.code == 409

    name = run("conf", "show").stdout.partition("${secret:")[2].partition("}")[0]
    assert name in run("secrets", "list").stdout

    assert run("models", "add", "by-command", "--provider", "local", "--model", "local-chat").returncode == 0
    b.wait_for_log("configuration 3 is in force")
    assert "by-command" in list_models(b)
    assert json.loads(run("conf", "history", "--json").stdout)[0]["message"] == "model.create by-command"


@pytest.mark.qa
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


@pytest.mark.qa
def test_a_node_starts_with_its_copy_while_the_database_is_away(
    start: Start, run: Run, push: Run, shared_address: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    assert run("secrets", "set", "root-key", text=ROOT).returncode == 0
    push(CONF.replace("${ROOT_KEY}", "${secret:root-key}"))
    serve(start, "a", shared_address).stop()
    postgres.stop()
    try:
        (tmp_path / "new").mkdir()
        other = run("serve", "--port", "0", "--data-dir", str(tmp_path / "new" / "var"))
        assert (other.returncode, "has no copy of the configuration" in other.stderr) == (1, True), other.stderr
        again = serve(start, "a", shared_address, is_away=True)
        again.wait_for_log('"level":"critical"')
        assert "this node uses its copy: configuration version 1" in again.logs
        assert list_models(again) == {"local-chat"}, "keys of the configuration work"
        again.wait_for_log("cannot be read from the database")
        assert "tornado_gate_conf_database_away 1.0" in httpx.get(f"{again.url}/metrics", trust_env=False).text
    finally:
        postgres.start()
    again.wait_for_log("the configuration is read from the database")
    again.wait_for_log("announced itself")
    assert "uses it after" in push(MORE).stderr
    assert "more" in list_models(again)


@pytest.mark.qa
def test_a_secret_is_replaced_at_all_nodes_and_needs_the_same_key_everywhere(
    start: Start, run: Run, push: Run, shared_address: str
) -> None:
    assert run("secrets", "set", "other", text="other-key-of-the-administrator").returncode == 0
    push(CONF + '  - {name: other, key: "${secret:other}", role: administrator}\n')
    a, b = (serve(start, name, shared_address) for name in "ab")
    assert run("secrets", "set", "other", text="second-key-of-the-administrator").returncode == 0
    for node in (a, b):
        node.wait_for_log("configuration 2 is in force")
        assert call("GET", f"{node.url}/v1/models", key="second-key-of-the-administrator")["data"]
    refused = run("secrets", "set", "other", text="third-key", GATE_SECRET_KEY="")
    assert (refused.returncode, "set GATE_SECRET_KEY" in refused.stderr) == (1, True), refused.stderr
    assert run("secrets", "remove", "other").returncode == 1, "conf names it"
    rotated = {"GATE_SECRET_KEY": "another-key-of-the-secrets-0123456789," + SECRETS["GATE_SECRET_KEY"]}
    assert "1 secret encrypted" in run("secrets", "rotate", **rotated).stderr


@pytest.mark.qa
def test_thirty_versions_are_each_applied_by_another_node_within_a_second(
    start: Start, push: Run, shared_address: str, tmp_path: Path
) -> None:
    push(CONF)
    a, b = (serve(start, name, shared_address) for name in "ab")
    lags = []
    for number in range(30):
        body = {"name": f"m{number}", "provider": "local", "model": "local-chat"}
        version = call("POST", f"{a.url}/admin/v1/models", body, key=ROOT)["version"]
        b.wait_for_log(f"configuration {number + 2} is in force")
        lags += wait_for_lags(a, version)
    lags.sort()
    print(f"a new version over nodes: p50 {median(lags):.3f} s, p99 {lags[-1]:.3f} s, {len(lags)} times")
    assert len(lags) == 60
    assert median(lags) < LIMIT_SECONDS


def wait_for_lags(gateway: Gateway, version: str) -> list[float]:
    """Return the lags of both nodes, as soon as their rows have the version: they write them after they apply it."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        lags = [node["lag_seconds"] for node in list_nodes(gateway) if node["conf_digest"] == version]
        if len(lags) == 2:
            return lags
        time.sleep(0.02)
    raise AssertionError("a node does not say that it has the version")


@pytest.mark.qa
def test_a_lost_notice_of_a_version_is_made_up_for_by_polling(start: Start, push: Run, shared_address: str) -> None:
    push(CONF)
    a = serve(start, "a", shared_address)
    with psycopg.connect(shared_address, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        a.wait_for_log("notices of other nodes do not arrive")
        connection.execute(
            "INSERT INTO conf_versions SELECT 2, repeat('0', 64), %s, extract(epoch from clock_timestamp()), '', ''",
            [MORE],
        )
    a.wait_for_log("configuration 2 is in force")
    assert all(node["lag_seconds"] < STARVED_SECONDS for node in list_nodes(a))


def open_console(address: str, folder: Path) -> httpx.Client:
    """A client with the session of the first account, an administrator."""
    database = Database(folder, address)
    cookie, _ = sign_up_first(Accounts(database, session_seconds=3600))
    database.close()
    cookies = {"gate_session": cookie, "gate_xsrf": TOKEN}
    return httpx.Client(trust_env=False, cookies=cookies, headers={"Accept": "text/html"})


@pytest.mark.qa
def test_a_plugin_switched_in_the_console_is_a_version_that_can_be_undone(
    start: Start, run: Run, push: Run, shared_address: str, tmp_path: Path
) -> None:
    push(CONF)
    a, b = (serve(start, name, shared_address) for name in "ab")
    with open_console(shared_address, tmp_path) as client:
        home = client.get(f"{a.url}/console/").text
        assert all(node["id"] in home for node in list_nodes(a)), "the home page shows the nodes"
        form = {"_xsrf": TOKEN, "on": "true"}
        review = client.post(f"{a.url}/console/plugins/cache/switch", data=form).text
        digest = review.partition('name="digest" value="')[2].partition('"')[0]
        switched = client.post(f"{a.url}/console/plugins/cache/switch", data={**form, "digest": digest})
        assert switched.status_code == 303, switched.text
        b.wait_for_log("configuration 2 is in force")
        newest = json.loads(run("conf", "history", "--json").stdout)[0]
        assert (newest["made_by"], newest["message"]) == ("root@example.org", "plugin.switch cache on")
        undone = client.post(f"{b.url}/console/configuration/undo/{newest['digest']}", data={"_xsrf": TOKEN})
        assert undone.status_code == 303, undone.text
    a.wait_for_log("configuration 3 is in force")
    assert run("conf", "show").stdout.partition("\n")[2] == CONF


@pytest.mark.qa
def test_all_processes_of_a_node_apply_a_version_and_keep_one_copy(
    start: Start, push: Run, shared_address: str
) -> None:
    push(CONF)
    a = serve(start, "a", shared_address, "--processes", "3")
    assert "uses it after" in push(MORE).stderr
    assert [(node["processes"], node["conf_version"]) for node in list_nodes(a)] == [(3, 2)]
    a.stop()
    assert json.loads((a.folder / "var" / "stored_conf.json").read_text(encoding="utf-8"))["number"] == 2


def test_the_last_versions_are_kept_and_each_change_has_a_mark(
    shared_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conf_versions, "MAX_VERSIONS", 3)
    database, marks = Database(tmp_path, shared_address), set()
    for number in range(1, 6):
        with database.write() as connection:
            add_version(connection, f"# {number}\n", base=number - 1, author="ann", message="")
        marks.add(read_mark(database))
    assert [version.number for version in list_versions(database)] == [5, 4, 3]
    assert find_previous_text(database, digest_text("# 5\n")) == "# 4\n"
    assert find_previous_text(database, digest_text("# 3\n")) is None
    with pytest.raises(BaseMoved), database.write() as connection:
        add_version(connection, "# x\n", base=4, author="ben", message="")
    store = SharedSecretStore(shared_address, SECRETS)
    for value in ("one", "two"):
        store.write("name", value)
        marks.add(read_mark(database))
    assert (store.read("name"), len(marks)) == ("two", 7)
    with pytest.raises(SecretError, match="set GATE_SECRET_KEY"):
        SharedSecretStore(shared_address, {}).write("name", "three")
    database.close()
