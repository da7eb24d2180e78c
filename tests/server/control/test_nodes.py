"""The list of nodes: by the API, by a command and on the home page of administrators."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import psycopg
import pytest

from tests.server.control.conftest import CONF, ROOT, Start
from tests.support.control import call
from tests.support.gateway import Gateway, run_command
from tornado_gate import __version__
from tornado_gate.server.control.nodes import SILENT_SECONDS


def list_nodes(gateway: Gateway) -> dict[str, Any]:
    """The nodes by id, as a node lists them."""
    return {node["id"]: node for node in call("GET", f"{gateway.url}/admin/v1/nodes", key=ROOT)["data"]}


def get_id(gateway: Gateway) -> str:
    ready = call("GET", f"{gateway.url}/readyz")
    assert ready["version"] == __version__
    return str(ready["node"])


def run_list(gateway: Gateway, *arguments: str) -> str:
    options = ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var")]
    done = run_command("nodes", "list", *options, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.qa
def test_every_node_lists_all_with_their_versions_until_they_stop(start: Start, shared_address: str) -> None:
    a, b = start("a"), start("b", conf=CONF + "unpriced: allow\n")
    first, second = get_id(a), get_id(b)
    nodes = list_nodes(b)
    assert list(nodes) == [first, second], "the oldest is first"
    assert {node["state"] for node in nodes.values()} == {"serving"}
    assert {node["version"] for node in nodes.values()} == {__version__}
    assert nodes[first]["conf_version"] is None, "the configuration is a file"
    assert nodes[first]["conf_digest"] != nodes[second]["conf_digest"], "their files differ"
    assert json.loads(run_list(a, "--json")) == list(list_nodes(a).values())
    assert nodes[second]["conf_digest"][:12] in run_list(a)

    b.stop()
    assert list(list_nodes(a)) == [first], "a node that stops says so"

    a.child.process.send_signal(signal.SIGSTOP)
    with psycopg.connect(shared_address) as connection:
        connection.execute("UPDATE nodes SET seen = seen - %s", [SILENT_SECONDS])
    silent = run_list(start("c"))
    os.kill(a.child.process.pid, signal.SIGCONT)
    assert f"{first}  " in silent
    assert "silent" in silent


def test_a_node_that_cannot_use_a_newer_file_says_why(start: Start) -> None:
    a = start("a")
    (a.folder / "gate.yaml").write_text("models: {x: {provider: unknown}}\n", encoding="utf-8")
    a.child.process.send_signal(signal.SIGHUP)
    a.wait_for_log("configuration not reloaded")
    b = start("b")
    fault = list_nodes(b)[get_id(a)]["fault"]
    assert "unknown provider" in fault
    assert "unknown provider" in run_list(b)


@pytest.mark.qa
def test_the_processes_of_a_gateway_are_one_node(start: Start) -> None:
    a = start("a", "--processes", "2")
    assert [node["processes"] for node in list_nodes(a).values()] == [2]


def test_without_postgresql_there_are_no_nodes(start: Start) -> None:
    a = start("a", conf=CONF.replace("database: {address}", ""))
    assert "node" not in call("GET", f"{a.url}/readyz")
    assert list_nodes(a) == {}
    done = run_command("nodes", "list", "--conf", str(a.folder / "gate.yaml"), "--data-dir", str(a.folder / "var"))
    assert (done.returncode, "PostgreSQL" in done.stderr) == (1, True)
