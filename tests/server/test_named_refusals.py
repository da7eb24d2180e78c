"""A 429 names the subject whose limit or budget refuses the request."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Hang, Upstream, answer
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import COMMAND
from tornado_gate.database.engine import Database

CONF = """
plugins: {local: true, openai: true}
providers:
  local: {plugin: local}
  slow: {plugin: openai, base_url: UPSTREAM/v1, api_key: a-key-of-the-upstream}
  narrow: {plugin: local, limits: {requests_per_minute: 1}}
models:
  local-chat: {provider: local}
  narrow-chat: {provider: narrow, model: local-chat}
  slow: {provider: slow, model: gpt-4o}
  rare: {provider: local, model: local-chat, limits: {requests_per_minute: 1}}
users: {ann: {limits: {requests_per_minute: 1}}}
teams: {crew: {budget: {tokens_per_day: 10}}}
keys:
  - {name: free, key: free-key-of-refusals-0}
  - {name: of-conf, key: conf-key-of-refusals-0, requests_per_minute: 1}
  - {name: anns, key: anns-key-of-refusals-0, user: ann}
  - {name: crews, key: crews-key-of-refusals-0, team: crew}
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Gateway]:
    started = Gateway.start(CONF.replace("UPSTREAM", upstream.url), tmp_path_factory.mktemp("refusals"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def keys(gateway: Gateway) -> dict[str, str]:
    """The texts of keys, by what bounds them."""
    database = Database(gateway.folder / "var")
    accounts, store = Accounts(database, session_seconds=60), KeyStore(database)
    organisation = accounts.organisations.create("Example", COMMAND)
    poor = accounts.teams.create(organisation.id, "Research & Co", COMMAND, budget={"tokens_per_day": 10})
    slow = accounts.teams.create(organisation.id, "Slow ones", COMMAND, limits={"requests_per_minute": 1})
    ada = accounts.sign_up.create_administrator("ada@example.org", COMMAND)
    accounts.users.set_bounds(ada.id, COMMAND, limits={"requests_per_minute": 1})
    texts = {
        "key": store.create("nightly run", limits={"requests_per_minute": 1})[0],
        "key's budget": store.create("poor key", budget={"usd_per_day": 0})[0],
        "open requests": store.create("one at a time", limits={"concurrent_requests": 1})[0],
        "user": store.create("laptop", user=ada.id)[0],
        "team's budget": store.create("t1", team=poor.id)[0],
        "team": store.create("t2", team=slow.id)[0],
    }
    database.close()
    return texts


def send_request(gateway: Gateway, key: str, **changes: Any) -> httpx.Response:
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, **changes}
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False, timeout=30)


def test_a_429_names_what_is_limited(gateway: Gateway, keys: dict[str, str]) -> None:
    free = "free-key-of-refusals-0"
    cases = [
        (keys["key"], "local-chat", "The API key 'nightly run' may use 1 requests per minute"),
        (keys["user"], "local-chat", "The user 'ada@example.org' of this API key may use 1 requests per minute"),
        (keys["team"], "local-chat", "The team 'Slow ones' of this API key may use 1 requests per minute"),
        (
            keys["team's budget"],
            "local-chat",
            "The budget of the team 'Research & Co' of this API key does not allow this",
        ),
        ("conf-key-of-refusals-0", "local-chat", "The API key 'of-conf' may use 1 requests per minute"),
        ("anns-key-of-refusals-0", "local-chat", "The user 'ann' of this API key may use 1 requests per minute"),
        ("crews-key-of-refusals-0", "local-chat", "The budget of the team 'crew' of this API key does not allow this"),
        (free, "rare", "The model 'rare' may use 1 requests per minute"),
        (free, "narrow-chat", "The provider account 'narrow' may use 1 requests per minute"),
    ]
    wrong = []
    for key, model, message in cases:
        answers = [send_request(gateway, key, model=model) for _ in range(3)]
        error = answers[-1].json().get("error", {})
        if answers[-1].status_code != 429 or not error["message"].startswith(message):
            wrong.append((message, answers[-1].text))
    assert not wrong


def test_too_many_open_requests_name_their_key(gateway: Gateway, keys: dict[str, str], upstream: Upstream) -> None:
    upstream.script(answer(Hang()))
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(send_request, gateway, keys["open requests"], model="slow")
        upstream.wait_for_requests(1)
        error = send_request(gateway, keys["open requests"]).json()["error"]
        upstream.stop()
        assert first.result().status_code == 502
    assert error["code"] == "too_many_concurrent"
    assert error["message"].startswith("The API key 'one at a time' may have 1 concurrent requests; 1 are open")


def test_what_is_left_names_its_subject(gateway: Gateway, keys: dict[str, str]) -> None:
    body = {"model": "local-chat", "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": f"Bearer {keys['user']}"}
    url = f"{gateway.url}/v1/_explain?route=/v1/chat/completions"
    explained = httpx.post(url, json=body, headers=headers, trust_env=False, timeout=30).json()
    levels = explained["limits"]["bounds"] if "limits" in explained else [explained]
    assert [(level["subject"], level["name"]) for level in levels] == [("user", "ada@example.org")]
