"""Which process raises an alert and which one sends a message about it, in both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tornado_gate.alerts import store as stores
from tornado_gate.alerts.store import PAUSES, AlertStore, Claimed
from tornado_gate.alerts.values import Alert, Words
from tornado_gate.config.alerting import SinkConfig
from tornado_gate.database.engine import Database

OPS = SinkConfig(name="ops", type="slack", url="https://hooks.example/x", per_minute=3)
MAIL = SinkConfig(name="mail", type="email", events=frozenset({"spool"}))


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def make_alert(cause: str = "circuit:p:m", kind: str = "circuit", *, lasting: bool = True) -> Alert:
    heading, explanation = Words("title of {cause}", {"cause": cause}), Words("why")
    return Alert(kind=kind, cause=cause, severity="critical", heading=heading, explanation=explanation, lasting=lasting)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: Database, clock: Clock) -> AlertStore:
    return AlertStore(database, clock)


def test_a_cause_that_many_processes_see_is_raised_once(database: Database) -> None:
    def record(_: int) -> int:
        return len(AlertStore(database).record([make_alert(), make_alert("circuit:p:n")], [OPS])[0])

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(record, range(8))) == 2
    assert [len(alert.messages) for alert in AlertStore(database).list_recent()] == [1, 1]


def test_only_sinks_that_want_a_kind_get_its_messages(store: AlertStore) -> None:
    store.record([make_alert(), make_alert("spool:a", "spool")], [OPS, MAIL])
    recent = store.list_recent()
    assert [[message.sink for message in alert.messages] for alert in recent] == [["ops", "mail"], ["ops"]]


def test_a_lasting_alert_is_resolved_when_nobody_sees_it_and_may_be_raised_again(
    store: AlertStore, clock: Clock
) -> None:
    lasting, once = make_alert(), make_alert("budget:key:a", "budget", lasting=False)
    store.record([lasting, once], [OPS])
    clock.now += 9
    store.record([lasting, once], [OPS])
    clock.now += 9
    assert store.resolve(10, [OPS]) == (0, 0)
    clock.now += 9
    assert store.resolve(10, [OPS]) == (1, 0)
    assert store.resolve(10, [OPS]) == (0, 0)
    phases = {alert.title: [message.phase for message in alert.messages] for alert in store.list_recent()}
    assert phases == {"title of circuit:p:m": ["raised", "resolved"], "title of budget:key:a": ["raised"]}
    new, _ = store.record([lasting, once], [OPS])
    assert [alert.cause for alert in new] == ["circuit:p:m"]


def test_one_process_claims_a_message_and_another_one_sends_it_if_the_first_dies(
    database: Database, store: AlertStore, clock: Clock
) -> None:
    store.record([make_alert()], [OPS])

    def claim(_: int) -> list[Claimed]:
        return AlertStore(database, clock).claim(OPS)

    with ThreadPoolExecutor(4) as threads:
        claimed = [message for messages in threads.map(claim, range(8)) for message in messages]
    (message,) = claimed
    assert (message.attempts, message.notice.title) == (1, "title of circuit:p:m")
    clock.now += stores.CLAIM_SECONDS + 1
    (again,) = store.claim(OPS)
    assert (again.number, again.notice.id, again.attempts) == (message.number, message.notice.id, 2)


def test_a_message_that_fails_is_sent_again_after_longer_pauses_and_then_given_up(
    store: AlertStore, clock: Clock
) -> None:
    store.record([make_alert()], [OPS])
    for pause in PAUSES:
        (message,) = store.claim(OPS)
        assert store.finish(message, "The receiver answered 500.") == "queued"
        clock.now += pause - 1
        assert store.claim(OPS) == []
        clock.now += 2
    (message,) = store.claim(OPS)
    assert store.finish(message, "The receiver answered 500.") == "failed"
    clock.now += 86_400
    assert store.claim(OPS) == []
    (shown,) = store.list_recent()[0].messages
    assert (shown.state, shown.attempts, shown.error) == ("failed", 6, "The receiver answered 500.")


def test_a_sink_gets_no_more_than_its_messages_of_a_minute(store: AlertStore, clock: Clock) -> None:
    store.record([make_alert(f"circuit:p:{number}") for number in range(5)], [OPS])
    for message in store.claim(OPS):
        store.finish(message)
    assert store.claim(OPS) == []
    clock.now += stores.RATE_SECONDS + 1
    assert len(store.claim(OPS)) == 2


def test_messages_that_wait_are_bounded(store: AlertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_QUEUED", 4)
    _, dropped = store.record([make_alert(f"circuit:p:{number}") for number in range(7)], [OPS])
    assert dropped == 3
    assert store.count_queued() == 4
    states = [alert.messages[0].state for alert in store.list_recent()]
    assert states == ["dropped"] * 3 + ["queued"] * 4


def test_one_look_raises_a_bounded_number_and_the_next_one_more(
    store: AlertStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_NEW", 2)
    seen = [make_alert(f"circuit:p:{number}") for number in range(3)]
    assert [len(store.record(seen, [])[0]) for _ in range(3)] == [2, 1, 0]


def test_what_was_sent_while_the_database_was_away_is_not_sent_again(store: AlertStore) -> None:
    store.record([make_alert("spool:a", "spool")], [OPS], delivered={"spool:a"})
    assert store.claim(OPS) == []
    assert store.list_recent()[0].messages[0].state == "sent"


def test_old_alerts_and_messages_of_removed_sinks_are_deleted(store: AlertStore, clock: Clock) -> None:
    store.record([make_alert("budget:a", "budget", lasting=False), make_alert()], [OPS])
    store.drop_foreign(["other"])
    assert store.count_queued() == 0
    clock.now += stores.KEEP_SECONDS + 1
    store.prune()
    assert [alert.kind for alert in store.list_recent()] == ["circuit"]
