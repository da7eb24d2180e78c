"""A real OpenID provider in the tests: npm `oidc-provider`, in a process of its own, and a browser that signs in there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from tests.support.node import FOLDER, NODE
from tests.support.process import Child

CLIENT_SECRET = "the-secret-of-the-client+/%"


class OidcProvider:
    """A provider on a port of this machine. `claims` of a login are read at each use; any password is right."""

    def __init__(self, folder: Path) -> None:
        self._claims = folder / "claims.json"
        self._claims.write_text("{}")
        self._port = 0
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before, with new keys."""
        command = [str(NODE), "oidc_provider.mjs", str(self._port), str(self._claims)]
        self._child = Child(command, folder=FOLDER)
        self.issuer = self._child.wait_for_line(r"^oidc-provider: (http://\S+)")[1]
        self._port = urlsplit(self.issuer).port or 0

    def stop(self) -> None:
        self._child.kill()

    def set_claims(self, login: str, **claims: Any) -> None:
        """What the provider says of somebody, beside `sub`, which is the login."""
        known = json.loads(self._claims.read_text())
        self._claims.write_text(json.dumps({**known, login: claims}))


class Browser:
    """A browser with cookies, which follows redirects step by step. It may have its own address."""

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.client = httpx.Client(trust_env=False, timeout=30, headers={"Accept": "text/html"})

    def get(self, address: str, **options: Any) -> httpx.Response:
        return self.client.get(urljoin(self.gateway, address), **options)

    def begin(self, **query: str) -> str:
        """Begin a sign-in at the gateway; returns the address at the provider."""
        response = self.get("/console/oidc/start", params=query)
        assert response.status_code == 303, response.text
        return response.headers["location"]

    def log_in(self, address: str, login: str) -> str:
        """Sign in at the provider and consent; returns the address of the gateway to which it sends the browser back."""
        while not address.startswith(self.gateway):
            response = self.client.get(address)
            if response.is_redirect:
                address = urljoin(address, response.headers["location"])
                continue
            assert response.status_code == 200, response.text
            prompt = "login" if 'name="login"' in response.text else "consent"
            form = re.search(r'action="([^"]+)"', response.text)
            assert form is not None, response.text
            fields = {"prompt": prompt, "login": login, "password": "any"}
            answer = self.client.post(urljoin(address, form[1]), data=fields)
            assert answer.is_redirect, answer.text
            address = urljoin(address, answer.headers["location"])
        return address

    def sign_in(self, login: str, **query: str) -> httpx.Response:
        """Sign in by the provider: the gateway's answer, a redirect to a page or to the sign-in page."""
        return self.get(self.log_in(self.begin(**query), login))

    def read_message(self, response: httpx.Response) -> str:
        """The text of the page to which a refused sign-in leads, or of the error for a response without an attempt."""
        if response.status_code == 400:
            message = re.search(r'<div class="card">\s*<p>([^<]*)</p>', response.text)
            assert message is not None, response.text
            return message[1]
        assert response.status_code == 303, response.text
        assert urlsplit(response.headers["location"]).path in ("/console/login", "/console/signup"), response.headers
        page = self.get(response.headers["location"])
        while page.is_redirect:
            page = self.get(page.headers["location"])
        found = re.search(r'<p class="notice warning"[^>]*>([^<]*)</p>', page.text)
        assert found is not None, page.text
        return found[1]

    def close(self) -> None:
        self.client.close()


def read_query(address: str) -> dict[str, str]:
    """The parameters of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
