"""A stranger's plugins: the very examples of the docs, installed by pip, served by the installed command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.guides import find_example
from tests.support.upstream import Upstream, answer, sse

KEY = "test-key-of-a-stranger"
SETUP = """
from setuptools import setup
setup(name="{dist}", version="0.1", py_modules=["{module}"], entry_points={{"tornado_gate": ["{name} = {module}"]}})
"""
CONF = """
plugins: {{acme: true, plain: true, timing: true, local: true}}
providers:
  acme: {{plugin: acme, base_url: "{url}", api_key: "key-of-acme"}}
  local: {{plugin: local}}
models:
  acme-1: {{provider: acme}}
  local-chat: {{provider: local}}
keys:
  - {{name: test, key: "{key}"}}
"""

StartGateway = Callable[..., Gateway]


def install(folder: Path, target: Path, files: dict[str, str]) -> None:
    """pip install a distribution of these files into a folder of its own, which PYTHONPATH then names."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(folder)], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where three strangers' distributions are installed."""
    folder = tmp_path_factory.mktemp("strangers")
    target = folder / "site"
    acme = {"tornado_gate_acme.py": find_example("# tornado_gate_acme.py"), "setup.py": find_example("# setup.py")}
    install(folder / "acme", target, acme)
    for name in ("plain", "timing"):
        module = f"tornado_gate_{name}"
        setup = SETUP.format(dist=f"tornado-gate-{name}", module=module, name=name)
        install(folder / name, target, {f"{module}.py": find_example(f"# {module}.py"), "setup.py": setup})
    return target


@pytest.fixture
def gateway(site: Path, upstream: Upstream, start_gateway: StartGateway) -> Gateway:
    conf = CONF.format(url=upstream.url, key=KEY)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    return start_gateway(conf, environment={"PYTHONPATH": path})


def post(gateway: Gateway, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=30)


WORDS = ({"word": "Hi"}, {"word": " there"}, {"why": "done", "in": 3, "out": 2})
CHAT = {"model": "acme-1", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.qa
def test_a_strangers_provider_serves_a_model(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(*WORDS)))
    response = post(gateway, "/v1/chat/completions", CHAT)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["choices"][0]["message"]["content"] == "Hi there"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (3, 2)
    (request,) = upstream.requests
    assert request.path == "/v2/chat"
    assert request.headers["authorization"] == "Bearer key-of-acme"
    assert KEY.encode() not in request.body


def test_a_strangers_provider_streams(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(*WORDS)))
    response = post(gateway, "/v1/chat/completions", {**CHAT, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")


def test_what_a_strangers_provider_drops_is_named(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(*WORDS)))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "Look"}, image]
    response = post(gateway, "/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": content}]})
    assert response.headers["x-gate-loss"] == "messages.0.content.1"


@pytest.mark.parametrize("model", ["local-chat", "acme-1"])
def test_a_strangers_format_reaches_every_provider(gateway: Gateway, upstream: Upstream, model: str) -> None:
    upstream.script(answer(sse(*WORDS)))
    response = post(gateway, "/plain/ask", {"model": model, "ask": "Say hello"})
    assert response.status_code == 200, response.text
    assert response.json()["answer"]


def test_errors_come_in_the_strangers_envelope(gateway: Gateway) -> None:
    response = post(gateway, "/plain/ask", {"model": "local-chat", "ask": 1})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "ask")
    response = post(gateway, "/plain/ask", {"model": "local-chat", "ask": "Hello", "seed": 1})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "seed")


def test_a_strangers_format_streams_and_ends_with_an_error_if_the_upstream_breaks_off(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.script(answer(sse(*WORDS)), answer(sse(*WORDS[:2])))
    body = {"model": "acme-1", "ask": "Hello", "stream": True}
    frames = sse({"word": "Hi"}, {"word": " there"}).replace(": ", ":").replace("data:", "data: ")
    response = post(gateway, "/plain/ask", body)
    assert response.text == frames + 'data: {"end":"stop"}\n\n'
    begun, _, end = post(gateway, "/plain/ask", body).text.rpartition("data: ")
    assert begun == frames
    assert set(json.loads(end)) == {"error"}


def test_a_strangers_wrapper_stands_around_every_provider(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(sse(*WORDS)))
    post(gateway, "/v1/chat/completions", CHAT)
    logs = gateway.stop()
    assert "upstream began after" in logs
    assert logs.count("first text after") == 1


@pytest.mark.qa
def test_the_example_of_a_test_passes(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_acme.py").write_text(
        find_example("from tornado_gate.testing import ProviderContract"), encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "pytest", "-q", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_a_provider_with_a_wire_format_of_its_own_costs_forty_lines() -> None:
    lines = [line for line in find_example("# tornado_gate_acme.py").splitlines() if line.strip()]
    assert len(lines) <= 40
