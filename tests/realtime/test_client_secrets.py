"""The short-lived keys of pages: which key they stand for, how many an account has, when they end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tornado_gate.errors import GateError, InvalidField, RateLimited, Unavailable
from tornado_gate.realtime.client_secrets import LONGEST_SESSION, SECRET_PREFIX, ClientSecrets
from tornado_gate.storage.client_secrets import FILE_NAME, ClientSecretStore
from tornado_gate.types import ClientSecretRequest

REQUEST = ClientSecretRequest(seconds=60, model="m", session={"type": "realtime"})


def secrets_in(tmp_path: Path, limit: int = 10) -> ClientSecrets:
    return ClientSecrets(ClientSecretStore(tmp_path), limit)


@pytest.mark.gen_test
async def test_a_secret_stands_for_the_key_that_made_it_in_any_process(tmp_path: Path) -> None:
    made = await secrets_in(tmp_path).make(REQUEST, "a", b"\x01\x02")
    assert made.value.startswith(SECRET_PREFIX)
    assert abs(made.expires_at - time.time() - 60) < 5
    held = await secrets_in(tmp_path).find_claims(made.value)
    assert held is not None
    assert (held.key_digest, held.model, held.session) == (b"\x01\x02", "m", {"type": "realtime"})


def test_a_secret_is_kept_as_a_hash(tmp_path: Path) -> None:
    made = asyncio.run(secrets_in(tmp_path).make(REQUEST, "a", b"\x01"))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.value.encode() not in kept
    assert made.value.removeprefix(SECRET_PREFIX).encode() not in kept


@pytest.mark.gen_test
async def test_what_never_was_and_what_has_expired_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = secrets_in(tmp_path)
    made = await secrets.make(REQUEST, "a", b"\x01")
    assert await secrets.find_claims(SECRET_PREFIX + "never") is None
    assert await secrets.find_claims(SECRET_PREFIX + "\udcff") is None
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert await secrets.find_claims(made.value) is None


@pytest.mark.gen_test
async def test_an_account_has_its_number_of_secrets_and_takes_no_other_accounts_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [secrets_in(tmp_path) for _ in range(2)]
    theirs = await processes[0].make(REQUEST, "small", b"\x01")
    asked = await asyncio.gather(
        *(processes[number % 2].make(REQUEST, "large", b"\x02") for number in range(30)), return_exceptions=True
    )
    refused = [error for error in asked if isinstance(error, GateError)]
    assert len(refused) == 20
    assert {(type(error), error.code) for error in refused} == {(RateLimited, "too_many_client_secrets")}
    assert await processes[1].find_claims(theirs.value) is not None
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await processes[0].make(REQUEST, "large", b"\x02")).value


@pytest.mark.gen_test
async def test_settings_that_are_too_long_are_refused(tmp_path: Path) -> None:
    request = ClientSecretRequest(seconds=60, model="m", session={"instructions": "x" * LONGEST_SESSION})
    with pytest.raises(InvalidField) as caught:
        await secrets_in(tmp_path).make(request, "a", b"\x01")
    assert caught.value.param == "session"


@pytest.mark.gen_test
async def test_a_file_that_cannot_be_used_is_503(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 1000)
    secrets = secrets_in(tmp_path)
    for work in (secrets.make(REQUEST, "a", b"\x01"), secrets.find_claims("ek_x")):
        with pytest.raises(Unavailable):
            await work
