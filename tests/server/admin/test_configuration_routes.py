"""Provider entries and models by /admin/v1: a real gateway, its file, and a scripted vendor in another process."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.server.admin.conftest import ROOT as ADMINISTRATOR
from tests.support.gateway import Gateway
from tests.support.served import error_of
from tests.support.upstream import Upstream, answer

ROOT = "root-key-of-these-tests-0123456789"
SECRET = "sk-canary-of-these-tests-0123456789abcdef"
CONF = f"""\
# the head of the file
plugins:
  local: true    # the demonstration
providers:
  local: {{plugin: local}}   # not a vendor
models:
  local-chat: {{provider: local}}
  # what people ask for
keys:
  - {{name: root, key: {ROOT}, role: administrator}}
"""
CHAT_ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gpt-a",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
)
LIST = '{"object": "list", "data": [{"id": "gpt-a", "context_window": 8000}, {"id": "gpt-b"}]}'


@pytest.fixture(scope="module")
def vendor() -> Iterator[Upstream]:
    upstream = Upstream.start()
    yield upstream
    upstream.stop()


@pytest.fixture
def gateway(tmp_path: Path, vendor: Upstream) -> Iterator[Gateway]:
    vendor.reset()
    gateway = Gateway.start(CONF, tmp_path)
    yield gateway
    gateway.stop()


def send(gateway: Gateway, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request of an administrator; return its status and the JSON answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {ROOT}", "Content-Type": "application/json"}
    request = urllib.request.Request(gateway.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def read_conf(gateway: Gateway) -> str:
    return (gateway.folder / "gate.yaml").read_text(encoding="utf-8")


def add_vendor(gateway: Gateway, vendor: Upstream, name: str = "vendor", **members: Any) -> dict[str, Any]:
    body = {"name": name, "plugin": "openai", "base_url": vendor.url, "api_key": SECRET, **members}
    status, made = send(gateway, "POST", "/admin/v1/providers", body)
    assert status == 200, made
    return dict(made)


def test_the_login_of_a_proxy_is_kept_as_a_secret(gateway: Gateway, vendor: Upstream) -> None:
    address = "http://user:canary-of-a-proxy-0123@127.0.0.1:9"
    made = add_vendor(gateway, vendor, proxy=address)
    shown = [
        read_conf(gateway),
        json.dumps(made),
        gateway.logs,
        json.dumps(send(gateway, "GET", "/admin/v1/providers")),
    ]
    assert [text for text in shown if "canary" in text] == []
    assert re.search(r'proxy: "\$\{secret:', read_conf(gateway))
    status, tried = send(gateway, "POST", "/admin/v1/providers/vendor/test")
    assert (status, tried["ok"]) == (200, False)  # nothing listens at the proxy's address


def test_from_a_new_provider_to_an_answer_of_its_model(gateway: Gateway, vendor: Upstream) -> None:
    made = add_vendor(gateway, vendor)
    assert (made["name"], made["applied"]) == ("vendor", True)
    assert "+    base_url:" in made["diff"]
    assert re.search(r'\n\+    api_key: "\$\{secret:vendor-key-[0-9a-f]{8}\}"', made["diff"])
    vendor.script(answer(LIST, path="/v1/models"))
    status, tested = send(gateway, "POST", "/admin/v1/providers/vendor/test", {})
    assert (status, tested["ok"], tested["models"]) == (200, True, ["gpt-a", "gpt-b"])
    assert vendor.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
    status, model = send(gateway, "POST", "/admin/v1/models", {"name": "fast", "provider": "vendor", "model": "gpt-a"})
    assert (status, model["applied"]) == (200, True), model
    vendor.script(answer(CHAT_ANSWER, path="/v1/chat/completions"))
    body = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
    status, chat = send(gateway, "POST", "/v1/chat/completions", body)
    assert status == 200, chat
    assert vendor.requests[-1].json["model"] == "gpt-a"
    text = read_conf(gateway)
    assert "# the demonstration" in text
    assert "  # what people ask for" in text
    assert "  fast: {provider: vendor, model: gpt-a}\n" in text
    assert "  openai: true\n" in text
    status, views = send(gateway, "GET", "/admin/v1/providers/vendor")
    assert (views["state"], views["has_api_key"], views["models"]) == ("on", True, ["fast"])


def test_the_key_is_nowhere_in_clear(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    vendor.script(answer(f'{{"error": {{"message": "Incorrect API key provided: {SECRET}"}}}}', status=401))
    answers = [send(gateway, "POST", "/admin/v1/providers/vendor/test", {})]
    assert answers[0][1]["ok"] is False
    assert "refused the API key" in answers[0][1]["message"]
    body = {"name": "broken", "plugin": "openai", "base_url": vendor.url, "api_key": SECRET, "preset": SECRET}
    answers += [
        send(gateway, "POST", "/admin/v1/providers", body),
        send(gateway, "POST", "/admin/v1/providers", {"name": 1, "plugin": "openai", "api_key": SECRET}),
        send(gateway, "PATCH", "/admin/v1/providers/vendor", {"api_key": SECRET, "timeouts": {"connect": 7}}),
        *(send(gateway, "GET", f"/admin/v1/{name}") for name in ("providers", "models", "configuration", "audit")),
    ]
    assert [status for status, _ in answers] == [200, 400, 400, 200, 200, 200, 200, 200]
    assert SECRET not in json.dumps(answers)
    events = [event["action"] for event in answers[-1][1]["data"]]
    assert events[:2] == ["provider.change", "provider.create"]
    logs = gateway.stop()
    assert SECRET not in logs
    files = [path for path in gateway.folder.rglob("*") if path.is_file()]
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []
    kept = json.loads((gateway.folder / "var" / "secrets.json").read_text(encoding="utf-8"))["secrets"]
    assert len(kept) == 2, "the key of the refused entry is deleted"


def test_a_stored_key_is_not_sent_to_another_host(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    path, other = "/admin/v1/providers/vendor", "http://localhost:9/v1"
    (name,) = json.loads((gateway.folder / "var" / "secrets.json").read_text(encoding="utf-8"))["secrets"]
    for body in (
        {"base_url": other},
        {"base_url": None},
        {"base_url": "${ADDRESS:-http://localhost:9}"},
        {"base_url": other, "api_key": f"${{secret:{name}}}"},
        {"base_url": vendor.url.replace("http://", "https://")},
    ):
        status, refused = send(gateway, "PATCH", path, body)
        assert (status, refused["error"]["code"]) == (400, "provider_key_required"), body
        assert "api_key" in refused["error"]["message"]
    assert send(gateway, "PATCH", path, {"base_url": vendor.url + "/other/v1"})[0] == 200, "the host is the same"
    assert send(gateway, "PATCH", path, {"on": False})[0] == 200
    status, refused = send(gateway, "PATCH", path, {"base_url": other, "on": True})
    assert (status, refused["error"]["code"]) == (400, "provider_key_required"), "an entry that is off"
    assert send(gateway, "PATCH", path, {"on": True})[0] == 200
    assert send(gateway, "PATCH", path, {"base_url": other, "api_key": "sk-another-key-0123456789"})[0] == 200


def test_a_stored_key_stays_at_its_host_by_a_detour_too(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    path, other = "/admin/v1/providers/vendor", "http://localhost:9/v1"
    for body in (
        {"proxy": "http://localhost:9"},
        {"ca_file": "own.pem"},
        {"on": False, "base_url": other},
    ):
        status, refused = send(gateway, "PATCH", path, body)
        assert (status, refused["error"]["code"]) == (400, "provider_key_required"), body
    assert send(gateway, "PATCH", path, {"on": False})[0] == 200
    entry = {"name": "vendor", "plugin": "openai", "base_url": other}
    for method, to, body in (("PATCH", path, {"base_url": other, "on": True}), ("POST", "/admin/v1/providers", entry)):
        status, refused = send(gateway, method, to, body)
        assert (status, refused["error"]["code"]) == (400, "provider_key_required"), (method, body)
    assert send(gateway, "POST", "/admin/v1/providers", {**entry, "api_key": "sk-of-the-new-host-0123456789"})[0] == 200


def test_a_preset_moves_a_stored_key_as_an_address_does(gateway: Gateway) -> None:
    entry = {"name": "preset", "plugin": "openai", "preset": "groq", "api_key": SECRET}
    assert send(gateway, "POST", "/admin/v1/providers", entry)[0] == 200
    for body in ({"preset": "ollama"}, {"preset": None}, {"plugin": "anthropic", "preset": None}):
        status, refused = send(gateway, "PATCH", "/admin/v1/providers/preset", body)
        assert (status, refused["error"]["code"]) == (400, "provider_key_required"), body
    assert send(gateway, "PATCH", "/admin/v1/providers/preset", {"timeouts": {"connect": 7}})[0] == 200


def test_an_administrator_reads_no_secret_by_a_reference(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    (name,) = json.loads((gateway.folder / "var" / "secrets.json").read_text(encoding="utf-8"))["secrets"]
    before = read_conf(gateway)
    for reference in (f"${{secret:{name}}}", "${PATH}", "${file:/etc/hostname}"):
        thief = {"name": "thief", "plugin": "openai", "base_url": "http://localhost:9"}
        for method, path, body in (
            ("POST", "/admin/v1/providers", {**thief, "api_key": reference}),
            ("POST", "/admin/v1/providers", {**thief, "headers": {"x-region": reference}}),
            ("PATCH", "/admin/v1/providers/local", {"headers": {"x-region": reference}}),
            ("POST", "/admin/v1/models", {"name": "shown", "provider": "local", "model": reference}),
            ("PATCH", "/admin/v1/models/local-chat", {"targets": [{"provider": "local", "model": reference}]}),
            ("PATCH", "/admin/v1/plugins/local", {"mark": reference}),
        ):
            status, refused = send(gateway, method, path, body)
            assert (status, refused["error"]["code"]) == (400, "invalid_configuration"), (path, body, refused)
            assert "has a reference" in refused["error"]["message"]
    assert read_conf(gateway) == before


def test_a_key_is_replaced_and_the_old_one_is_kept_for_a_while(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    status, changed = send(gateway, "PATCH", "/admin/v1/providers/vendor", {"api_key": "sk-another-key-0123456789"})
    assert (status, changed["applied"]) == (200, True)
    vendor.script(answer(LIST))
    assert send(gateway, "POST", "/admin/v1/providers/vendor/test")[1]["ok"] is True
    assert vendor.requests[-1].headers["authorization"] == "Bearer sk-another-key-0123456789"
    kept = json.loads((gateway.folder / "var" / "secrets.json").read_text(encoding="utf-8"))["secrets"]
    assert ["retired" in entry for entry in kept.values()] == [True, False]


def test_secrets_of_other_members_go_to_the_store_too(gateway: Gateway, vendor: Upstream) -> None:
    keys = [SECRET, SECRET[::-1]]
    headers = {"x-account-key": SECRET, "x-region": "eu"}
    body = {"name": "many", "plugin": "openai", "base_url": vendor.url, "api_keys": keys, "headers": headers}
    status, made = send(gateway, "POST", "/admin/v1/providers", body)
    assert (status, made["applied"]) == (200, True), made
    text = read_conf(gateway)
    assert text.count("${secret:many-key-") == 3
    assert "x-region: eu" in text
    assert not any(key in text for key in keys)
    vendor.script(answer(LIST))
    assert send(gateway, "POST", "/admin/v1/providers/many/test")[1]["ok"] is True
    assert vendor.requests[-1].headers["x-account-key"] == SECRET


def test_what_is_used_is_not_removed(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor)
    names = ["one", "team/two"]
    for name in names:
        assert send(gateway, "POST", "/admin/v1/models", {"name": name, "targets": [{"provider": "vendor"}]})[0] == 200
    status, refused = send(gateway, "DELETE", "/admin/v1/providers/vendor")
    assert (status, refused["error"]["code"]) == (409, "in_use")
    assert all(f"'{name}'" in refused["error"]["message"] for name in names)
    patched = send(gateway, "PATCH", "/admin/v1/models/team%2Ftwo", {"fallback": ["one"], "display_name": "Two"})
    assert patched[0] == 200, patched
    status, refused = send(gateway, "DELETE", "/admin/v1/models/one")
    assert (status, refused["error"]["code"]) == (409, "in_use")
    assert send(gateway, "PATCH", "/admin/v1/models/team%2Ftwo", {"fallback": None})[0] == 200
    for name in ("one", "team%2Ftwo"):
        assert send(gateway, "DELETE", f"/admin/v1/models/{name}")[0] == 200
    assert send(gateway, "DELETE", "/admin/v1/providers/vendor") == (200, {"id": "vendor", "deleted": True})
    assert send(gateway, "DELETE", "/admin/v1/providers/vendor")[1]["error"]["code"] == "unknown_provider"
    assert read_conf(gateway) == CONF.replace("demonstration\n", "demonstration\n  openai: true\n")


def test_a_change_with_faults_changes_nothing(gateway: Gateway, vendor: Upstream) -> None:
    body = {"name": "x", "provider": "nobody"}
    status, refused = send(gateway, "POST", "/admin/v1/models", body)
    assert (status, refused["error"]["code"]) == (400, "invalid_configuration")
    assert "models.x.provider: unknown provider 'nobody'" in refused["error"]["message"]
    status, refused = send(gateway, "POST", "/admin/v1/providers", {"name": "v", "plugin": "openai", "presets": "x"})
    assert (status, refused["error"]["code"]) == (400, "invalid_configuration")
    status, refused = send(gateway, "POST", "/admin/v1/models", {"name": "local-chat", "provider": "local"})
    assert (status, refused["error"]["code"]) == (409, "already_exists")
    assert read_conf(gateway) == CONF


def test_a_change_of_an_older_version_is_refused_and_nothing_is_lost(gateway: Gateway) -> None:
    version = send(gateway, "GET", "/admin/v1/configuration")[1]["version"]
    first = {"name": "a", "provider": "local", "version": version}
    assert send(gateway, "POST", "/admin/v1/models", first)[0] == 200
    status, refused = send(gateway, "POST", "/admin/v1/models", {**first, "name": "b"})
    assert (status, refused["error"]["code"]) == (409, "configuration_changed")
    assert send(gateway, "DELETE", f"/admin/v1/models/a?version={version}")[0] == 409

    def add(number: int) -> int:
        return send(gateway, "POST", "/admin/v1/models", {"name": f"m{number}", "provider": "local"})[0]

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(add, range(8))) == {200}
    assert all(f"  m{number}: {{provider: local}}\n" in read_conf(gateway) for number in range(8))


def test_the_state_of_the_file_is_told(gateway: Gateway) -> None:
    status, before = send(gateway, "GET", "/admin/v1/configuration")
    assert (status, before["is_writable"], before["rejected"], len(before["version"])) == (200, True, [], 64)
    file = gateway.folder / "gate.yaml"
    file.write_text(CONF + "sever: {}\n", encoding="utf-8")
    gateway.wait_for_log("configuration not reloaded")
    after = send(gateway, "GET", "/admin/v1/configuration")[1]
    assert after["version"] == before["version"]
    assert [fault.partition("gate.yaml:")[2] for fault in after["rejected"]] == [
        "11: sever: unknown key; did you mean 'server'?"
    ]
    assert after["rejected_at"] >= after["applied_at"]
    status, refused = send(gateway, "POST", "/admin/v1/models", {"name": "x", "provider": "local"})
    assert (status, refused["error"]["code"]) == (400, "invalid_configuration")


def test_a_plugin_without_a_list_is_tested_by_a_short_chat(gateway: Gateway, vendor: Upstream) -> None:
    status, result = send(gateway, "POST", "/admin/v1/providers/local/test")
    assert (status, result["ok"]) == (200, True)
    assert "local-chat" in result["models"]
    assert send(gateway, "POST", "/admin/v1/providers/none/test")[0] == 404


def test_a_vendor_that_cannot_be_reached_is_told_in_words(gateway: Gateway, vendor: Upstream) -> None:
    add_vendor(gateway, vendor, base_url="http://127.0.0.1:9")
    result = send(gateway, "POST", "/admin/v1/providers/vendor/test")[1]
    assert (result["ok"], result["models"]) == (False, [])
    assert result["message"].startswith("The provider 'vendor' could not be reached.")


@pytest.mark.qa
def test_all_processes_use_a_change(tmp_path: Path, vendor: Upstream) -> None:
    vendor.reset()
    gateway = Gateway.start(CONF, tmp_path, "--processes", "2")
    try:
        add_vendor(gateway, vendor)
        assert send(gateway, "POST", "/admin/v1/models", {"name": "fast", "provider": "vendor"})[0] == 200
        gateway.wait_for_log("2 models", 2)
        vendor.script(answer(CHAT_ANSWER, repeat=True))
        body = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
        assert {send(gateway, "POST", "/v1/chat/completions", body)[0] for _ in range(12)} == {200}
        assert {request.headers["authorization"] for request in vendor.requests} == {f"Bearer {SECRET}"}
    finally:
        gateway.stop()


@pytest.mark.gen_test
async def test_without_a_file_the_lines_of_the_change_are_told(ask: Callable[..., Any]) -> None:
    body = {"name": "mine", "plugin": "fake"}
    headers = {"Authorization": f"Bearer {ADMINISTRATOR}"}
    response = await ask("/admin/v1/providers", body, method="POST", headers=headers)
    error = error_of(response)
    assert (response.code, error["code"]) == (409, "configuration_not_writable")
    assert "plugins:\n  fake: true\nproviders:\n  mine: {plugin: fake}\n" in error["message"]
