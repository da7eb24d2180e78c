"""Keys that are limited to addresses, behind a trusted proxy only, and to concurrent requests, at a real gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.gateway import Gateway

KEY = "test-key-of-addresses"
HERE, ELSEWHERE = "203.0.113.9", "198.51.100.1"
CONF = f"""
plugins: {{local: true}}
providers: {{local: {{plugin: local}}}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
  local-video: {{provider: local}}
  local-realtime: {{provider: local}}
server: {{trusted_proxies: [127.0.0.1]}}
keys:
  - {{name: far, key: far-{KEY}, addresses: ["203.0.113.0/24", "2001:db8::/32"]}}
  - {{name: near, key: near-{KEY}, addresses: [127.0.0.1]}}
  - {{name: any, key: any-{KEY}}}
  - {{name: one, key: one-{KEY}, concurrent_requests: 1}}
"""
CHAT = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/chat/completions?key=far-" + KEY, CHAT),
    ("POST", "/v1/responses", {"model": "local-chat", "input": "Hi"}),
    ("POST", "/v1/embeddings", {"model": "local-embed", "input": "Hi"}),
    ("POST", "/v1beta/models/local-chat:generateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}),
    ("POST", "/v1/videos", {"model": "local-video", "prompt": "a cat", "seconds": "1"}),
    ("POST", "/v1/realtime/client_secrets", {"session": {"type": "realtime", "model": "local-realtime"}}),
    ("POST", "/v1/_explain?route=/v1/chat/completions", CHAT),
    ("GET", "/v1/models", None),
    ("GET", "/v1/videos/video_unknown", None),
    ("DELETE", "/v1/conversations/conv_unknown", None),
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF, tmp_path_factory.mktemp("addresses"))
    yield started
    started.stop()


def send_request(
    gateway: Gateway, method: str, path: str, body: Any = None, *, key: str = "far", client: str = ""
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}-{KEY}"} | ({"x-forwarded-for": client} if client else {})
    return httpx.request(method, gateway.url + path, json=body, headers=headers, trust_env=False, timeout=60)


def is_refused(response: httpx.Response) -> bool:
    if response.status_code != 403:
        return False
    assert "address_not_allowed" in response.text or "PERMISSION_DENIED" in response.text, response.text
    assert "203.0.113.0" not in response.text, "the allowed addresses are nobody's business"
    return True


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=[f"{route[0]} {route[1]}" for route in ROUTES])
def test_every_route_refuses_another_address(gateway: Gateway, method: str, path: str, body: Any) -> None:
    assert is_refused(send_request(gateway, method, path, body, client=ELSEWHERE))
    assert not is_refused(send_request(gateway, method, path, body, client=HERE))


@pytest.mark.parametrize("client", ["2001:db8::7", "[2001:db8::7]:4711", "::ffff:203.0.113.9", "203.0.113.9:4711"])
def test_addresses_are_allowed_in_every_spelling(gateway: Gateway, client: str) -> None:
    assert send_request(gateway, "GET", "/v1/models", client=client).status_code == 200


@pytest.mark.parametrize("client", ["", "2001:db9::7", "203.0.114.9", f"{HERE}, {ELSEWHERE}", "nonsense"])
def test_what_a_client_invents_does_not_count(gateway: Gateway, client: str) -> None:
    assert is_refused(send_request(gateway, "GET", "/v1/models", client=client))


UNREADABLE = [
    {"forwarded": "for=unknown"},
    {"forwarded": "for=_hidden"},
    {"forwarded": ""},
    {"forwarded": "aaaa"},
    {"forwarded": "proto=https"},
    {"x-forwarded-for": ""},
    {"x-forwarded-for": "unknown"},
    {"x-forwarded-for": f"{HERE}, unknown"},
    {"x-forwarded-proto": "https"},
    {"x-forwarded-for": HERE, "forwarded": "for=127.0.0.1"},
    {"x-forwarded-for": "127.0.0.1", "forwarded": "for=unknown"},
    {"x-real-ip": HERE},
    {"via": "1.1 proxy"},
]


def test_a_caller_whom_the_proxy_does_not_name_matches_no_address(gateway: Gateway) -> None:
    """Not even the proxy's own, which the key `near` allows."""
    for headers in UNREADABLE:
        for key in ("near", "far"):
            given = headers | {"authorization": f"Bearer {key}-{KEY}"}
            response = httpx.get(gateway.url + "/v1/models", headers=given, trust_env=False, timeout=60)
            assert is_refused(response), (headers, key)
            assert "does not say yours" in response.text, headers
        given = headers | {"authorization": f"Bearer any-{KEY}"}
        assert httpx.get(gateway.url + "/v1/models", headers=given, trust_env=False, timeout=60).status_code == 200


def test_the_address_of_the_connection_counts_without_a_proxy_and_keys_without_addresses_work_anywhere(
    gateway: Gateway,
) -> None:
    assert send_request(gateway, "GET", "/v1/models", key="near").status_code == 200
    assert is_refused(send_request(gateway, "GET", "/v1/models", key="near", client=HERE))
    assert send_request(gateway, "GET", "/v1/models", key="any", client=ELSEWHERE).status_code == 200


async def open_socket(gateway: Gateway, path: str, key: str, client: str) -> int:
    """The status of a handshake."""
    headers = {"authorization": f"Bearer {key}", "x-forwarded-for": client}
    try:
        async with connect(gateway.url.replace("http", "ws") + path, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as error:
        assert b"address_not_allowed" in (error.response.body or b"")
        return error.response.status_code


@pytest.mark.parametrize("path", ["/v1/realtime?model=local-realtime", "/v1/responses"])
def test_sockets_are_refused_before_the_upgrade(gateway: Gateway, path: str) -> None:
    assert asyncio.run(open_socket(gateway, path, f"far-{KEY}", ELSEWHERE)) == 403
    assert asyncio.run(open_socket(gateway, path, f"far-{KEY}", HERE)) == 101


def test_a_client_secret_is_limited_to_the_addresses_of_its_key(gateway: Gateway) -> None:
    body = {"session": {"type": "realtime", "model": "local-realtime"}}
    made = send_request(gateway, "POST", "/v1/realtime/client_secrets", body, client=HERE)
    assert made.status_code == 200, made.text
    path = "/v1/realtime?model=local-realtime"
    assert asyncio.run(open_socket(gateway, path, made.json()["value"], ELSEWHERE)) == 403
    assert asyncio.run(open_socket(gateway, path, made.json()["value"], HERE)) == 101


def test_messages_on_an_open_socket_have_the_address_of_its_handshake(gateway: Gateway) -> None:
    async def respond() -> list[str]:
        headers = {"authorization": f"Bearer far-{KEY}", "x-forwarded-for": HERE}
        url = gateway.url.replace("http", "ws") + "/v1/responses"
        async with connect(url, additional_headers=headers, proxy=None) as client:
            await client.send(json.dumps({"type": "response.create", "model": "local-chat", "input": "Hi"}))
            types: list[str] = []
            while not types or types[-1] not in ("response.completed", "error"):
                types.append(json.loads(await client.recv())["type"])
            return types

    assert asyncio.run(respond())[-1] == "response.completed"


def test_a_realtime_session_is_a_concurrent_request_until_it_ends(gateway: Gateway) -> None:
    async def main() -> None:
        url = gateway.url.replace("http", "ws") + "/v1/realtime?model=local-realtime"
        headers = {"authorization": f"Bearer one-{KEY}"}
        async with connect(url, additional_headers=headers, proxy=None) as client:
            await client.recv()
            with pytest.raises(InvalidStatus) as caught:
                await connect(url, additional_headers=headers, proxy=None)
            assert caught.value.response.status_code == 429
            assert b"too_many_concurrent" in (caught.value.response.body or b"")
            refused = await asyncio.to_thread(send_request, gateway, "POST", "/v1/chat/completions", CHAT, key="one")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_concurrent")
            listed = await asyncio.to_thread(send_request, gateway, "GET", "/v1/models", key="one")
            assert listed.status_code == 200
        async with asyncio.timeout(60):
            arguments = (gateway, "POST", "/v1/chat/completions", CHAT)
            while (await asyncio.to_thread(send_request, *arguments, key="one")).is_error:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # the gateway learns of the end of a session a little later

    asyncio.run(main())
