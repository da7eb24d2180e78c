"""A console inside the test process, and a browser without scripts: it keeps cookies and fills in forms."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from tornado.httpclient import AsyncHTTPClient, HTTPResponse

from tornado_gate.server.services import Services

PASSWORD = "correct horse battery"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_TOKEN = re.compile(r'name="_xsrf" value="([^"]+)"')


class Page:
    """An answer of the console."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.code
        self.headers = response.headers
        self.html = response.body.decode()

    @property
    def text(self) -> str:
        """The page without markup, with single spaces."""
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", self.html)).split())

    def find(self, pattern: str) -> str:
        """The first group of a regular expression in the page's HTML, decoded."""
        found = re.search(pattern, self.html, re.DOTALL)
        assert found is not None, f"{pattern} is not in {self.html}"
        return html.unescape(found[1])


class Visitor:
    """One browser. `send` is its only way to the server; `cookies` is what it has been given."""

    def __init__(self, client: AsyncHTTPClient, base_url: str, services: Services, address: str = "") -> None:
        self._client = client
        self._base_url = base_url
        self.services = services
        self.address = address
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    async def send(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str | None] | None = None
    ) -> Page:
        """The answer, without following redirects. A header that is None is not sent."""
        given: dict[str, str | None] = {
            "User-Agent": AGENT,
            "Accept": "text/html",
            "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()) or None,
            "X-Forwarded-For": self.address or None,
            "Content-Type": "application/x-www-form-urlencoded" if body is not None else None,
            **(headers or {}),
        }
        response = await self._client.fetch(
            self._base_url + path,
            method=method,
            body=body,
            headers={name: value for name, value in given.items() if value is not None},
            follow_redirects=False,
            raise_error=False,
            allow_nonstandard_methods=True,
        )
        self.set_cookies = response.headers.get_list("Set-Cookie")
        for line in self.set_cookies:
            for name, morsel in SimpleCookie(line).items():
                if morsel.value:
                    self.cookies[name] = morsel.value
                else:
                    self.cookies.pop(name, None)
        return Page(response)

    async def get(self, path: str, **headers: str) -> Page:
        return await self.send("GET", path, headers=headers)

    async def post(
        self, path: str, fields: Mapping[str, Any] | None = None, headers: Mapping[str, str | None] | None = None
    ) -> Page:
        """Send a form with the token of forms, which a page is asked for first if there is none."""
        if "gate_xsrf" not in self.cookies:
            await self.get("/console/signup")
        data = {"_xsrf": self.cookies.get("gate_xsrf", ""), **(fields or {})}
        return await self.send("POST", path, urlencode(data, doseq=True), headers)

    async def sign_up(self, email: str, password: str = PASSWORD) -> Page:
        """Make an account: the first one with the set-up token, which makes it the administrator."""
        token = self.services.accounts.setup.make_token()
        fields = {"email": email, "password": password, "setup_token": token or ""}
        page = await self.post("/console/signup", fields)
        assert page.status == 303, page.text
        return page

    async def sign_in(self, email: str, password: str = PASSWORD) -> Page:
        return await self.post("/console/login", {"email": email, "password": password})

    async def create_key(self, name: str, **fields: Any) -> str:
        """Create a key by the form; returns its text."""
        page = await self.post("/console/keys", {"name": name, **fields})
        assert page.status == 200, page.text
        return page.find(r'<code id="new-key">(tg-[\w-]{43})</code>')


Visit = Callable[..., Visitor]
