"""``server.tls``: the gateway serves HTTPS and WSS itself, and renews its certificate while it serves."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import openai
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.gateway import Gateway, run_command
from tests.support.tls import CertificateFiles
from tests.support.variants import vary

KEY = "test-key-of-callers-0123"
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models:
  local-chat: {{provider: local}}
  local-realtime: {{provider: local}}
keys: [{{name: test, key: {KEY}}}]
"""
TLS = "tls: {certificate: certificate.pem, key: key.pem}"
HEADERS = {"Authorization": f"Bearer {KEY}"}
BODY = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}], "max_tokens": 5}


class SecureGateway:
    """A gateway that serves HTTPS with a certificate in its folder."""

    def __init__(self, folder: Path, server: str = TLS) -> None:
        self.files = CertificateFiles.write(folder)
        self.gateway = Gateway.start(f"{CONF}server: {{{server}}}\n", folder)
        self.url = self.gateway.url

    def open_client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.files.trust(), trust_env=False, timeout=30, headers=HEADERS)

    def read_certificate(self) -> str:
        """Return the certificate that a new connection gets."""
        return ssl.get_server_certificate(("127.0.0.1", int(self.url.rpartition(":")[2])))

    def reload(self, line: str) -> None:
        """Send SIGHUP, and wait for the line in the log."""
        self.gateway.child.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for_log(line)


@pytest.fixture(scope="module", params=vary("loop: uvloop", "loop: asyncio", "http: tornado"))
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SecureGateway]:
    served = SecureGateway(tmp_path_factory.mktemp("tls"), f"{TLS}, host: 0.0.0.0, {request.param}")
    yield served
    served.gateway.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[SecureGateway]:
    served = SecureGateway(tmp_path)
    yield served
    served.gateway.stop()


def test_the_openai_sdk_gets_whole_responses_and_streams(served: SecureGateway) -> None:
    assert served.url.startswith("https://")
    with (
        httpx.Client(verify=served.files.trust(), trust_env=False) as transport,
        openai.OpenAI(base_url=served.url + "/v1", api_key=KEY, http_client=transport) as client,
    ):
        whole = client.chat.completions.create(model="local-chat", messages=[{"role": "user", "content": "hi"}])
        assert whole.choices[0].message.content
        stream = client.chat.completions.create(
            model="local-chat", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert list(stream)[-1].choices[0].finish_reason == "stop"


def test_links_and_cookies_are_for_https(served: SecureGateway) -> None:
    with served.open_client() as client:
        assert client.get("/readyz").status_code == 200
        cookies = client.get("/console/signup").headers.get_list("set-cookie")
        assert cookies
        assert all(cookie.startswith("__Host-") and "secure" in cookie.lower() for cookie in cookies)
    logs = served.gateway.wait_for_log(f"create the first account at {served.url}/console/signup")
    assert "without encryption" not in logs


def test_a_realtime_session_runs_over_wss(served: SecureGateway) -> None:
    url = served.url.replace("https", "wss") + "/v1/realtime?model=local-realtime"

    async def session() -> str | bytes | None:
        request = HTTPRequest(url, headers=HEADERS, ssl_options=served.files.trust())
        opened = await websocket_connect(request)
        event = await opened.read_message()
        opened.close()
        return event

    assert "session.created" in str(asyncio.run(session()))


def test_plain_http_gets_the_end_of_the_connection_and_the_gateway_continues(served: SecureGateway) -> None:
    with socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as plain:
        plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(60)
        with suppress(ConnectionResetError):  # only Tornado's server resets: OpenSSL has not read the whole request
            assert b"HTTP/" not in plain.recv(1000)
    with served.open_client() as client:
        assert client.get("/readyz").status_code == 200


def test_a_renewed_certificate_is_used_without_dropping_a_connection(own: SecureGateway) -> None:
    with own.open_client() as client:
        assert client.get("/readyz").status_code == 200
        own.files.renew("second")
        own.reload("the certificate was reloaded")
        assert own.read_certificate() == own.files.certificate.read_text()
        assert client.get("/readyz").status_code == 200
    assert own.gateway.logs.count("the certificate was reloaded") == 1


def test_a_faulty_renewal_is_reported_and_the_old_certificate_stays(own: SecureGateway) -> None:
    before = own.read_certificate()
    own.files.certificate.write_text("no certificate")
    own.reload("server.tls.certificate:")
    assert "the old one stays in force" in own.gateway.logs
    assert own.read_certificate() == before


@pytest.mark.qa
def test_a_change_of_the_files_is_noticed(own: SecureGateway) -> None:
    own.files.renew("second")
    own.gateway.wait_for_log("the certificate was reloaded")
    assert own.read_certificate() == own.files.certificate.read_text()


@pytest.mark.qa
def test_several_processes_serve_and_renew(tmp_path: Path) -> None:
    own = SecureGateway(tmp_path, f"{TLS}, processes: 2")
    for _ in range(8):
        with own.open_client() as client:
            assert client.post("/v1/chat/completions", json=BODY).status_code == 200
    own.files.renew("second")
    own.gateway.child.process.send_signal(signal.SIGHUP)
    own.gateway.wait_for_log("the certificate was reloaded", 2)
    assert {own.read_certificate() for _ in range(8)} == {own.files.certificate.read_text()}
    own.gateway.stop()


def check(folder: Path) -> str:
    conf = folder / "gate.yaml"
    conf.write_text(f"{CONF}server:\n  tls:\n    certificate: certificate.pem\n    key: key.pem\n", encoding="utf-8")
    checked = run_command("check", "--conf", str(conf))
    started = run_command("serve", "--conf", str(conf), "--port", "0", "--data-dir", str(folder / "var"))
    assert checked.returncode == started.returncode == 1
    line = next(line for line in checked.stdout.splitlines() if "server.tls" in line)
    assert line in started.stderr
    return line.removeprefix(str(conf))


def test_files_that_cannot_be_used_are_faults_of_the_start_and_of_check(tmp_path: Path) -> None:
    files = CertificateFiles.write(tmp_path)
    certificate = files.certificate.read_text()
    files.renew("second", passphrase=b"secret")
    assert ":11: server.tls.key: is encrypted; use a key without a passphrase" in check(tmp_path)
    files.renew("third")
    files.certificate.write_text(certificate)
    assert "is not the key of" in check(tmp_path)
    files.key.write_text("no key")
    assert "has no private key in PEM" in check(tmp_path)
    files.key.unlink()
    assert ":11: server.tls.key:" in check(tmp_path)
    files.certificate.write_text("no certificate")
    files.key.write_text("")
    assert ":10: server.tls.certificate:" in check(tmp_path)


def test_a_certificate_that_ends_soon_is_a_warning(tmp_path: Path) -> None:
    CertificateFiles.write(tmp_path, days=3)
    conf = tmp_path / "gate.yaml"
    conf.write_text(f"{CONF}server: {{{TLS}}}\n", encoding="utf-8")
    checked = run_command("check", "--conf", str(conf))
    assert checked.returncode == 0
    assert "is valid until" in checked.stderr + checked.stdout
