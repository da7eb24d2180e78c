"""Who may create the first account: whoever has the set-up token, and a browser on the gateway's own machine."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPResponse

from tornado_gate.server.services import Services

PASSWORD = "correct horse battery"
BEHIND_A_PROXY = [
    {"X-Forwarded-For": "203.0.113.9"},
    {"X-Real-IP": "203.0.113.9"},
    {"Via": "1.1 proxy"},
    {"X-Forwarded-For": ""},
    {"X-Real-IP": ""},
    {"Forwarded": ""},
    {"True-Client-IP": "203.0.113.9"},
    {"X-Forwarded-Port": "443"},
    {"X-Client-IP": "203.0.113.9"},
    {"X-Original-Host": "gate.example"},
    {"Host": "gate.example"},
    {"Host": "127.0.0.1.gate.example"},
]


async def fetch(client: AsyncHTTPClient, url: str, **given: Any) -> HTTPResponse:
    return await client.fetch(url, raise_error=False, follow_redirects=False, **given)


async def sign_up(client: AsyncHTTPClient, base_url: str, headers: dict[str, str], token: str = "") -> HTTPResponse:
    page = await fetch(client, base_url + "/console/signup", headers=headers)
    cookies = [value.partition(";")[0] for value in page.headers.get_list("Set-Cookie")]
    found = re.search(rb'name="_xsrf" value="([^"]+)"', page.body)
    assert found is not None
    form = {"_xsrf": found[1].decode(), "email": "a@b.example", "password": PASSWORD, "setup_token": token}
    sent = {**headers, "Cookie": "; ".join(cookies), "Content-Type": "application/x-www-form-urlencoded"}
    return await fetch(client, base_url + "/console/signup", method="POST", body=urlencode(form), headers=sent)


@pytest.mark.gen_test
async def test_a_browser_on_this_machine_needs_no_token(
    http_client: AsyncHTTPClient, base_url: str, services: Services
) -> None:
    page = await fetch(http_client, base_url + "/console/signup")
    assert b"Set-up token" not in page.body
    answer = await sign_up(http_client, base_url, {})
    assert answer.code == 303
    users, _ = await services.database.run(services.accounts.users.list_page)
    assert [(user.email, user.role) for user in users] == [("a@b.example", "administrator")]


@pytest.mark.gen_test
@pytest.mark.parametrize("headers", BEHIND_A_PROXY, ids=str)
async def test_a_visitor_who_may_come_from_elsewhere_needs_it(
    http_client: AsyncHTTPClient, base_url: str, services: Services, headers: dict[str, str]
) -> None:
    page = await fetch(http_client, base_url + "/console/signup", headers=headers)
    assert b"Set-up token" in page.body
    assert (await sign_up(http_client, base_url, headers)).code == 400
    assert not await services.database.run(services.accounts.users.has_any)
    token = await services.database.run(services.accounts.setup.make_token)
    assert (await sign_up(http_client, base_url, headers, token)).code == 303


@pytest.mark.gen_test
async def test_a_wrong_token_is_wrong_from_everywhere(
    http_client: AsyncHTTPClient, base_url: str, services: Services
) -> None:
    assert (await sign_up(http_client, base_url, {}, "wrong")).code == 400
    assert not await services.database.run(services.accounts.users.has_any)
