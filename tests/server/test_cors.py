"""Web pages of other origins, with both HTTP servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.support.gates import KEY, FakeProvider, make_config, make_services
from tests.support.served import CHAT, error_of
from tornado_gate.config import FileFaults, load, model
from tornado_gate.config.model import CorsConfig
from tornado_gate.server.services import Services

APP = "https://app.example"
OTHER = "https://evil.example"
LISTED = CorsConfig(origins=frozenset({APP, "http://localhost:3000"}))
ANYBODY = CorsConfig(origins=frozenset({"*"}))
OFF = CorsConfig()


@pytest.fixture
def cors() -> CorsConfig:
    return LISTED


@pytest.fixture
def services(tmp_path: Path, fake: FakeProvider, io_loop: IOLoop, cors: CorsConfig) -> Iterator[Services]:
    server = model.ServerConfig(data_dir=tmp_path, access_log=False)
    services = make_services(tmp_path, make_config(tmp_path, cors=cors, server=server), fake=fake)
    io_loop.run_sync(services.start)
    yield services
    io_loop.run_sync(services.close)


def ask_first(ask: Any, path: str, origin: str = APP, **headers: str) -> Any:
    """A preflight request, which has no key."""
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-test"}
    given = {"Origin": origin, "Authorization": None, "Content-Type": None, **wanted, **headers}
    return ask(path, method="OPTIONS", headers=given)


@pytest.mark.gen_test
async def test_a_page_of_a_listed_origin_may_send_its_key_and_read_our_headers(ask: Any) -> None:
    first = await ask_first(ask, "/plain")
    assert (first.code, first.body) == (204, b"")
    assert first.headers["Access-Control-Allow-Origin"] == APP
    assert first.headers["Access-Control-Allow-Headers"] == "authorization,x-test"
    assert "POST" in first.headers["Access-Control-Allow-Methods"]
    assert first.headers["Access-Control-Max-Age"] == "600"
    for body, code in ((CHAT, 200), ({"model": "none", "ask": "x"}, 404), ({**CHAT, "stream": True}, 200)):
        response = await ask("/plain", body, headers={"Origin": APP.upper().replace("HTTPS", "https")})
        assert response.code == code
        assert response.headers["Access-Control-Allow-Origin"].lower() == APP
        assert response.headers["Vary"] == "Origin"
        exposed = response.headers["Access-Control-Expose-Headers"]
        assert all(name in exposed for name in ("x-request-id", "x-gate-provider", "x-ratelimit-reset-tokens"))
    refused = await ask("/plain", CHAT, headers={"Origin": APP, "Authorization": "Bearer wrong"})
    assert (refused.code, refused.headers["Access-Control-Allow-Origin"]) == (401, APP)


@pytest.mark.gen_test
async def test_a_page_of_another_origin_is_told_nothing(ask: Any) -> None:
    first = await ask_first(ask, "/plain", OTHER)
    assert (first.code, error_of(first)["code"]) == (403, "origin_not_allowed")
    for origin in (OTHER, "null", "https://app.example.evil.example", "https://app.example:8443", "http://app.example"):
        response = await ask("/plain", CHAT, headers={"Origin": origin})
        assert response.code == 200
        assert response.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Origin" not in response.headers
    assert (await ask("/plain", CHAT)).headers["Vary"] == "Origin"


@pytest.mark.gen_test
@pytest.mark.parametrize("cors", [LISTED, ANYBODY], ids=["listed", "anybody"])
async def test_console_administration_and_operator_pages_are_never_shared(ask: Any) -> None:
    paths = (
        "/admin/v1/keys",
        "/console/",
        "/console/login",
        "/metrics",
        "/healthz",
        "/readyz",
        "/docs",
        "/console/none",
    )
    for path in paths:
        first = await ask_first(ask, path)
        answer = await ask(path, headers={"Origin": APP, "Authorization": f"Bearer {KEY}"}, follow_redirects=False)
        for response in (first, answer):
            assert not [name for name in response.headers if name.lower().startswith("access-control-")], path
        assert first.code in (302, 401, 403, 404, 405), path


@pytest.mark.gen_test
@pytest.mark.parametrize("cors", [ANYBODY], ids=["anybody"])
async def test_with_a_star_every_origin_is_allowed_but_never_with_credentials(ask: Any) -> None:
    for response in (await ask_first(ask, "/plain", OTHER), await ask("/plain", CHAT, headers={"Origin": OTHER})):
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in response.headers
    description = await ask("/openapi.json", headers={"Origin": OTHER, "Authorization": None})
    assert description.headers["Access-Control-Allow-Origin"] == "*"
    missing = await ask("/media/none", headers={"Origin": OTHER, "Authorization": None})
    assert (missing.code, missing.headers["Access-Control-Allow-Origin"]) == (404, "*")


@pytest.mark.gen_test
async def test_odd_lists_of_headers_are_not_repeated(ask: Any) -> None:
    for names in ("a b", "x" * 3000, "<script>", "a,,b", '"a"'):
        response = await ask_first(ask, "/plain", **{"Access-Control-Request-Headers": names})
        assert response.code == 204
        assert "Access-Control-Allow-Headers" not in response.headers


@pytest.mark.gen_test
@pytest.mark.parametrize("cors", [OFF], ids=["off"])
async def test_without_origins_nothing_changes(ask: Any) -> None:
    assert (await ask_first(ask, "/plain")).code == 405
    response = await ask("/plain", CHAT, headers={"Origin": APP})
    assert not [name for name in response.headers if name.lower().startswith("access-control-") or name == "Vary"]


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://u@app.example", "*.app.example", "null"]
)
def test_what_is_no_origin_is_a_fault_of_conf(tmp_path: Path, origin: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(f"cors: {{origins: ['{origin}']}}\n")
    with pytest.raises(FileFaults, match="must be an origin without a path"):
        load(file, {})
