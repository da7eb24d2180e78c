"""Sign-in: passwords, limits of attempts, sessions, reset links."""

from __future__ import annotations

import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher

from tests.support.people import ADDRESS, PASSWORD, add_member, sign_up_first
from tornado_gate.accounts import passwords, throttle
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.errors import AccountError, Denied, NotFound, SignInFailed, TooManyAttempts
from tornado_gate.accounts.people import COMMAND, Actor, Session
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.accounts.throttle import (
    ADDRESS_ATTEMPTS,
    DEVICE_ATTEMPTS,
    FIRST_WAIT_SECONDS,
    PAIR_ATTEMPTS,
    find_network,
)
from tornado_gate.database.engine import Database

EMAIL = "root@example.org"


def sign_in(accounts: Accounts, email: str = EMAIL, password: str = PASSWORD, **given: str) -> tuple[str, Session]:
    return accounts.sign_in.with_password(email, password, **{"address": ADDRESS, "agent": "test", **given})


def fail(accounts: Accounts, email: str = EMAIL, **given: str) -> None:
    with pytest.raises(SignInFailed):
        sign_in(accounts, email, "wrong password", **given)


# Passwords


def test_the_hash_is_argon2id_with_more_than_the_recommended_cost() -> None:
    default = PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)
    hashed = default.hash(PASSWORD)
    assert hashed.startswith("$argon2id$v=19$m=32768,t=3,p=1$")
    with open(passwords.__file__, encoding="utf-8") as source:
        assert "PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)" in source.read()


@pytest.mark.parametrize(
    "password", ["", "1234567", "x" * 1025, "abcdefg\x00h", "abcdefgh\n", "abcdefg\udcff", "\uffff" * 8]
)
def test_passwords_that_cannot_be_typed_everywhere_are_refused(password: str) -> None:
    with pytest.raises(AccountError) as caught:
        passwords.check_password(password)
    assert (caught.value.code, caught.value.field) == ("invalid_password", "password")
    assert not passwords.verify_password(None, password)


@pytest.mark.parametrize("password", ["x" * 1024, "пароль-пароль", "🐴🔋📎✅🐴🔋📎✅", "        ", "Jürgen Ångström"])
def test_long_and_foreign_passwords_work_in_every_normal_form(password: str) -> None:
    hashed = passwords.hash_password(passwords.check_password(password))
    for form in ("NFC", "NFD"):
        typed = unicodedata.normalize(form, password)  # type: ignore[arg-type]
        assert passwords.verify_password(hashed, typed)
    assert not passwords.verify_password(hashed, password + "x")


def test_a_hash_with_older_parameters_is_renewed_at_sign_in(accounts: Accounts, database: Database) -> None:
    sign_up_first(accounts)
    stronger = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "HASHER", stronger)
        sign_in(accounts)
        with database.read() as connection:
            assert "m=16,t=2" in connection.exec_driver_sql("SELECT password_hash FROM users").scalar_one()
        sign_in(accounts)


# What a failure tells


def test_an_unknown_email_gets_the_same_answer_and_one_hash_as_a_wrong_password(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_up_first(accounts)
    user = accounts.sign_up.create_administrator("nopassword@example.org", COMMAND)
    assert not user.has_password

    class Counting(PasswordHasher):
        verified = 0

        def verify(self, hash: str | bytes, password: str | bytes) -> bool:
            Counting.verified += 1
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "HASHER", Counting(time_cost=1, memory_cost=8, parallelism=1))
    answers = set()
    for email in (EMAIL, "unknown@example.org", "nopassword@example.org", "\udcff", "x" * 100_000, ""):
        before = Counting.verified
        with pytest.raises(AccountError) as caught:
            sign_in(accounts, email, "wrong password", address=email)
        answers.add((type(caught.value), caught.value.code, caught.value.message))
        assert Counting.verified == before + 1
    assert len(answers) == 1


def test_a_disabled_user_is_told_so_only_with_the_right_password(accounts: Accounts, administrator: Actor) -> None:
    user = add_member(accounts, "b@example.org")
    accounts.users.set_state(user.id, "disabled", administrator)
    fail(accounts, "b@example.org")
    with pytest.raises(Denied) as caught:
        sign_in(accounts, "b@example.org")
    assert caught.value.code == "account_disabled"


def test_failures_are_audited_without_what_was_typed(
    accounts: Accounts, administrator: Actor, database: Database
) -> None:
    fail(accounts)
    fail(accounts, "my-secret-password")
    unknown, known = list_events(database, action="user.sign_in_failed")
    assert (known.actor, known.address) == (administrator.id, ADDRESS)
    assert (unknown.actor, unknown.actor_name) == ("", "unknown")
    assert "my-secret" not in repr(list_events(database))


# Limits of attempts


def test_after_some_failures_the_right_password_waits_too(accounts: Accounts, administrator: Actor) -> None:
    for _ in range(PAIR_ATTEMPTS):
        fail(accounts)
    for password in (PASSWORD, "wrong password"):
        with pytest.raises(TooManyAttempts) as caught:
            sign_in(accounts, password=password)
        assert caught.value.status == 429
        assert 0 < caught.value.retry_after <= FIRST_WAIT_SECONDS


def test_each_further_failure_doubles_the_wait(
    accounts: Accounts, administrator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(PAIR_ATTEMPTS):
        fail(accounts)
    now = time.time()
    waits = []
    for _ in range(6):
        with pytest.raises(TooManyAttempts) as caught:
            sign_in(accounts)
        waits.append(caught.value.retry_after)
        now += caught.value.retry_after + 0.5
        monkeypatch.setattr(throttle.time, "time", lambda moment=now: moment)
        fail(accounts)
    assert waits == [10, 20, 40, 80, 160, 320]


def test_the_owner_is_not_locked_out_at_another_address_nor_on_a_known_device(
    accounts: Accounts, administrator: Actor
) -> None:
    device = accounts.devices.make_token(administrator.id)
    for _ in range(PAIR_ATTEMPTS):
        fail(accounts)
    assert sign_in(accounts, address="192.0.2.2")
    assert sign_in(accounts, device=device)
    with pytest.raises(TooManyAttempts):
        sign_in(accounts)


def test_a_forged_device_helps_nobody(accounts: Accounts, administrator: Actor) -> None:
    genuine = accounts.devices.make_token(administrator.id)
    signature = genuine.rpartition(".")[2]
    assert accounts.devices.knows(genuine, administrator.id)
    forgeries = ["", "x", "a.b.c.d", "\udcff", "x" * 10_000, f"{administrator.id}.9999999999.00.{signature}"]
    assert not any(accounts.devices.knows(forged, administrator.id) for forged in forgeries)
    assert not accounts.devices.knows(genuine, "user_other")
    assert Accounts(accounts.database, session_seconds=60).devices.knows(genuine, administrator.id)


def test_a_stolen_device_token_has_a_limit_of_its_own(accounts: Accounts, administrator: Actor) -> None:
    device = accounts.devices.make_token(administrator.id)
    for _ in range(DEVICE_ATTEMPTS):
        fail(accounts, device=device)
    with pytest.raises(TooManyAttempts):
        sign_in(accounts, device=device)


def test_one_address_cannot_try_many_emails(accounts: Accounts, administrator: Actor) -> None:
    for number in range(ADDRESS_ATTEMPTS):
        fail(accounts, f"user{number}@example.org", address=f"2001:db8::{number:x}")
    with pytest.raises(TooManyAttempts):
        sign_in(accounts, address="2001:db8::ffff:1")
    assert sign_in(accounts, address="2001:db8:0:1::1")


def test_many_attempts_at_once_do_not_exceed_the_limit(accounts: Accounts, administrator: Actor) -> None:
    barrier = threading.Barrier(12)

    def attempt(_: int) -> type[Exception]:
        barrier.wait()
        try:
            sign_in(accounts, password="wrong password")
        except AccountError as error:
            return type(error)
        raise AssertionError("a wrong password was accepted")

    with ThreadPoolExecutor(12) as threads:
        results = list(threads.map(attempt, range(12)))
    assert results.count(SignInFailed) <= PAIR_ATTEMPTS
    assert results.count(TooManyAttempts) == 12 - results.count(SignInFailed)


def test_a_successful_sign_in_forgives_the_failures_before_it(accounts: Accounts, administrator: Actor) -> None:
    for _ in range(3):
        for _ in range(PAIR_ATTEMPTS - 1):
            fail(accounts)
        sign_in(accounts)


def test_failures_are_forgotten_after_the_window(
    accounts: Accounts, administrator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(PAIR_ATTEMPTS):
        fail(accounts)
    monkeypatch.setattr(throttle, "WINDOW_SECONDS", 0.0)
    assert sign_in(accounts)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        *[("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::/64")],
        *[("fe80::1%eth0", "fe80::/64"), ("", ""), ("unix", "unix")],
    ],
)
def test_the_network_of_an_address(address: str, network: str) -> None:
    assert find_network(address) == network


# Sessions


def test_every_sign_in_has_a_new_cookie_of_which_only_a_digest_is_stored(
    accounts: Accounts, database: Database
) -> None:
    first, _ = sign_up_first(accounts)
    second, session = sign_in(accounts, replaces=first)
    assert first != second
    assert len(second) == 43
    assert accounts.sessions.find_session(first) is None
    assert accounts.sessions.find_session(second) == session
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM sessions").all()
    assert second not in repr(rows)


def test_a_cookie_that_the_gateway_has_not_made_is_no_session(accounts: Accounts, administrator: Actor) -> None:
    for cookie in ("", "x", "x" * 100_000, "\udcff", "' OR 1=1"):
        assert accounts.sessions.find_session(cookie) is None


def test_a_session_ends_at_its_time(accounts: Accounts, administrator: Actor) -> None:
    accounts.sessions.lifetime_seconds = 0.0
    cookie, _ = sign_in(accounts)
    assert accounts.sessions.find_session(cookie) is None
    accounts.sessions.lifetime_seconds = 60.0
    sign_in(accounts)
    assert len(accounts.sessions.list_open(administrator.id)) == 2


def test_last_seen_is_written_at_most_once_a_minute(accounts: Accounts, database: Database) -> None:
    cookie, session = sign_up_first(accounts)
    accounts.sessions.find_session(cookie)
    assert accounts.sessions.list_open(session.user.id)[0].last_seen == session.last_seen
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE sessions SET last_seen = last_seen - 61")
    before = time.time()
    accounts.sessions.find_session(cookie)
    assert accounts.sessions.list_open(session.user.id)[0].last_seen >= before


def test_sessions_are_listed_and_ended_by_their_owner_only(accounts: Accounts, administrator: Actor) -> None:
    other = add_member(accounts, "b@example.org")
    cookie, session = sign_in(accounts, agent="Firefox \x1b[1m" + "x" * 1000, address="2001:db8::1")
    assert len(session.agent) == 300
    assert session.agent.isprintable()
    with pytest.raises(NotFound):
        accounts.sessions.end(other.id, session.id)
    assert accounts.sessions.find_session(cookie)
    accounts.sessions.end(administrator.id, session.id)
    assert accounts.sessions.find_session(cookie) is None
    keep = sign_in(accounts)[1]
    assert accounts.sessions.end_others(administrator.id, keep.id) == 1
    assert [one.id for one in accounts.sessions.list_open(administrator.id)] == [keep.id]


# Changed passwords


def test_a_changed_password_ends_all_other_sessions(accounts: Accounts) -> None:
    first, session = sign_up_first(accounts)
    second, _ = sign_in(accounts)
    actor = make_actor(session.user)
    for _ in range(2):
        with pytest.raises(AccountError) as caught:
            accounts.sessions.change_password(session, "wrong password", "new password", actor)
        assert (caught.value.code, caught.value.field) == ("wrong_password", "old")
    with pytest.raises(AccountError) as caught:
        accounts.sessions.change_password(session, PASSWORD, "short", actor)
    assert caught.value.field == "new"
    accounts.sessions.change_password(session, PASSWORD, "new password", actor)
    assert accounts.sessions.find_session(first)
    assert accounts.sessions.find_session(second) is None
    assert sign_in(accounts, password="new password")
    with pytest.raises(SignInFailed):
        sign_in(accounts)


def test_a_stolen_session_cannot_guess_the_password(accounts: Accounts) -> None:
    _, session = sign_up_first(accounts)
    for _ in range(PAIR_ATTEMPTS):
        with pytest.raises(AccountError):
            accounts.sessions.change_password(session, "wrong password", "new password", make_actor(session.user))
    with pytest.raises(TooManyAttempts):
        accounts.sessions.change_password(session, PASSWORD, "new password", make_actor(session.user))


def test_a_reset_link_works_once_and_ends_all_sessions(accounts: Accounts, administrator: Actor) -> None:
    user = add_member(accounts, "b@example.org")
    old = accounts.reset_links.create(user.id, administrator)
    link = accounts.reset_links.create(user.id, administrator)
    for unusable in (old, "", "x", "x" * 10_000, "\udcff"):
        with pytest.raises(NotFound):
            accounts.reset_links.use(unusable, "new password")
    with pytest.raises(AccountError):
        accounts.reset_links.use(link, "short")
    assert accounts.reset_links.find_user(link) == accounts.users.get(user.id)
    assert accounts.reset_links.use(link, "new password").id == user.id
    assert accounts.sessions.list_open(user.id) == []
    assert sign_in(accounts, "b@example.org", "new password")
    with pytest.raises(NotFound):
        accounts.reset_links.use(link, "newer password")


def test_a_reset_link_expires_and_is_void_for_a_disabled_user(
    accounts: Accounts, administrator: Actor, database: Database
) -> None:
    user = add_member(accounts, "b@example.org")
    link = accounts.reset_links.create(user.id, administrator)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE reset_links SET expires = expires - 86400")
    with pytest.raises(NotFound):
        accounts.reset_links.use(link, "new password")
    link = accounts.reset_links.create(user.id, administrator)
    accounts.users.set_state(user.id, "disabled", administrator)
    with pytest.raises(NotFound):
        accounts.reset_links.use(link, "new password")
    with pytest.raises(Denied):
        accounts.reset_links.create(user.id, administrator)


def test_a_reset_link_used_by_two_at_once_sets_one_password(accounts: Accounts, administrator: Actor) -> None:
    link = accounts.reset_links.create(administrator.id, administrator)
    barrier = threading.Barrier(3)

    def attempt(number: int) -> bool:
        barrier.wait()
        try:
            return bool(accounts.reset_links.use(link, f"new password {number}"))
        except NotFound:
            return False

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(attempt, range(3))) == [False, False, True]
