"""What other machines get to see: metrics, addresses of upstreams, forwarded addresses, weak keys. The installed command."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.gateway import Gateway, run_command
from tests.support.process import ChildFailed
from tests.support.variants import vary

KEY = "test-key-of-exposure"
ADMIN = "test-key-of-an-administrator"
OF_TEAM = "test-key-of-a-team-administrator"
TOKEN = "test-token-of-metrics"
CONF = """
server: {{{server}}}
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  up: {{plugin: openai, base_url: "{url}", api_key: sk-0123456789abcdef}}
models:
  local-image-1: {{provider: local}}
  local-realtime: {{provider: local}}
  gpt-4o: {{provider: up}}
keys:
  - {{name: test, key: {key}}}
  - {{name: root, key: {admin}, role: administrator}}
  - {{name: crew, key: {of_team}, role: administrator, team: crew}}
"""

StartGateway = Callable[..., Gateway]


def make_conf(server: str = "", url: str = "http://10.1.2.3:9/v1", key: str = KEY) -> str:
    return CONF.format(server=server, url=url, key=key, admin=ADMIN, of_team=OF_TEAM)


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False, timeout=30)


def local(gateway: Gateway) -> str:
    """The address that a gateway prints which listens on all interfaces: this machine reaches it."""
    assert gateway.url.startswith("http://127.0.0.1:")
    return gateway.url


def error_code(response: httpx.Response) -> str:
    return str(response.json()["error"]["code"])


# Metrics


FROM_ELSEWHERE = [
    {"X-Forwarded-For": "1.1.1.1"},
    {"X-Forwarded-For": ""},
    {"Forwarded": "for=1.1.1.1"},
    {"Forwarded": ""},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "gate.example"},
    {"X-Forwarded-Port": "443"},
    {"X-Forwarded-Client-Cert": "Hash=1"},
    {"X_Forwarded_For": "1.1.1.1"},
    {"X-Real-IP": "1.1.1.1"},
    {"X-Real-IP": ""},
    {"Via": "1.1 proxy"},
    {"True-Client-IP": "1.1.1.1"},
    {"CF-Connecting-IP": "1.1.1.1"},
    {"CF-Ray": "1"},
    {"X-Client-IP": "1.1.1.1"},
    {"X-Cluster-Client-IP": "1.1.1.1"},
    {"Client-IP": "1.1.1.1"},
    {"Fastly-Client-IP": "1.1.1.1"},
    {"Fly-Client-IP": "1.1.1.1"},
    {"X-Azure-ClientIP": "1.1.1.1"},
    {"X-Envoy-External-Address": "1.1.1.1"},
    {"X-Original-For": "1.1.1.1"},
    {"X-Original-Forwarded-For": "1.1.1.1"},
    {"X-Original-Host": "gate.example"},
    {"X-ProxyUser-IP": "1.1.1.1"},
    {"WL-Proxy-Client-IP": "1.1.1.1"},
    {"Proxy-Connection": "keep-alive"},
    {"X-Remote-Addr": "1.1.1.1"},
    {"Host": "rebound.example"},
    {"Host": "rebound.example:8080"},
    {"Host": "127.0.0.1.rebound.example"},
    {"Host": "localhost.rebound.example"},
    {"Host": "gate.example"},  # server.public_url: a proxy may keep the Host of its visitors
    {"Host": "192.0.2.1"},
    {"Host": "0.0.0.0"},
]


@pytest.mark.parametrize("http", vary("httptools", "tornado"))
def test_metrics_are_open_to_this_machine_only(start_gateway: StartGateway, http: str) -> None:
    """Any sign of a proxy, or a name that is not of this machine, counts as from elsewhere."""
    gateway = start_gateway(make_conf(f"http: {http}, public_url: https://gate.example"))
    port = gateway.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "127.0.0.2", f"[::1]:{port}"):
        assert get(gateway.url + "/metrics", Host=host).status_code == 200, host
    for headers in FROM_ELSEWHERE:
        refused = get(gateway.url + "/metrics", **headers)
        assert (refused.status_code, error_code(refused)) == (404, "metrics_off"), headers
    assert get(gateway.url + "/metrics", traceparent="00-1-1-00", **{"X-Request-Id": "scrape"}).status_code == 200
    head = b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"  # what nginx sends unless it is told otherwise
    with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as connection:
        connection.sendall(head)
        assert connection.makefile("rb").readline().split()[1] == b"404"


def test_metrics_are_off_where_other_machines_reach_the_port(start_gateway: StartGateway) -> None:
    gateway = start_gateway(make_conf(), "--host", "0.0.0.0")
    refused = get(local(gateway) + "/metrics")
    assert (refused.status_code, error_code(refused)) == (404, "metrics_off")
    for key in ("server.metrics_token", "server.metrics_port", "server.metrics_host"):
        assert key in refused.json()["error"]["message"]
    assert get(local(gateway) + "/healthz").status_code == 200
    assert get(local(gateway) + "/readyz").status_code == 200
    assert "over HTTP without encryption" in gateway.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_metrics_with_a_token_need_the_token(start_gateway: StartGateway, host: str) -> None:
    gateway = start_gateway(make_conf(f"metrics_token: {TOKEN}"), "--host", host)
    for value in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {KEY}", f"Bearer {TOKEN}x"):
        refused = get(local(gateway) + "/metrics", Authorization=value)
        assert (refused.status_code, error_code(refused)) == (401, "invalid_metrics_token"), value
        assert "server.metrics_token" in refused.json()["error"]["message"]
    assert get(local(gateway) + "/metrics", Authorization=f"Bearer {TOKEN}").status_code == 200
    assert TOKEN not in gateway.stop()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_port_for_metrics_is_on_loopback_although_the_gateway_is_not(start_gateway: StartGateway) -> None:
    port = free_port()
    gateway = start_gateway(make_conf(f"metrics_port: {port}"), "--host", "0.0.0.0")
    assert get(f"http://127.0.0.1:{port}/metrics").status_code == 200
    assert get(local(gateway) + "/metrics").status_code == 404
    listeners = Path("/proc/net/tcp").read_text(encoding="ascii")
    assert re.search(rf" 0100007F:{port:04X} 00000000:0000 0A ", listeners)
    assert not re.search(rf" 00000000:{port:04X} 00000000:0000 0A ", listeners)


@pytest.mark.qa
def test_a_reload_does_not_open_metrics_of_a_gateway_that_listens_elsewhere(start_gateway: StartGateway) -> None:
    """The address that it listens on does not change, so neither do the rules that follow from it."""
    gateway = start_gateway(make_conf('host: "0.0.0.0"'))
    file = gateway.folder / "gate.yaml"
    file.write_text(make_conf("host: 127.0.0.1"), encoding="utf-8")
    gateway.child.wait_for_line(r"restart the gateway to apply changed settings: server.host")
    gateway.child.wait_for_line(r"configuration 2 is in force")
    assert get(local(gateway) + "/metrics").status_code == 404
    file.write_text(make_conf("host: 127.0.0.1", key="short"), encoding="utf-8")
    gateway.child.wait_for_line(r"not reloaded: .*keys.0.key: has fewer than 16 characters")


# Addresses of upstreams


@pytest.fixture(scope="module")
def explaining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(make_conf(), tmp_path_factory.mktemp("explaining"))
    yield gateway
    gateway.stop()


def explain(gateway: Gateway, key: str, route: str, body: dict[str, Any]) -> httpx.Response:
    url = f"{gateway.url}/v1/_explain?route={route}"
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(url, json=body, headers=headers, trust_env=False, timeout=30)


EXPLAINED = {
    "/v1/chat/completions": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/embeddings": {"model": "gpt-4o", "input": "Hi"},
    "/v1/images/generations": {"model": "gpt-4o", "prompt": "Hi"},
}


@pytest.mark.parametrize("route", list(EXPLAINED))
def test_only_an_unlimited_administrator_sees_the_address_of_an_upstream(explaining: Gateway, route: str) -> None:
    told = explain(explaining, KEY, route, EXPLAINED[route])
    assert "10.1.2.3" not in told.text
    assert "10.1.2.3" not in explain(explaining, OF_TEAM, route, EXPLAINED[route]).text
    shown = explain(explaining, ADMIN, route, EXPLAINED[route])
    if told.status_code == 200:
        assert told.json()["target"] == {"provider": "up", "model": "gpt-4o"}
        assert shown.json()["upstream"]["url"].startswith("http://10.1.2.3:9/v1/")
        without = {name: value for name, value in shown.json()["upstream"].items() if name != "url"}
        assert told.json()["upstream"] == without
    else:
        assert shown.status_code == told.status_code


# Proxies


@pytest.fixture(scope="module", params=vary("httptools", "tornado"))
def behind_proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = make_conf(f"http: {request.param}, trusted_proxies: [127.0.0.1/32, 10.0.0.0/8]")
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("proxy"))
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module", params=vary("httptools", "tornado"))
def without_proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = make_conf(f"http: {request.param}, trusted_proxies: [10.0.0.0/8]")
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("no-proxy"))
    yield gateway
    gateway.stop()


FORWARDED = {
    "X-Forwarded-For": "1.1.1.1, 198.51.100.7, 10.0.0.5",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "api.example",
}


def make_picture(gateway: Gateway, headers: Mapping[str, str]) -> tuple[str, str]:
    """(the address of a picture that the gateway gives, the client address in the access log of the request)."""
    body = {"model": "local-image-1", "prompt": "a dot", "size": "256x256"}
    name = f"picture-{os.urandom(4).hex()}"
    headers = {"Authorization": f"Bearer {KEY}", "X-Request-Id": name, **headers}
    made = httpx.post(gateway.url + "/v1/images/generations", json=body, headers=headers, trust_env=False, timeout=60)
    assert made.status_code == 200, made.text
    line = gateway.child.wait_for_line(rf'"request_id":"{name}".*"client":"([^"]*)"')
    return made.json()["data"][0]["url"], line[1]


def test_a_trusted_proxy_is_believed(behind_proxy: Gateway) -> None:
    url, client = make_picture(behind_proxy, FORWARDED)
    assert url.startswith("https://api.example/")
    assert client == "198.51.100.7"


UNREADABLE = [
    {"Forwarded": "for=unknown"},
    {"Forwarded": "for=_hidden;proto=https"},
    {"Forwarded": ""},
    {"Forwarded": 'for="'},
    {"X-Forwarded-For": ""},
    {"X-Forwarded-For": "unknown"},
    {"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=127.0.0.1"},
    {"X-Real-IP": "198.51.100.7"},
]


def test_a_caller_whom_a_trusted_proxy_does_not_name_is_logged_as_unknown(behind_proxy: Gateway) -> None:
    for number, headers in enumerate(UNREADABLE):
        name = f"unnamed-{number}"
        get(behind_proxy.url + "/nowhere", **headers, **{"X-Request-Id": name})
        line = behind_proxy.child.wait_for_line(rf'"request_id":"{name}".*"client":"([^"]*)"')
        assert line[1] == "unknown", headers


def test_a_stranger_is_not_believed(without_proxy: Gateway) -> None:
    url, client = make_picture(without_proxy, FORWARDED)
    assert url.startswith(without_proxy.url + "/")
    assert client == "127.0.0.1"


def test_errors_and_pages_without_a_key_have_the_address_of_the_caller_too(behind_proxy: Gateway) -> None:
    get(behind_proxy.url + "/nowhere", **FORWARDED, **{"X-Request-Id": "nowhere-1"})
    line = behind_proxy.child.wait_for_line(r'"request_id":"nowhere-1".*"client":"([^"]*)"')
    assert line[1] == "198.51.100.7"


def test_a_realtime_session_is_logged_with_the_address_of_the_caller(behind_proxy: Gateway) -> None:
    """Its line is written at its end, when the headers of the handshake are gone."""

    async def open_and_close() -> None:
        headers = {"Authorization": f"Bearer {KEY}", "X-Request-Id": "session-1", **FORWARDED}
        url = behind_proxy.url.replace("http:", "ws:") + "/v1/realtime?model=local-realtime"
        session = await websocket_connect(HTTPRequest(url, headers=headers))
        assert await session.read_message() is not None
        session.close()
        while await session.read_message() is not None:
            pass

    asyncio.run(open_and_close())
    line = behind_proxy.child.wait_for_line(r'"request_id":"session-1".*"client":"([^"]*)"')
    assert line[1] == "198.51.100.7"


def test_the_public_url_wins(start_gateway: StartGateway) -> None:
    gateway = start_gateway(make_conf("trusted_proxies: [127.0.0.1], public_url: https://gate.example/"))
    assert make_picture(gateway, FORWARDED)[0].startswith("https://gate.example/")


# Weak keys


@pytest.mark.parametrize("key", ["k", "a" * 15])
def test_a_short_key_is_refused_off_loopback_and_warned_about_on_it(start_gateway: StartGateway, key: str) -> None:
    conf = make_conf(key=key)
    assert "keys.0.key: has fewer than 16 characters" in start_gateway(conf).stop()
    with pytest.raises(ChildFailed, match=r"gate\.yaml:\d+: keys\.0\.key: has fewer than 16 characters"):
        start_gateway(conf, "--host", "0.0.0.0")


def check(tmp_path: Path, conf: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "gate.yaml"
    file.write_text(conf, encoding="utf-8")
    return run_command("check", "--conf", str(file))


@pytest.mark.qa
def test_check_tells_what_is_exposed(tmp_path: Path) -> None:
    exposed = check(tmp_path, make_conf('host: "0.0.0.0", metrics_port: 9090, metrics_host: "::"'))
    assert exposed.returncode == 0
    assert "warning: " in exposed.stdout
    assert "server.host: other machines reach 0.0.0.0 over HTTP" in exposed.stdout
    assert "server.metrics_host: other machines can read /metrics" in exposed.stdout
    assert check(tmp_path, make_conf('host: "0.0.0.0"', key="k")).returncode == 1
    assert "warning" not in check(tmp_path, make_conf()).stdout
