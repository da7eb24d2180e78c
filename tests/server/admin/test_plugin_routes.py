"""A plugin's switch and settings by /admin/v1 on a real gateway, and its file."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.server.admin.test_configuration_routes import ROOT, read_conf, send
from tests.support.gateway import Gateway

SECRET = "sk-canary-of-a-header-0123456789abcdef"
CONF = f"""\
plugins:
  local: true
  cache: false   # not yet
  redact: {{on: true, mark: "###"}}   # a guard
  otel: {{on: false, endpoint: "http://127.0.0.1:9/v1/traces"}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
keys:
  - {{name: root, key: {ROOT}, role: administrator}}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF, tmp_path_factory.mktemp("plugins"))
    yield gateway
    gateway.stop()


def redact(gateway: Gateway) -> str:
    """The text that a model gets from a message with an e-mail: the local model repeats it."""
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "echo: ada@example.org"}]}
    status, chat = send(gateway, "POST", "/v1/chat/completions", body)
    assert status == 200, chat
    return json.dumps(chat)


def test_a_setting_is_changed_and_used_without_a_restart(gateway: Gateway) -> None:
    status, done = send(gateway, "PATCH", "/admin/v1/plugins/redact", {"mark": "[hidden]", "models": ["local-*"]})
    assert (status, done["applied"]) == (200, True), done
    assert '  redact: {on: true, mark: "[hidden]", models: ["local-*"]}   # a guard\n' in read_conf(gateway)
    assert "ada@example.org" not in redact(gateway)
    status, done = send(gateway, "PATCH", "/admin/v1/plugins/redact", {"models": None})
    assert (status, done["applied"]) == (200, True), done
    assert '  redact: {on: true, mark: "[hidden]"}   # a guard\n' in read_conf(gateway)


def test_a_plugin_is_switched_and_set_in_one_change(gateway: Gateway) -> None:
    status, done = send(gateway, "PATCH", "/admin/v1/plugins/cache", {"on": True, "keep_seconds": 60})
    assert (status, done["applied"]) == (200, True), done
    assert "cache: {on: true, keep_seconds: 60}" in read_conf(gateway)
    states = {row["name"]: row["state"] for row in send(gateway, "GET", "/admin/v1/plugins")[1]["data"]}
    assert states["cache"] == "on"
    _, events = send(gateway, "GET", "/admin/v1/audit")
    assert events["data"][0]["action"] == "plugin.change"


def test_a_setting_that_the_plugin_refuses_changes_nothing(gateway: Gateway) -> None:
    before = read_conf(gateway)
    status, refused = send(gateway, "PATCH", "/admin/v1/plugins/redact", {"markk": "x"})
    assert (status, refused["error"]["code"]) == (400, "invalid_configuration")
    assert "markk" in refused["error"]["message"]
    assert read_conf(gateway) == before


def test_a_secret_goes_to_the_store(gateway: Gateway) -> None:
    body = {"headers": {"authorization": f"Bearer {SECRET}"}}
    status, done = send(gateway, "PATCH", "/admin/v1/plugins/otel", body)
    assert status == 200, done
    assert SECRET not in json.dumps(done) + read_conf(gateway)
    assert "${secret:otel-key-" in read_conf(gateway)


def test_a_stored_secret_of_a_plugin_stays_at_its_address(gateway: Gateway) -> None:
    body = {"endpoint": "http://localhost:9/v1/traces", "headers": {"authorization": f"Bearer {SECRET}"}}
    assert send(gateway, "PATCH", "/admin/v1/plugins/otel", body)[0] == 200
    moved = {"endpoint": "http://127.0.0.1:9/v1/traces"}
    status, refused = send(gateway, "PATCH", "/admin/v1/plugins/otel", moved)
    assert (status, refused["error"]["code"]) == (400, "provider_key_required")
    assert "headers" in refused["error"]["message"]
    assert send(gateway, "PATCH", "/admin/v1/plugins/otel", {**body, **moved})[0] == 200


def test_unknown_plugins_and_old_versions_are_refused(gateway: Gateway) -> None:
    status, refused = send(gateway, "PATCH", "/admin/v1/plugins/none", {"on": True})
    assert (status, refused["error"]["code"]) == (404, "unknown_plugin")
    status, refused = send(gateway, "PATCH", "/admin/v1/plugins/redact", {"mark": "x", "version": "0" * 64})
    assert (status, refused["error"]["code"], refused["error"]["param"]) == (409, "configuration_changed", "version")
    status, refused = send(gateway, "PATCH", "/admin/v1/plugins/redact", {"on": "yes"})
    assert (status, refused["error"]["param"]) == (400, "on")


def test_the_file_of_the_gateway_stays_valid(gateway: Gateway) -> None:
    _, state = send(gateway, "GET", "/admin/v1/configuration")
    assert state["rejected"] == []
