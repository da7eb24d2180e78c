"""The command: first start, keys, reload, draining, several processes, plugins that misbehave."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway, run_command
from tests.support.upstream import DONE, Upstream, Wait, answer, sse
from tests.support.variants import vary

KEY = "test-key-of-serving"
CONF = f"""
server: {{log_level: info}}
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
keys:
  - {{name: test, key: {KEY}}}
"""
HELLO = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}]}

StartGateway = Callable[..., Gateway]


def chat(gateway: Gateway, model: str = "local-chat", key: str = KEY, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    url = gateway.url + "/v1/chat/completions"
    return httpx.post(url, json={**HELLO, "model": model, **body}, headers=headers, trust_env=False, timeout=30)


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, folder=folder, environment=environment)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Ask again and again; a deadline ends a wait that failed."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.02)


# First start


def test_the_first_start_prints_a_curl_line_that_works_as_pasted(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF.replace(f"key: {KEY}", 'key: ""'), installed=True)
    gateway.wait_for_log("curl ")
    (line,) = [line for line in gateway.logs.splitlines() if line.strip().startswith("curl ")]
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env={**os.environ})
    assert '"choices"' in done.stdout, (done, gateway.logs)
    key = re.findall(r"Bearer (tg-[\w-]+)", line)[0]
    gateway.stop()  # SQLite and the stores create and remove files while it runs
    kept = b"".join(path.read_bytes() for path in (gateway.folder / "var").rglob("*") if path.is_file())
    assert key.encode() not in kept


def test_a_second_start_makes_no_other_key(start_gateway: StartGateway, tmp_path: Path) -> None:
    conf = CONF.replace(f"key: {KEY}", 'key: ""')
    first = start_gateway(conf)
    first.stop()
    second = Gateway.start(conf, first.folder)
    assert "first start" not in second.stop()


def test_what_the_gateway_writes_is_its_owners_only(start_gateway: StartGateway) -> None:
    data_dir = start_gateway(CONF).folder / "var"
    assert data_dir.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in data_dir.rglob("*"))


def test_a_port_that_is_taken_is_said_with_a_way_out(start_gateway: StartGateway, tmp_path: Path) -> None:
    gateway = start_gateway(CONF)
    port = gateway.url.rsplit(":", 1)[1]
    done = run("serve", "--conf", str(gateway.folder / "gate.yaml"), "--port", port, folder=tmp_path)
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_faulty_file_stops_the_start_with_every_fault(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("server: {prot: 1}\nmodels: {m: {provider: nobody}}\n", encoding="utf-8")
    done = run("serve", "--conf", "gate.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert "gate.yaml:1: server.prot: " in done.stderr
    assert "gate.yaml:2: models.m.provider: " in done.stderr


# Keys


def test_a_key_made_while_it_serves_works_and_a_revoked_one_stops(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF)
    conf = ("--conf", "gate.yaml", "--data-dir", "var")
    made = run("keys", "create", "--name", "ann", "--models", "local-*", *conf, folder=gateway.folder)
    key = made.stdout.strip()
    assert chat(gateway, key=key).status_code == 200
    (row,) = [row for row in json.loads(run("keys", "list", "--json", *conf, folder=gateway.folder).stdout)
              if row["name"] == "ann"]  # fmt: skip
    assert key not in json.dumps(row)
    assert run("keys", "revoke", row["id"], *conf, folder=gateway.folder).returncode == 0
    until(lambda: chat(gateway, key=key).status_code == 401)
    assert key not in gateway.stop()


# Reload


def more_than(items: list[int], number: int) -> bool:
    return len(items) > number


def rewrite(gateway: Gateway, conf: str) -> None:
    """Replace the file as editors do."""
    fresh = gateway.folder / "gate.yaml.new"
    fresh.write_text(conf, encoding="utf-8")
    fresh.replace(gateway.folder / "gate.yaml")


def test_a_changed_file_is_in_force_without_a_restart(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF)
    assert chat(gateway, "another").status_code == 404
    rewrite(gateway, CONF.replace("  local-chat:", "  another: {provider: local}\n  local-chat:"))
    until(lambda: chat(gateway, "another").status_code == 200)


def test_sighup_reloads_at_once(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF)
    gateway.child.process.send_signal(signal.SIGHUP)
    gateway.child.wait_for_line("configuration 2 is in force")
    assert chat(gateway).status_code == 200


def test_a_faulty_file_is_reported_and_the_old_one_stays(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF)
    rewrite(gateway, CONF.replace("plugin: local}", "plugin: local, base_url: nonsense}"))
    gateway.child.wait_for_line(r"not reloaded: .*gate.yaml:\d+: providers.local.base_url")
    assert chat(gateway).status_code == 200


def test_no_request_is_dropped_while_the_file_changes_again_and_again(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF)
    stop = threading.Event()
    statuses: list[int] = []

    def ask() -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not stop.is_set():
                url = gateway.url + "/v1/chat/completions"
                statuses.append(client.post(url, json=HELLO, headers={"x-api-key": KEY}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(2, 7):
        gateway.child.process.send_signal(signal.SIGHUP)
        gateway.child.wait_for_line(f"configuration {number} is in force")
        answered = len(statuses)
        until(partial(more_than, statuses, answered + 8))
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}


def test_a_stream_outlives_the_configuration_it_began_with(start_gateway: StartGateway, upstream: Upstream) -> None:
    provider = f'mock: {{plugin: openai, base_url: "{upstream.url}", api_key: k-123456789}}'
    with_mock = CONF.replace("local: true", "local: true, openai: true")
    with_mock = with_mock.replace("  local: {plugin", f"  {provider}\n  local: {{plugin")
    with_mock = with_mock.replace("  local-chat:", "  mocked: {provider: mock}\n  local-chat:")
    gateway = start_gateway(with_mock)
    upstream.script(answer(sse(chunk("a")), Wait("go on"), sse(chunk("b", "stop"), DONE)))
    url, body = gateway.url + "/v1/chat/completions", {**HELLO, "model": "mocked", "stream": True}
    with httpx.stream("POST", url, json=body, headers={"x-api-key": KEY}, trust_env=False, timeout=30) as response:
        lines = response.iter_lines()
        assert '"a"' in next(lines)
        rewrite(gateway, CONF)
        gateway.child.wait_for_line("configuration 2 is in force")
        assert chat(gateway, "mocked").status_code == 404
        upstream.tell("go on")
        rest = list(lines)
    assert "data: [DONE]" in rest


def chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


# Stopping, and several processes


@pytest.mark.parametrize("processes", vary("2", "1"))
def test_an_open_stream_may_end_after_sigterm_while_new_connections_are_refused(
    start_gateway: StartGateway, upstream: Upstream, processes: str
) -> None:
    conf = CONF.replace("local: true", "local: true, openai: true").replace(
        "  local: {plugin",
        f'  mock: {{plugin: openai, base_url: "{upstream.url}", api_key: k-123456789}}\n  local: {{plugin',
    )
    conf = conf.replace("  local-chat:", "  mocked: {provider: mock}\n  local-chat:")
    gateway = start_gateway(conf, "--processes", processes, installed=True)
    upstream.script(answer(sse(chunk("a")), Wait("go on"), sse(chunk("b", "stop"), DONE)))
    url, body = gateway.url + "/v1/chat/completions", {**HELLO, "model": "mocked", "stream": True}
    with httpx.stream("POST", url, json=body, headers={"x-api-key": KEY}, trust_env=False, timeout=30) as response:
        lines = response.iter_lines()
        next(lines)
        gateway.child.process.terminate()
        for _ in range(int(processes)):
            gateway.child.wait_for_line("draining: ")
        with pytest.raises(httpx.ConnectError):
            chat(gateway)
        upstream.tell("go on")
        assert "data: [DONE]" in list(lines)
    gateway.child.process.wait(60)
    assert gateway.child.process.returncode == 0


@pytest.fixture
def many(start_gateway: StartGateway) -> Gateway:
    return start_gateway(CONF, "--processes", "2", installed=True)


def processes_of(gateway: Gateway) -> list[int]:
    children = Path(f"/proc/{gateway.child.process.pid}/task/{gateway.child.process.pid}/children")
    return [int(process) for process in children.read_text().split()]


@pytest.mark.qa
def test_several_processes_serve_and_count_together(many: Gateway) -> None:
    assert len(processes_of(many)) == 2
    for _ in range(10):
        assert chat(many).status_code == 200

    def counted() -> float:
        text = httpx.get(many.url + "/metrics", trust_env=False).text
        found = re.findall(r'^tornado_gate_requests_total\{[^}]*model="local-chat"[^}]*\} ([\d.]+)$', text, re.M)
        return float(found[0]) if found else 0.0

    until(lambda: counted() == 10)  # what the other process has counted is a quarter of a second late


@pytest.mark.qa
def test_a_process_that_dies_is_replaced(many: Gateway) -> None:
    first, second = processes_of(many)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(processes_of(many)) == 2 and first not in processes_of(many))
    assert second in processes_of(many)
    until(lambda: chat(many).status_code == 200)


@pytest.mark.qa
def test_all_processes_reload_and_stop_together(many: Gateway) -> None:
    many.child.process.send_signal(signal.SIGHUP)
    for _ in range(2):
        many.child.wait_for_line("configuration 2 is in force")
    many.stop()
    assert many.child.process.returncode == 0


# Plugins that misbehave


MODULE = """
import time
from tornado_gate import provider_impl, types

{at_import}

@provider_impl
def translate_request(call, request):
    {in_hook}
    return types.UpstreamRequest()

@provider_impl
async def translate_response(call, incoming):
    yield types.ResponseStart(model="m")
"""
WITH_BAD = CONF.replace("local: true", "local: true, bad: true").replace(
    "  local-chat:", "  bad-chat: {provider: bad}\n  local-chat:"
)
WITH_BAD = WITH_BAD.replace("  local: {plugin", "  bad: {plugin: bad}\n  local: {plugin")


def bad_plugin(folder: Path, at_import: str = "", in_hook: str = "pass") -> dict[str, str]:
    """A plugin in a folder of its own, found by PYTHONPATH like an installed one."""
    (folder / "bad_plugin.py").write_text(MODULE.format(at_import=at_import, in_hook=in_hook), encoding="utf-8")
    info = folder / "bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[tornado_gate]\nbad = bad_plugin\n", encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("at_import", vary("raise SystemExit(1)", "raise RuntimeError('broken')", "import not_there"))
def test_a_plugin_that_cannot_be_imported_harms_no_other_model(
    start_gateway: StartGateway, tmp_path: Path, at_import: str
) -> None:
    environment = bad_plugin(tmp_path, at_import=at_import)
    gateway = start_gateway(WITH_BAD, environment=environment)
    response = chat(gateway, "bad-chat")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "plugin_failed")
    assert chat(gateway).status_code == 200
    listed = run("plugins", "list", "--conf", "gate.yaml", "--json", folder=gateway.folder, **environment)
    (row,) = [row for row in json.loads(listed.stdout) if row["name"] == "bad"]
    assert row["state"] == "failed"
    assert row["error"]
    assert "plugin 'bad' failed" in gateway.stop()


@pytest.mark.parametrize(
    "in_hook", vary("while True: pass", "raise KeyError('x')", "return 'nonsense'", "time.sleep(1000)")
)
def test_a_plugin_that_fails_in_a_hook_is_named_and_harms_no_other_model(
    start_gateway: StartGateway, tmp_path: Path, in_hook: str
) -> None:
    environment = bad_plugin(tmp_path, in_hook=in_hook)
    conf = WITH_BAD.replace("log_level: info", "log_level: info, hook_seconds: 0.5")
    gateway = start_gateway(conf, environment=environment)
    assert chat(gateway, "bad-chat").status_code == 503
    assert chat(gateway).status_code == 200
    gateway.stop()
    arguments = ("--conf", "gate.yaml", "--data-dir", "var")
    listed = run("plugins", "list", *arguments, folder=gateway.folder, **environment)
    assert re.search(r"^bad: failed in a running server", listed.stdout, re.M)


def test_no_secret_is_logged_on_any_way_of_failing(start_gateway: StartGateway, upstream: Upstream) -> None:
    secret = "sk-canary-0123456789abcdef"
    conf = CONF.replace("local: true", "local: true, openai: true").replace("log_level: info", "log_level: debug")
    conf = conf.replace(
        "  local: {plugin",
        f'  mock: {{plugin: openai, base_url: "{upstream.url}", api_key: {secret}}}\n  local: {{plugin',
    ).replace("  local-chat:", "  mocked: {provider: mock}\n  local-chat:")
    gateway = start_gateway(conf)
    told = json.dumps({"error": {"message": f"Incorrect API key provided: {secret}"}})
    for status in (400, 401, 404, 429, 500, 503):
        upstream.script(answer(told, status=status))
        response = chat(gateway, "mocked")
        assert secret not in response.text + str(response.headers), status
    httpx.get(f"{gateway.url}/v1/models?key={KEY}", trust_env=False)
    httpx.get(f"{gateway.url}/v1/models?key=wrong-{KEY}", trust_env=False)
    httpx.get(f"{gateway.url}/nowhere?key={KEY}", trust_env=False)
    chat(gateway, "mocked", key=f"{KEY}-and-more")
    said = gateway.stop()
    assert secret not in said
    assert KEY not in said


def test_an_address_that_this_machine_does_not_have_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("plugins: {local: true}\n", encoding="utf-8")
    flags = ("--host", "203.0.113.9", "--port", "8080", "--conf", str(tmp_path / "gate.yaml"))
    refused = run_command("serve", *flags, "--data-dir", str(tmp_path / "var"), folder=tmp_path)
    assert refused.returncode == 1
    assert "cannot listen on 203.0.113.9:8080: " in refused.stderr
    assert "It is no address of this machine. Choose another one with --host or server.host in conf." in refused.stderr
