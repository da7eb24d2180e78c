"""Upstreams that are reached through a proxy and have a certificate of a private authority, in all lanes of a request.

The upstream is a second gateway with ``server.tls``. Its certificate is signed by itself, so only ``ca_file`` makes it trusted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.gateway import Gateway, run_command
from tests.support.proxies import ForwardProxy
from tests.support.tls import CertificateFiles

KEY = "test-key-of-callers-0123"
HEADERS = {"Authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
MODELS = ("local-chat", "local-image-1", "local-realtime")
UPSTREAM_CONF = f"""
server: {{tls: {{certificate: certificate.pem, key: key.pem}}}}
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models: {{{", ".join(f"{name}: {{provider: local}}" for name in MODELS)}}}
keys: [{{name: test, key: {KEY}}}]
"""
MESSAGES = [{"role": "user", "content": "Say hello"}]
CHAT = {"model": "through/local-chat", "messages": MESSAGES, "max_tokens": 8}
PASSWORD = "secret-of-the-proxy"


@dataclass(frozen=True)
class Stage:
    gateway: Gateway
    upstream: Gateway
    proxy: ForwardProxy

    def post(self, path: str, body: object) -> httpx.Response:
        return httpx.post(self.gateway.url + path, json=body, headers=HEADERS, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folders = [tmp_path_factory.mktemp(name) for name in ("upstream", "gateway")]
    CertificateFiles.write(folders[0])
    upstream = Gateway.start(UPSTREAM_CONF, folders[0])
    proxy = ForwardProxy(f"user:{PASSWORD}")
    (folders[1] / "ca.pem").write_bytes((folders[0] / "certificate.pem").read_bytes())
    gateway = Gateway.start(write_conf(upstream, proxy), folders[1], environment={"PROXY_PASSWORD": PASSWORD})
    yield Stage(gateway, upstream, proxy)
    for each in (gateway, upstream, proxy):
        each.stop()


def write_conf(upstream: Gateway, proxy: ForwardProxy) -> str:
    base_url = f"https://localhost:{upstream.url.rpartition(':')[2]}/v1"
    entry = f"{{plugin: openai, base_url: '{base_url}', api_key: {KEY}"
    address = f"127.0.0.1:{proxy.port}"
    return f"""
network: {{proxy: "http://user:${{PROXY_PASSWORD}}@{address}", ca_file: ca.pem}}
plugins: {{openai: true}}
providers:
  through: {entry}}}
  direct: {entry}, proxy: ""}}
  stranger: {entry}, ca_file: ""}}
  refused: {entry}, proxy: "http://user:wrong-password@{address}"}}
  absent: {entry}, proxy: "http://127.0.0.1:9"}}
models:
  "through/*": {{provider: through}}
  "direct/*": {{provider: direct}}
  "stranger/*": {{provider: stranger}}
  "refused/*": {{provider: refused}}
  "absent/*": {{provider: absent}}
keys: [{{name: test, key: {KEY}}}]
"""


def test_whole_responses_and_streams_come_through_in_the_verbatim_and_in_the_common_lane(stage: Stage) -> None:
    for path in ("/v1/chat/completions", "/v1/messages"):
        whole = stage.post(path, CHAT)
        assert whole.status_code == 200, whole.text
        streamed = stage.post(path, {**CHAT, "stream": True})
        assert streamed.headers["content-type"].startswith("text/event-stream"), streamed.text
        assert streamed.text.count("data: ") > 2


def test_images_come_through(stage: Stage) -> None:
    image = stage.post("/v1/images/generations", {"model": "through/local-image-1", "prompt": "a red square"})
    assert image.status_code == 200, image.text
    address = image.json()["data"][0]["url"]
    assert httpx.get(address, trust_env=False).content.startswith(b"\x89PNG")


def test_a_realtime_session_comes_through(stage: Stage) -> None:
    async def talk() -> str:
        url = stage.gateway.url.replace("http", "ws", 1) + "/v1/realtime?model=through/local-realtime"
        socket = await websocket_connect(HTTPRequest(url, headers=HEADERS))
        first = await socket.read_message()
        socket.close()
        return str(json.loads(first or "{}").get("type"))

    assert asyncio.run(talk()) == "session.created"
    stage.proxy.wait_for_line("CONNECT localhost:")


def test_an_entry_without_the_proxy_reaches_the_upstream_and_one_without_the_authority_does_not(stage: Stage) -> None:
    direct = stage.post("/v1/chat/completions", {**CHAT, "model": "direct/local-chat"})
    assert direct.status_code == 200, direct.text
    stranger = stage.post("/v1/chat/completions", {**CHAT, "model": "stranger/local-chat"})
    assert stranger.status_code == 502
    stage.gateway.wait_for_log("upstream 'stranger' failed: ConnectError: SSLCertVerificationError")


def test_a_proxy_that_refuses_the_login_or_does_not_exist_is_a_502_whose_reason_is_in_the_log(stage: Stage) -> None:
    for name, reason in (
        ("refused", "refused the gateway's user or password (status 407)"),
        ("absent", "ConnectError"),
    ):
        response = stage.post("/v1/chat/completions", {**CHAT, "model": f"{name}/local-chat"})
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unreachable"), response.text
        stage.gateway.wait_for_log(reason)
    assert PASSWORD not in stage.gateway.logs
    assert "wrong-password" not in stage.gateway.logs


def test_check_names_the_line_of_a_missing_file_and_of_a_wrong_address(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    conf = tmp_path / "gate.yaml"
    conf.write_text("""\
plugins: {openai: true}
network:
  proxy: socks5://user:hidden-password@proxy.example:1080
  no_proxy: "localhost, http://x"
  ca_file: missing.pem
providers:
  first:
    plugin: openai
    base_url: https://a.example
    ca_file: empty.pem
  second:
    plugin: openai
    base_url: https://b.example
    client_certificate: empty.pem
""")
    result = run_command("check", "--conf", str(conf))
    assert result.returncode == 1
    lines = [line.partition("gate.yaml:")[2] for line in result.stdout.splitlines() if "gate.yaml:" in line]
    starts = ["3: network.proxy: must be the address", "4: network.no_proxy.1: must be a host", "5: network.ca_file: "]
    starts += ["10: providers.first.ca_file: ", "14: providers.second.client_certificate: needs client_key"]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts, result.stdout
    assert "hidden-password" not in result.stdout + result.stderr
