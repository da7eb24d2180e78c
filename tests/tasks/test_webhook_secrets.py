"""The secret of each account's webhooks: its own, rotatable, off when it is empty."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.databases import empty
from tests.tasks.test_store_contract import a_task
from tornado_gate.database.engine import Database
from tornado_gate.http.fetch import Fetcher
from tornado_gate.tasks import database_webhook_secrets
from tornado_gate.tasks.database_webhook_secrets import DatabaseWebhookSecretStore
from tornado_gate.tasks.webhook_secrets import (
    FILE_NAME,
    MAX_SECRETS,
    ROTATION_SECONDS,
    WebhookSecretError,
    WebhookSecrets,
    WebhookSecretStore,
)
from tornado_gate.tasks.webhook_sender import WebhookSender, sign

MakeStore = Callable[[], WebhookSecrets]


@pytest.fixture(params=["file", "database"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeStore]:
    """Makes the store of another process."""
    if request.param == "file":
        yield lambda: WebhookSecretStore(tmp_path)
        return
    address = request.getfixturevalue("migrated_postgres")
    empty(address)
    databases: list[Database] = []

    def make() -> WebhookSecrets:
        databases.append(Database(tmp_path, address))
        return DatabaseWebhookSecretStore(databases[-1])

    yield make
    for database in databases:
        database.close()


@pytest.fixture
def store(make_store: MakeStore) -> WebhookSecrets:
    return make_store()


def test_each_account_has_a_secret_of_its_own_in_every_process(store: WebhookSecrets, make_store: MakeStore) -> None:
    (first,), (second,) = store.get("first"), store.get("second")
    assert first != second
    assert make_store().get("first") == (first,)
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32
    sign([first], "evt_1", 1, b"{}")


def test_many_who_make_it_at_once_get_the_same(make_store: MakeStore) -> None:
    ready = threading.Barrier(8)

    def make() -> tuple[str, ...]:
        store = make_store()
        ready.wait(60)
        return store.get("acme")

    with ThreadPoolExecutor(8) as threads:
        found = {made.result() for made in [threads.submit(make) for _ in range(8)]}
    assert len(found) == 1


def test_after_a_rotation_both_secrets_are_valid_for_a_while(
    store: WebhookSecrets, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,), other = store.get("acme"), store.get("other")
    new = store.rotate("acme")
    assert store.get("acme") == (new, old)
    assert store.get("other") == other
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ROTATION_SECONDS + 1)
    monkeypatch.setattr(database_webhook_secrets, "CLOCK", database_webhook_secrets.CLOCK + ROTATION_SECONDS + 1)
    assert store.get("acme") == (new,)


def test_rotations_do_not_collect_secrets(store: WebhookSecrets) -> None:
    made = [store.rotate("acme") for _ in range(10)]
    assert store.get("acme") == tuple(reversed(made[-MAX_SECRETS:]))


def test_an_empty_secret_is_off_until_it_is_rotated(store: WebhookSecrets) -> None:
    (old,) = store.get("acme")
    store.turn_off("acme")
    assert store.get("acme") == ()
    assert store.get("other")
    new = store.rotate("acme")
    assert store.get("acme") == (new,)
    assert new != old


def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 1000)
    with pytest.raises(WebhookSecretError, match="damaged"):
        WebhookSecretStore(tmp_path).get("acme")


class Posts:
    def __init__(self) -> None:
        self.signatures: list[str] = []

    async def post(self, url: str, body: bytes, headers: dict[str, str], *, seconds: float, account: str) -> int:
        assert account == "acme"
        self.signatures.append(headers["webhook-signature"])
        return 204


@pytest.mark.gen_test
async def test_a_webhook_is_signed_with_the_secrets_of_its_account(store: WebhookSecrets) -> None:
    posts = Posts()
    sender = WebhookSender(cast(Fetcher, posts), store)
    ended: dict[str, Any] = {"status": "completed", "webhook": {"url": "https://site.test/hook"}}
    assert await sender.send(a_task(account="acme", **ended)) is None
    store.rotate("acme")
    assert await sender.send(a_task(account="acme", **ended)) is None
    store.turn_off("other")
    assert await sender.send(a_task(account="other", **ended)) is None
    assert [len(signature.split(" ")) for signature in posts.signatures] == [1, 2], "nothing is sent when it is off"
    assert await sender.is_off("other")
    assert not await sender.is_off("acme")


@pytest.mark.gen_test
async def test_a_webhook_waits_while_its_secret_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 1000)
    posts = Posts()
    sender = WebhookSender(cast(Fetcher, posts), WebhookSecretStore(tmp_path))
    pause = await sender.send(a_task(status="completed", webhook={"url": "https://site.test/hook"}))
    assert pause is not None
    assert not posts.signatures
    assert not await sender.is_off("acme")
