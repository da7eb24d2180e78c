"""The console over HTTP with four people: one fixture for a file of tests, its server in the test's own thread."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from tests.support.people import ADDRESS, PASSWORD, sign_up_first
from tornado_gate import config as conf
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor, User
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.config.model import Config
from tornado_gate.ledger.details import render_details
from tornado_gate.ledger.rows import RequestRow, make_row_id
from tornado_gate.ledger.writing import COLUMNS, write_rows
from tornado_gate.plugins.host import PluginHost
from tornado_gate.server.app import make_app, make_services
from tornado_gate.server.services import Services
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types.value import replace

CONF = """\
plugins:
  local: true    # the demonstration
providers:
  local: {plugin: local, api_key: sk-secret-of-the-provider}
models:
  local-chat: {provider: local, display_name: A demonstration}
  smart:
    targets:
      - {provider: local, model: local-chat, weight: 3}
      - {provider: local, model: local-embed, weight: 0}
    fallback: [local-chat]
  "local/*": {provider: local}
"""
TOKEN = "00112233445566778899aabbccddeeff"
"""The token of forms, which the tests choose as a browser does."""

IDLE_SECONDS = 3600.0
"""The event loop rests between requests, which the watchdog of plugins must not take for a plugin that blocks it."""

ROW: dict[str, Any] = {
    "key": "key_unknown",
    "key_name": "laptop",
    "account": "a",
    "model": "local-chat",
    "upstream_model": "local-chat",
    "provider": "local",
    "plugin": "local",
    "operation": "chat",
    "format": "format-openai",
    "status": 504,
    "error_code": "upstream_timeout",
    "outcome": "failed",
    "total_ms": 60012.3,
    "attempts": 2,
}
"""A request that has failed."""


class AdminConsole:
    """`people` are anonymous, disabled, member, lead (administrator of the team `team`) and administrator, by name."""

    def __init__(self, services: Services, runner: asyncio.Runner, url: str, file: Path) -> None:
        self.services = services
        self.runner = runner
        self.url = url
        self.file = file
        self.cookies: dict[str, str] = {"anonymous": ""}
        self.users: dict[str, User] = {}
        self._make_people()

    def _make_people(self) -> None:
        accounts = self.services.accounts
        self.cookies["administrator"], session = sign_up_first(accounts)
        self.users["administrator"] = session.user
        for name in ("lead", "member", "disabled"):
            self.add_person(name)
        accounts.users.set_state(self.users["disabled"].id, "disabled", self.actor)
        self.organisation = accounts.organisations.create("Science", self.actor)
        self.team = accounts.teams.create(self.organisation.id, "Physics", self.actor)
        self.other_team = accounts.teams.create(self.organisation.id, "Biology", self.actor)
        accounts.members.set_role(self.team.id, self.users["lead"].id, "administrator", self.actor)
        accounts.members.set_role(self.team.id, self.users["member"].id, "member", self.actor)

    def add_person(self, name: str) -> User:
        """A member with an e-mail that begins so, and a session."""
        cookie, session = self.services.accounts.sign_up.create_account(
            f"{name}@example.org", PASSWORD, policy="open", address=ADDRESS, agent="test"
        )
        self.cookies[name], self.users[name] = cookie, session.user
        return session.user

    def add_request(self, request_id: str, **values: Any) -> str:
        """Write a row of the ledger; returns its id."""
        moment = values.pop("moment", time.time())
        row = RequestRow(
            id=make_row_id(round(moment * 1e6)),
            moment=moment,
            request_id=request_id,
            **{**ROW, "user": self.users["member"].id, "team": self.team.id, **values},
        )
        stored = {
            **msgspec.structs.asdict(row),
            "tags": json.dumps(row.tags),
            "details": render_details(msgspec.structs.asdict(row)),
        }
        write_rows(self.services.database, [tuple(stored[name] for name in COLUMNS)], may_repeat=True)
        return row.id

    @property
    def actor(self) -> Actor:
        return make_actor(self.users["administrator"])

    def send(
        self, method: str, path: str, who: str = "administrator", form: Mapping[str, Any] | None = None, **headers: str
    ) -> HTTPResponse:
        """The response; redirects are not followed. A form has the token that its cookie has."""
        cookies = {"gate_session": self.cookies[who], "gate_xsrf": TOKEN}
        sent = {
            "Accept": "text/html",
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items() if value),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        body = None
        if form is not None:
            body = urlencode({"_xsrf": TOKEN, **form}, doseq=True, errors="surrogatepass")
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        request = HTTPRequest(
            self.url + path, method, sent, body, follow_redirects=False, allow_nonstandard_methods=True
        )
        return self.runner.run(self._fetch(request))

    async def _fetch(self, request: HTTPRequest) -> HTTPResponse:
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    def get(self, path: str, who: str = "administrator") -> str:
        """The text of a page, whose status must be 200."""
        response = self.send("GET", path, who)
        assert response.code == 200, (path, response.code, response.body[-2000:])
        return response.body.decode()

    def post(self, path: str, who: str = "administrator", **form: Any) -> HTTPResponse:
        return self.send("POST", path, who, form)


@contextmanager
def serve_console(folder: Path, address: str = "", **changes: Any) -> Iterator[AdminConsole]:
    """Serve the console with CONF as its file. `address`: of a database; `changes` are fields of the configuration."""
    file = folder / "gate.yaml"
    file.write_text(CONF, encoding="utf-8")
    config: Config = replace(
        conf.load(file, {}, {"data_dir": str(folder / "var"), "hook_seconds": IDLE_SECONDS}), **changes
    )
    with asyncio.Runner() as runner:
        services = make_services(config, PluginHost(), KeyStore.open(config.server.data_dir, address), Metrics())
        [listening] = bind_sockets(0, "127.0.0.1")

        async def start() -> HTTPServer:
            await services.start()
            server = HTTPServer(make_app(services))
            server.add_socket(listening)
            return server

        server = runner.run(start())
        yield AdminConsole(services, runner, f"http://127.0.0.1:{listening.getsockname()[1]}", file)

        async def stop() -> None:
            server.stop()
            await server.close_all_connections()
            await services.close()

        runner.run(stop())
