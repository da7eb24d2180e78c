"""Accounts for tests: cheap hashes, an administrator, members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from tornado_gate.accounts import passwords
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.people import Actor, Session, User
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.database.engine import Database

PASSWORD = "correct horse"
ADDRESS = "192.0.2.1"


@pytest.fixture(scope="session", autouse=True)
def cheap_hashes() -> Iterator[None]:
    """Hashes of passwords take 40 ms on purpose; tests make hundreds. One test has the real parameters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


@pytest.fixture
def accounts(database: Database) -> Accounts:
    """Accounts without any user, on both databases."""
    return Accounts(database, session_seconds=3600)


@pytest.fixture
def administrator(accounts: Accounts) -> Actor:
    """The first account, root@example.org with PASSWORD."""
    return make_actor(sign_up_first(accounts)[1].user)


def sign_up_first(accounts: Accounts, email: str = "root@example.org") -> tuple[str, Session]:
    """Create the first account: the value of its cookie, and its session."""
    token = accounts.setup.make_token()
    assert token is not None
    return accounts.sign_up.create_account(
        email, PASSWORD, setup_token=token, policy="closed", address=ADDRESS, agent="test"
    )


def add_member(accounts: Accounts, email: str) -> User:
    """A further account, with PASSWORD."""
    return accounts.sign_up.create_account(email, PASSWORD, policy="open", address=email, agent="test")[1].user
