"""A gateway that records tapes of what an administrator or a rule selects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

ROOT = "key-of-root-0123456789"
ANN = "key-of-ann-0123456789"
UPSTREAM_KEY = "vendors-own-key-of-the-account-0123456789"
CHAT = {"model": "of-chat", "messages": [{"role": "user", "content": "Write to alice@example.com."}]}
CONF = """
plugins: {{openai: true, anthropic: true, local: true{plugins}}}
providers:
  chat: {{plugin: openai, base_url: "{url}/chat/v1", api_key: {key}, headers: {{x-account: secret-account-0123456789abcdef}}}}
  second: {{plugin: openai, base_url: "{url}/second/v1", api_key: {key}}}
  embedded: {{plugin: local}}
models:
  of-chat: {{provider: chat, model: gpt-4o}}
  of-second: {{provider: second, model: gpt-4o-mini}}
  both: {{provider: chat, model: gpt-4o, fallback: [of-second]}}
  recorded-by-rule: {{provider: chat, model: gpt-4o}}
  of-audio: {{provider: chat, model: whisper-1}}
  of-video: {{provider: chat, model: sora-2}}
  inside: {{provider: embedded, model: local-chat}}
videos: {{poll_seconds: 0.1}}
tapes: {{most: 5, tape_bytes: 8192, rules: [{{models: [recorded-*], keys: [ann]}}]}}
keys:
  - {{name: root, key: {root}, account: a, role: administrator}}
  - {{name: ann, key: {ann}, account: b}}
  - {{name: bob, key: key-of-bob-0123456789, account: b}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with tapes. `folder` has their files."""

    gateway: Gateway

    @property
    def folder(self) -> Path:
        return self.gateway.folder / "var" / "tapes"

    def send(self, body: Any, path: str = "/v1/chat/completions", key: str = ROOT, **headers: str) -> httpx.Response:
        sent = {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01", **headers}
        return httpx.post(self.gateway.url + path, json=body, headers=sent, timeout=30, trust_env=False)

    def record(self, body: Any, path: str = "/v1/chat/completions", **headers: str) -> tuple[httpx.Response, Path]:
        """Send a request with the header. Return the response and the file of its tape."""
        response = self.send(body, path, **{"x-gate-tape": "1", **headers})
        return response, self.wait_for_tape(response.headers["x-gate-tape"])

    def record_form(self, fields: dict[str, str], file: bytes, path: str) -> tuple[httpx.Response, Path]:
        """Send a form with a file and the header. Return the response and the file of its tape."""
        headers = {"authorization": f"Bearer {ROOT}", "x-gate-tape": "1"}
        files = {"file": ("a.wav", file, "audio/wav")}
        response = httpx.post(
            self.gateway.url + path, data=fields, files=files, headers=headers, timeout=30, trust_env=False
        )
        return response, self.wait_for_tape(response.headers["x-gate-tape"])

    def ask(self, path: str, method: str = "GET", key: str = ROOT) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.request(method, self.gateway.url + path, headers=headers, timeout=30, trust_env=False)

    def wait_for_tape(self, identity: str) -> Path:
        """Return the file of a tape, when the gateway has written it."""
        self.gateway.wait_for_log(f'"tape":"{identity}"')
        return self.folder / f"{identity}.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def start_site(upstream_url: str, folder: Path, plugins: str = "") -> Site:
    conf = CONF.format(url=upstream_url, plugins=plugins, root=ROOT, ann=ANN, key=UPSTREAM_KEY)
    return Site(Gateway.start(conf, folder))


@pytest.fixture(scope="module")
def site_process(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = start_site(upstream_process.url, tmp_path_factory.mktemp("tapes"))
    yield site
    site.gateway.stop()


@pytest.fixture
def site(site_process: Site, upstream: Upstream) -> Site:
    return site_process
