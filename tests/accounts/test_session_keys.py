"""The playground's key: one for each session, which ends with it. On both databases."""

from __future__ import annotations

import pytest

from tests.support.people import ADDRESS, PASSWORD, add_member, sign_up_first
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore, StoredKey, digest_key
from tornado_gate.accounts.names import find_names
from tornado_gate.accounts.people import Session
from tornado_gate.accounts.session_keys import KEY_SECONDS, create_session_key
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.types.value import replace


@pytest.fixture
def store(accounts: Accounts) -> KeyStore:
    return KeyStore(accounts.database)


@pytest.fixture
def session(accounts: Accounts) -> Session:
    """A session of a member."""
    sign_up_first(accounts)
    add_member(accounts, "ada@example.org")
    return sign_in(accounts)


def sign_in(accounts: Accounts) -> Session:
    return accounts.sign_in.with_password("ada@example.org", PASSWORD, address=ADDRESS, agent="test")[1]


def find(store: KeyStore, text: str) -> StoredKey | None:
    return store.find_key(digest_key(text))


def test_the_key_is_that_of_the_visitor_and_hidden(store: KeyStore, session: Session) -> None:
    text, key = create_session_key(store, session)
    assert find(store, text) == replace(key, user_name="ada@example.org")
    assert (key.user, key.account, key.role, key.hidden) == (session.user.id, session.user.id, "member", True)
    assert key.expires is not None
    assert key.expires - key.created <= KEY_SECONDS
    assert store.list_page(user=session.user.id) == ([], 0)


def test_the_key_of_an_administrator_cannot_administrate(accounts: Accounts, store: KeyStore) -> None:
    _, first = sign_up_first(accounts)
    assert create_session_key(store, first)[1].role == "member"


def test_a_session_has_one_key(accounts: Accounts, store: KeyStore, session: Session) -> None:
    texts = [create_session_key(store, session)[0] for _ in range(3)]
    other, _ = create_session_key(store, sign_in(accounts))
    assert [find(store, text) is not None for text in texts] == [False, False, True]
    assert find(store, other) is not None


def test_all_keys_of_a_visitor_count_as_one_that_is_named_by_its_owner(
    accounts: Accounts, store: KeyStore, session: Session
) -> None:
    keys = [create_session_key(store, chosen)[1] for chosen in (session, session, sign_in(accounts))]
    assert {key.usage_id for key in keys} == {keys[0].id}
    assert find_names(accounts.database, "key", [keys[0].id]) == {keys[0].id: "playground of ada@example.org"}


def test_the_key_ends_with_its_session(accounts: Accounts, store: KeyStore, session: Session) -> None:
    text, _ = create_session_key(store, session)
    lasting, _ = store.create("mine", user=session.user.id)
    other, _ = create_session_key(store, sign_in(accounts))
    before = store.revision()
    accounts.sessions.end(session.user.id, session.id)
    assert store.revision() > before
    assert find(store, text) is None
    assert find(store, other) is not None
    assert find(store, lasting) is not None


def test_the_keys_of_other_sessions_end_with_a_new_password(
    accounts: Accounts, store: KeyStore, session: Session
) -> None:
    text, _ = create_session_key(store, session)
    other, _ = create_session_key(store, sign_in(accounts))
    accounts.sessions.change_password(session, PASSWORD, "another password", make_actor(session.user))
    assert find(store, text) is not None
    assert find(store, other) is None
