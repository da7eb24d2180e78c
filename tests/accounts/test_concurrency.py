"""Changes of people and of keys at the same time: none fails because of the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.people import add_member
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Actor

ROUNDS = 15


def test_keys_change_while_their_owner_joins_and_leaves_a_team(accounts: Accounts, administrator: Actor) -> None:
    """Both change the same keys and the same revision; in another order they would wait for each other."""
    user = add_member(accounts, "bob@example.org")
    team = accounts.teams.create(accounts.organisations.create("o", administrator).id, "t", administrator)
    keystore = KeyStore(accounts.database)
    ids = [
        keystore.create("k", account=user.id, user=user.id, team=team.id, actor=administrator)[1].id
        for _ in range(ROUNDS)
    ]
    barrier = threading.Barrier(3)

    def change_members() -> None:
        barrier.wait()
        for _ in range(ROUNDS):
            accounts.members.set_role(team.id, user.id, "member", administrator)
            accounts.members.remove(team.id, user.id, administrator)

    def revoke_keys() -> None:
        barrier.wait()
        for identity in ids:
            keystore.revoke(identity, actor=administrator)

    def create_keys() -> None:
        barrier.wait()
        for _ in range(ROUNDS):
            keystore.create("k", account=user.id, user=user.id, team=team.id, actor=administrator)

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(function) for function in (change_members, revoke_keys, create_keys)]
        for future in running:
            future.result()
