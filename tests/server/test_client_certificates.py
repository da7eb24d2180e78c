"""Upstreams that demand a certificate of the gateway (mutual TLS), over a real TLS server."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import completion
from tests.support.tls import CertificateFiles

KEY = "test-key-of-callers-0123"
NAMES = ("known", "stranger", "none")


class Upstream(BaseHTTPRequestHandler):
    """It answers every request, so that only the handshake decides."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = completion("Hello").encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client without a certificate is expected."""


@pytest.fixture(scope="module", params=["TLSv1_2", "TLSv1_3"])
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("mutual")
    files = {}
    for name in ("server", *NAMES[:2]):
        (folder / name).mkdir()
        files[name] = CertificateFiles.write(folder / name, name)
    context = files["server"].make_server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files["known"].certificate)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[request.param]
    server = QuietServer(("127.0.0.1", 0), Upstream)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    gateway = Gateway.start(write_conf(server.server_port), folder)
    yield gateway
    gateway.stop()
    server.shutdown()
    server.server_close()


def write_conf(port: int) -> str:
    entry = f"plugin: openai, base_url: 'https://localhost:{port}/v1', api_key: k, ca_file: server/certificate.pem"
    shown = "client_certificate: {0}/certificate.pem, client_key: {0}/key.pem"
    lines = [f"  {name}: {{{entry}, {shown.format(name)}}}" for name in NAMES[:2]]
    models = [f"  {name}-gpt: {{provider: {name}, model: gpt-4o}}" for name in NAMES]
    return "\n".join(
        [
            *("plugins: {openai: true}", "providers:", *lines, f"  none: {{{entry}}}", "models:", *models),
            f"keys: [{{name: test, key: {KEY}}}]",
        ]
    )


def ask(gateway: Gateway, model: str) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)


def test_an_upstream_that_demands_a_certificate_gets_that_of_the_entry(gateway: Gateway) -> None:
    response = ask(gateway, "known-gpt")
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("name", NAMES[1:])
def test_without_a_certificate_that_the_upstream_accepts_the_log_names_the_keys_to_set(
    gateway: Gateway, name: str
) -> None:
    response = ask(gateway, f"{name}-gpt")
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_unreachable"), response.text
    log = gateway.wait_for_log(f"upstream '{name}' failed: ")
    line = next(line for line in log.splitlines() if f"upstream '{name}' failed: " in line)
    assert "check client_certificate and client_key" in line, line
    assert "localhost" not in response.text
