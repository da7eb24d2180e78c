"""nginx and Caddy before two gateways with the configuration of the compose file, on a real PostgreSQL, Valkey and bucket."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from qa.deploy.reading import DEPLOY, read_gateway_environment
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.process import Child
from tests.support.s3 import BUCKET, KEY, S3, SECRET
from tests.support.upstream import DONE, Upstream, Wait, answer, sse
from tests.support.valkey import Valkey

ROOT_KEY = "key-of-the-administrator-0123"
UPLOAD_BYTES = 100 * 1024 * 1024
CLIENT = "127.0.0.2"
"""The address from which clients connect, to distinguish them from the front at 127.0.0.1."""


def find_program(name: str, package: str) -> str:
    """Return the path of a program. Raises SystemExit if it is not installed."""
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/sbin:/bin")
    if path is None:
        raise SystemExit(f"{name} is not installed: apt-get install {package}")
    return path


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def run_gateways(folder: Path) -> Iterator[tuple[list[Gateway], Upstream]]:
    """Run two gateways with the compose file's configuration and environment; only the addresses of the stores differ."""
    with ExitStack() as stack:
        postgres, valkey, bucket, upstream = PostgresServer(), Valkey(), S3(), Upstream.start()
        for stop in (postgres.stop, valkey.kill, bucket.kill, upstream.stop):
            stack.callback(stop)
        environment = read_gateway_environment("gateway-a")
        environment |= {
            "DATABASE_URL": postgres.create("gateway"),
            "LIMITS_STORE": valkey.url,
            "MEDIA_STORE": f"s3://{BUCKET}/files",
            "MEDIA_ENDPOINT": bucket.url,
            "MEDIA_KEY_ID": KEY,
            "MEDIA_KEY": SECRET,
            "ROOT_KEY": ROOT_KEY,
            "PROXY_NETWORK": "127.0.0.1/32",
            "OPENAI_API_KEY": "key-of-the-upstream",
            "OPENAI_BASE_URL": f"{upstream.url}/v1",
        }
        conf = (DEPLOY / "compose" / "gate.yaml").read_text(encoding="utf-8")
        conf = conf.replace(
            "\nmodels:\n", "\nmodels:\n  local-realtime: {provider: local}\n  local-image-1: {provider: local}\n"
        )
        conf = conf.replace("drain_delay: 5", "drain_delay: 0")
        gateways = []
        for name in ("a", "b"):
            own = folder / name
            own.mkdir(parents=True)
            gateways.append(Gateway.start(conf, own, "--host", "127.0.0.1", environment=environment))
            stack.callback(gateways[-1].stop)
        yield gateways, upstream


@contextmanager
def run_nginx(gateways: list[Gateway], folder: Path) -> Iterator[str]:
    """Run Debian's nginx with deploy/nginx.conf; only ports and names of the gateways are replaced."""
    nginx, port = find_program("nginx", "nginx-light"), find_free_port()
    text = _name_gateways((DEPLOY / "nginx.conf").read_text(encoding="utf-8"), gateways)
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "main.conf"
    main.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr warn; user root; worker_processes 1;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{text}\n}}\n"
    )
    check = Child([nginx, "-t", "-c", str(main)])
    check.wait_for_output("test is successful")
    child = Child([nginx, "-c", str(main)])
    try:
        yield _wait_for_front(f"http://127.0.0.1:{port}")
    finally:
        child.stop()


@contextmanager
def run_caddy(gateways: list[Gateway], folder: Path) -> Iterator[str]:
    """Run Debian's Caddy with deploy/Caddyfile, without TLS."""
    caddy, port = find_program("caddy", "caddy"), find_free_port()
    text = _name_gateways((DEPLOY / "Caddyfile").read_text(encoding="utf-8"), gateways)
    text = text.replace("gateway.example.org {", f"http://127.0.0.1:{port} {{\n\tbind 127.0.0.1")
    file = folder / "Caddyfile"
    file.write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{text}")
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    child = Child([caddy, "run", "--config", str(file), "--adapter", "caddyfile"], environment=environment)
    try:
        yield _wait_for_front(f"http://127.0.0.1:{port}")
    finally:
        child.stop()


def _name_gateways(text: str, gateways: list[Gateway]) -> str:
    for name, gateway in zip("ab", gateways, strict=True):
        text = text.replace(f"gateway-{name}:8080", gateway.url.removeprefix("http://"))
    return text


def _wait_for_front(url: str) -> str:
    transport = httpx.HTTPTransport(retries=8)
    with httpx.Client(transport=transport, timeout=10) as client:
        assert client.get(url + "/readyz").status_code == 200
    return url


def check_front(url: str, gateways: list[Gateway], upstream: Upstream) -> None:
    """Check streams, WebSockets, an upload, the client's address and files of both gateways through a front."""
    transport = httpx.HTTPTransport(local_address=CLIENT)
    headers = {"Authorization": f"Bearer {ROOT_KEY}"}
    with httpx.Client(base_url=url, headers=headers, timeout=120, transport=transport) as client:
        _check_stream(client, upstream)
        _check_upload(client, upstream)
        _check_files(client)
        assert client.get("/metrics").status_code == 404
        asyncio.run(_check_websocket(url))
        _check_address(client, gateways)


def _check_stream(client: httpx.Client, upstream: Upstream) -> None:
    """Check that each event arrives before the upstream is told to send the next one."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [{**chunk, "choices": [{"index": 0, "delta": {"content": f"word{i}"}}]} for i in range(3)]
    last = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    upstream.reset()
    upstream.script(answer(sse(events[0]), Wait("one"), sse(events[1]), Wait("two"), sse(events[2], last, DONE)))
    body = {"model": "openai/m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200, response.read()
        lines = response.iter_lines()
        for word, release in (("word0", "one"), ("word1", "two"), ("word2", "")):
            assert any(word in line for line in lines), word
            if release:
                upstream.tell(release)


def _check_upload(client: httpx.Client, upstream: Upstream) -> None:
    upstream.reset()
    upstream.script(answer('{"text": "said"}'))
    files = {"file": ("long.wav", b"RIFF" + bytes(UPLOAD_BYTES), "audio/wav")}
    response = client.post("/v1/audio/transcriptions", data={"model": "openai/whisper-1"}, files=files)
    assert response.status_code == 200, response.text


def _check_address(client: httpx.Client, gateways: list[Gateway]) -> None:
    """Check that the gateway knows the client, whatever the client claims."""
    request_id = "request-of-a-forger-1"
    forged = {"X-Forwarded-For": "8.8.8.8", "Forwarded": "for=8.8.4.4", "x-request-id": request_id}
    response = client.get("/v1/models", headers=forged)
    assert response.status_code == 200, response.text
    for gateway in gateways:
        gateway.stop()  # writes all lines
    lines = [line for gateway in gateways for line in gateway.logs.splitlines() if request_id in line]
    assert len(lines) == 1, lines
    assert json.loads(lines[0])["client"] == CLIENT, lines


def _check_files(client: httpx.Client) -> None:
    """Check that an image is served whichever gateway made it, at an address of the front."""
    made = client.post("/v1/images/generations", json={"model": "local-image-1", "prompt": "a red square"})
    assert made.status_code == 200, made.text
    path = re.sub(r"^https?://[^/]+", "", made.json()["data"][0]["url"])
    assert [client.get(path).content[:4] for _ in range(4)] == [b"\x89PNG"] * 4


async def _check_websocket(url: str) -> None:
    address = url.replace("http", "ws", 1) + "/v1/realtime?model=local-realtime"
    socket_ = await websocket_connect(HTTPRequest(address, headers={"Authorization": f"Bearer {ROOT_KEY}"}))
    assert "session.created" in str(await socket_.read_message())
    socket_.close()
