"""A required wrapper: no request in its scope passes without it, on any path, whatever is wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway, run_command
from tests.support.upstream import Upstream, answer

KEY = "test-key-of-required-wrappers"
GUARD = '''
from tornado_gate import errors, plugin_impl, provider_impl, format_impl, types
from tornado_gate.config import load_settings
from marshmallow import Schema, fields

class Settings(Schema):
    mark = fields.String(load_default="***")

class Guard:
    """Replaces the word "secret" in texts; fails at the word "boom", refuses the word "never"."""
    mark = "unset"

    @plugin_impl
    def configure_plugin(self, entry):
        guard = Guard()
        guard.mark = load_settings(Settings, entry.settings)["mark"]
        return guard

    @provider_impl(wrapper=True)
    def call_upstream(self, call):
        pending = yield
        return pending

    @format_impl(wrapper=True)
    def translate_request(self, call, wire):
        pending = yield
        return self.clean(pending)

    async def clean(self, pending):
        request = await pending if hasattr(pending, "__await__") else pending
        if not isinstance(request, types.ChatRequest):
            return request
        text = "".join(part.text for message in request.messages for part in message.parts)
        if "boom" in text:
            raise KeyError("boom")
        if "never" in text:
            raise errors.NotAllowed("This text is not allowed.", code="guarded")
        part = types.Text(text=text.replace("secret", self.mark))
        return types.replace(request, messages=(types.Message(role="user", parts=(part,)),))
'''
BROKEN = {
    "import": "import a_module_that_is_not_there",
    "no hook": "x = 1",
    "wrong hook": "from tornado_gate import provider_impl\n@provider_impl(wrapper=True)\ndef translate_reqest(call): yield",
    "settings": GUARD.replace("guard = Guard()", "raise KeyError('settings')"),
    "other hooks": GUARD.replace("guard = Guard()", "return object()"),
    "missing": None,
}
CONF = """
plugins: {{local: true, openai: true, guard: {guard}}}
providers:
  local: {{plugin: local}}
  up: {{plugin: openai, base_url: "{url}", api_key: none}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
  local-tts: {{provider: local}}
  local-video: {{provider: local}}
  local-realtime: {{provider: local}}
  gpt-4o: {{provider: up}}
  alias: {{provider: up, model: gpt-4o}}
  other: {{provider: up, model: other, fallback: [local-chat]}}
keys:
  - {{name: test, key: {key}}}
  - {{name: second, key: {key}-2}}
"""
ANSWER = {"id": "c1", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]}

StartGateway = Callable[..., Gateway]


def install(folder: Path, module: str | None) -> dict[str, str]:
    """A distribution with the plugin `guard`, for PYTHONPATH; with None, one that is not there."""
    if module is not None:
        info = folder / "guard-0.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guard\nVersion: 0.1\n", encoding="utf-8")
        target = "the_guard:Guard" if "class Guard" in module else "the_guard"
        (info / "entry_points.txt").write_text(f"[tornado_gate]\nguard = {target}\n", encoding="utf-8")
        (folder / "the_guard.py").write_text(module, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def make_conf(upstream: Upstream, guard: str) -> str:
    return CONF.format(url=upstream.url + "/v1", key=KEY, guard=guard)


def post(gateway: Gateway, path: str, body: dict[str, Any], key: str = KEY) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=30)


def chat(gateway: Gateway, text: str, model: str = "gpt-4o", key: str = KEY, **rest: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **rest}
    return post(gateway, "/v1/chat/completions", body, key)


def handshake(gateway: Gateway) -> httpx.Response:
    headers = {
        "Authorization": f"Bearer {KEY}", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    url = gateway.url + "/v1/realtime?model=local-realtime"
    return httpx.get(url, headers=headers, trust_env=False, timeout=30)


TURN = [{"role": "user", "content": "Hi"}]
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "verbatim": ("/v1/chat/completions", {"model": "gpt-4o", "messages": TURN}),
    "stream": ("/v1/chat/completions", {"model": "gpt-4o", "messages": TURN, "stream": True}),
    "common": ("/v1/chat/completions", {"model": "local-chat", "messages": TURN}),
    "fallback": ("/v1/chat/completions", {"model": "other", "messages": TURN}),
    "other format": ("/v1/messages", {"model": "gpt-4o", "messages": TURN, "max_tokens": 9}),
    "responses": ("/v1/responses", {"model": "gpt-4o", "input": "Hi"}),
    "embeddings": ("/v1/embeddings", {"model": "local-embed", "input": "Hi"}),
    "speech": ("/v1/audio/speech", {"model": "local-tts", "input": "Hi", "voice": "alloy"}),
    "video": ("/v1/videos", {"model": "local-video", "prompt": "Hi"}),
    "explain": ("/v1/_explain?route=/v1/chat/completions", {"model": "gpt-4o", "messages": TURN}),
}


@pytest.fixture(params=list(BROKEN))
def broken(request: pytest.FixtureRequest, start_gateway: StartGateway, tmp_path: Path, upstream: Upstream) -> Gateway:
    environment = install(tmp_path / "site", BROKEN[request.param])
    return start_gateway(make_conf(upstream, "{required: true}"), environment=environment)


def test_a_required_wrapper_that_cannot_work_closes_every_path(broken: Gateway, upstream: Upstream) -> None:
    for name, (path, body) in PATHS.items():
        refused = post(broken, path, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "plugin_unavailable"), name
        assert "'guard'" in refused.json()["error"]["message"]
    assert handshake(broken).status_code == 503
    assert not upstream.requests
    ready = httpx.get(broken.url + "/readyz", trust_env=False)
    assert (ready.status_code, ready.json()["plugins"]) == (503, ["guard"])
    broken.wait_for_log("plugin 'guard' failed")


@pytest.mark.qa
@pytest.mark.parametrize(
    ("reason", "guard"), [*((reason, "{required: true}") for reason in BROKEN), ("import", "true"), ("missing", "true")]
)
def test_check_fails_for_a_plugin_that_is_on_and_cannot_work(
    tmp_path: Path, upstream: Upstream, reason: str, guard: str
) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(make_conf(upstream, guard), encoding="utf-8")
    done = run_command("check", "--conf", str(file), environment=install(tmp_path / "site", BROKEN[reason]))
    assert done.returncode == 1, done.stdout
    assert f"{file}:2: plugins.guard: " in done.stdout
    assert "Traceback" not in done.stdout


def serve_guard(
    start: StartGateway, folder: Path, upstream: Upstream, guard: str, module: str | None = GUARD
) -> Gateway:
    upstream.script(*[answer(json.dumps(ANSWER)) for _ in range(8)])
    return start(make_conf(upstream, guard), environment=install(folder / "site", module))


def last_prompt(upstream: Upstream) -> str:
    return str(upstream.requests[-1].json["messages"][0]["content"])


def test_a_required_wrapper_sees_every_request_on_the_common_lane(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    gateway = serve_guard(start_gateway, tmp_path, upstream, '{required: true, mark: "[gone]", operations: [chat]}')
    assert chat(gateway, "a secret").status_code == 200
    assert last_prompt(upstream) == "a [gone]"
    refused = chat(gateway, "never")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "guarded")
    failed = chat(gateway, "boom")
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "plugin_unavailable")
    assert len(upstream.requests) == 1
    for _ in range(8):  # failures of the wrapper do not open the target's circuit
        chat(gateway, "boom")
    assert chat(gateway, "a secret").status_code == 200


def test_a_wrapper_sees_the_requests_in_its_scope_only(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    guard = '{required: true, operations: [chat], models: ["gpt-*"], keys: [test]}'
    gateway = serve_guard(start_gateway, tmp_path, upstream, guard)
    for model, key, prompt in [
        ("gpt-4o", KEY, "a ***"), ("alias", KEY, "a ***"), ("gpt-4o", f"{KEY}-2", "a secret"), ("other", KEY, "a secret"),
    ]:  # fmt: skip
        assert chat(gateway, "a secret", model, key).status_code == 200
        assert last_prompt(upstream) == prompt, (model, key)


def test_a_wrapper_that_is_missing_closes_its_scope_only(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    guard = '{required: true, models: ["gpt-*"], keys: [test]}'
    gateway = serve_guard(start_gateway, tmp_path, upstream, guard, None)
    for model, key, status in [("alias", KEY, 503), ("gpt-4o", f"{KEY}-2", 200), ("other", KEY, 200)]:
        assert chat(gateway, "a secret", model, key).status_code == status, (model, key)


def test_a_required_wrapper_that_cannot_see_sessions_closes_them_unless_they_are_out_of_scope(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    gateway = serve_guard(start_gateway, tmp_path, upstream, "{required: true}")
    assert handshake(gateway).status_code == 503
    gateway.wait_for_log("cannot see the messages of realtime sessions")


def test_a_required_wrapper_whose_deferred_module_is_missing_is_not_ready(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    module = GUARD + '\nfrom tornado_gate import lazy_import\nlazy_import("the_guard", "not_there")\n'
    gateway = serve_guard(start_gateway, tmp_path, upstream, "{required: true, operations: [chat]}", module)
    gateway.child.wait_for_line("plugin 'guard' failed: the_guard.not_there")
    ready = httpx.get(gateway.url + "/readyz", trust_env=False)
    assert (ready.status_code, ready.json()["plugins"]) == (503, ["guard"])


@pytest.mark.qa
def test_settings_of_a_plugin_are_checked_by_the_plugin(tmp_path: Path, upstream: Upstream) -> None:
    file = tmp_path / "gate.yaml"
    environment = install(tmp_path / "site", GUARD)

    def check(guard: str) -> str:
        file.write_text(make_conf(upstream, guard), encoding="utf-8")
        return run_command("check", "--conf", str(file), environment=environment).stdout

    assert f"{file}:2: plugins.guard.marks: unknown key; did you mean 'mark'?" in check("{marks: x}")
    assert f"{file}:2: plugins.guard.mark: must be a string" in check("{mark: 5}")
    assert "valid" in check('{mark: "x"}')
    assert "unknown key; settings of this plugin belong to its entries under providers" in check("true, kling: {a: 1}")
    assert "plugins.kling.required: is for wrappers" in check("true, kling: {required: true}")
