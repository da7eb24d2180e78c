"""The short-lived keys of pages: which key they stand for, how many an account has, when they end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tornado_gate.errors import InvalidField, Unavailable
from tornado_gate.realtime.client_secrets import LONGEST_SESSION, SECRET_PREFIX, ClientSecrets
from tornado_gate.storage.client_secrets import FILE_NAME, ClientSecretFile
from tornado_gate.types import ClientSecretRequest

REQUEST = ClientSecretRequest(seconds=60, model="m", session={"type": "realtime"})


def secrets_in(tmp_path: Path, limit: int = 10) -> ClientSecrets:
    return ClientSecrets(ClientSecretFile(tmp_path), limit)


def test_a_secret_is_kept_as_a_hash(tmp_path: Path) -> None:
    made = asyncio.run(secrets_in(tmp_path).make(REQUEST, "a", b"\x01"))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert made.value.encode() not in kept
    assert made.value.removeprefix(SECRET_PREFIX).encode() not in kept


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
