"""The tables of alerts. They make sure that one process of all nodes raises an alert, and that one sends each message.

An alert is active while `active_cause` has its cause. That column is unique, so the database decides which process raises it.
Every process that sees the cause of a lasting alert renews `seen`; when this has not happened for a while, the alert is
resolved. A process claims a message by moving its `due` into the future, so a message is sent again if that process dies.
Functions are synchronous and raise DatabaseError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection

from tornado_gate.alerts.values import LONGEST_CAUSE, LONGEST_MESSAGE, LONGEST_TITLE, Alert, Notice
from tornado_gate.config.alerting import SinkConfig
from tornado_gate.database.alert_tables import alert_messages, alerts
from tornado_gate.database.engine import Database
from tornado_gate.types.value import Value

MAX_QUEUED: Final = 1000
"""Messages that wait at most. Further ones are recorded as dropped."""
MAX_NEW: Final = 200
"""Alerts that one look raises at most. The next look raises more."""
CLAIM_SECONDS: Final = 120.0
"""The time after which a message is sent again if the process that sends it has died."""
KEEP_SECONDS: Final = 40 * 86400.0
"""Longer than a month, so that a budget of a month raises one alert."""
RATE_SECONDS: Final = 60.0
RACES: Final = 3
PAUSES: Final = (10.0, 30.0, 90.0, 270.0, 810.0)
"""Seconds before the next attempts: six attempts within 20 minutes."""

_A, _M = alerts.c, alert_messages.c


class Claimed(Value, frozen=True, kw_only=True):
    """A message that this process sends now. `attempts` includes this one."""

    number: int
    sink: str
    attempts: int
    notice: Notice


class MessageView(Value, frozen=True, kw_only=True):
    """The delivery of a message to a sink."""

    sink: str
    phase: str
    state: str
    attempts: int
    error: str


class AlertView(Value, frozen=True, kw_only=True):
    """An alert with its messages. Times are Unix seconds."""

    id: int
    kind: str
    severity: str
    title: str
    message: str
    raised: float
    resolved: float | None
    is_lasting: bool
    messages: tuple[MessageView, ...]


class AlertStore:
    """The alerts of a database. `clock` returns Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # Causes

    def record(
        self, seen: Sequence[Alert], sinks: Iterable[SinkConfig], delivered: Collection[str] = ()
    ) -> tuple[list[Alert], int]:
        """Raise the alerts that are not active, and renew the others. Return the new alerts and the number of dropped messages.

        `delivered` are causes whose messages were sent already, while the database was away.
        """
        for _ in range(RACES):
            try:
                return self._record(seen, tuple(sinks), delivered)
            except sqlalchemy.exc.IntegrityError:
                continue  # another node has raised one of them in the same moment
        return [], 0

    def _record(
        self, seen: Sequence[Alert], sinks: Sequence[SinkConfig], delivered: Collection[str]
    ) -> tuple[list[Alert], int]:
        now, dropped, by_cause = self._clock(), 0, {alert.cause[:LONGEST_CAUSE]: alert for alert in seen}
        with self._database.write() as connection:
            active = _find_active(connection, by_cause)
            lasting = [cause for cause in active if by_cause[cause].lasting]
            if lasting:
                connection.execute(update(alerts).where(_A.active_cause.in_(lasting)).values(seen=now))
            new = [(cause, alert) for cause, alert in by_cause.items() if cause not in active][:MAX_NEW]
            for cause, alert in new:
                number = _insert_alert(connection, cause, alert, now)
                state = "sent" if alert.cause in delivered else "queued"
                dropped += _queue(connection, number, "raised", _select_sinks(sinks, alert.kind), now, state)
        return [alert for _, alert in new], dropped

    def resolve(self, unseen_seconds: float, sinks: Iterable[SinkConfig]) -> tuple[int, int]:
        """Resolve lasting alerts that no process has seen for so long. Return their number, and that of dropped messages."""
        now, resolved, dropped, every = self._clock(), 0, 0, tuple(sinks)
        stale = (_A.lasting, _A.active_cause.is_not(None), _A.seen < now - unseen_seconds)
        with self._database.read() as connection:
            rows = connection.execute(select(_A.id, _A.kind).where(*stale).limit(MAX_NEW)).all()
        if not rows:
            return 0, 0
        with self._database.write() as connection:
            for row in rows:
                change = update(alerts).where(_A.id == row.id, *stale).values(active_cause=None, resolved=now)
                if connection.execute(change).rowcount:
                    resolved += 1
                    dropped += _queue(connection, row.id, "resolved", _select_sinks(every, row.kind), now, "queued")
        return resolved, dropped

    def prune(self) -> None:
        """Delete old alerts, except lasting ones that are active."""
        old = [_A.raised < self._clock() - KEEP_SECONDS, sqlalchemy.or_(_A.active_cause.is_(None), ~_A.lasting)]
        with self._database.write() as connection:
            connection.execute(delete(alert_messages).where(_M.alert.in_(select(_A.id).where(*old))))
            connection.execute(delete(alerts).where(*old))

    # Messages

    def claim(self, sink: SinkConfig) -> list[Claimed]:
        """Return the messages that are due for a sink, oldest first, as many as its rate allows now. They are claimed."""
        now = self._clock()
        due = (_M.sink == sink.name, _M.state == "queued", _M.due <= now)
        with self._database.read() as connection:
            numbers = list(connection.scalars(select(_M.id).where(*due).order_by(_M.id).limit(sink.per_minute)))
        if not numbers:
            return []
        claimed = []
        with self._database.write() as connection:
            recent = (_M.sink == sink.name, _M.attempted > now - RATE_SECONDS)
            used = connection.execute(select(func.count()).select_from(alert_messages).where(*recent)).scalar_one()
            for number in numbers[: max(0, sink.per_minute - used)]:
                values = {"due": now + CLAIM_SECONDS, "attempts": _M.attempts + 1, "attempted": now}
                if connection.execute(update(alert_messages).where(_M.id == number, *due).values(values)).rowcount:
                    claimed.append(number)
            return _read_claimed(connection, claimed)

    def finish(self, message: Claimed, error: str = "") -> str:
        """Record the result of an attempt, and return the new state. After an error, the message is due again later."""
        values: dict[str, Any] = {"state": "sent", "error": ""}
        if error:
            is_last = message.attempts > len(PAUSES)
            due = self._clock() + PAUSES[min(message.attempts, len(PAUSES)) - 1]
            values = {"state": "failed" if is_last else "queued", "error": error[:500], "due": due}
        with self._database.write() as connection:
            connection.execute(update(alert_messages).where(_M.id == message.number).values(values))
        return str(values["state"])

    def drop_foreign(self, sinks: Collection[str]) -> None:
        """Give up the messages to sinks that conf no longer has."""
        foreign = (_M.state == "queued", _M.sink.not_in(sinks))
        with self._database.write() as connection:
            connection.execute(
                update(alert_messages).where(*foreign).values(state="dropped", error="The sink is no longer in conf.")
            )

    def count_queued(self) -> int:
        with self._database.read() as connection:
            return _count_queued(connection)

    def list_recent(self, limit: int = 100) -> list[AlertView]:
        """Return the last alerts, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(alerts).order_by(_A.id.desc()).limit(limit)).all()
            query = select(alert_messages).where(_M.alert.in_([row.id for row in rows])).order_by(_M.id)
            messages: dict[int, list[MessageView]] = {}
            for row in connection.execute(query):
                view = MessageView(
                    sink=row.sink, phase=row.phase, state=row.state, attempts=row.attempts, error=row.error
                )
                messages.setdefault(row.alert, []).append(view)
        return [
            AlertView(
                **{name: getattr(row, name) for name in ("id", "kind", "severity", "title", "message")},
                raised=row.raised,
                resolved=row.resolved,
                is_lasting=row.lasting,
                messages=tuple(messages.get(row.id, ())),
            )
            for row in rows
        ]


def _find_active(connection: Connection, causes: Mapping[str, Alert]) -> set[str]:
    names, active = list(causes), set[str]()
    for begin in range(0, len(names), 500):
        query = select(_A.active_cause).where(_A.active_cause.in_(names[begin : begin + 500]))
        active.update(str(cause) for cause in connection.scalars(query))
    return active


def _insert_alert(connection: Connection, cause: str, alert: Alert, now: float) -> int:
    row = {
        "active_cause": cause,
        "cause": cause,
        "kind": alert.kind,
        "severity": alert.severity,
        "title": alert.title[:LONGEST_TITLE],
        "message": alert.message[:LONGEST_MESSAGE],
        "lasting": alert.lasting,
        "raised": now,
        "seen": now,
    }
    return int(connection.execute(insert(alerts).values(row).returning(_A.id)).scalar_one())


def _queue(connection: Connection, alert: int, phase: str, sinks: Sequence[SinkConfig], now: float, state: str) -> int:
    """Add a message for each sink. Return how many were dropped, because too many wait."""
    if not sinks:
        return 0
    is_full = state == "queued" and _count_queued(connection) + len(sinks) > MAX_QUEUED
    error = f"More than {MAX_QUEUED} messages were waiting." if is_full else ""
    row = {"alert": alert, "phase": phase, "state": "dropped" if is_full else state, "attempts": 0, "due": now}
    connection.execute(insert(alert_messages), [{**row, "sink": sink.name, "error": error} for sink in sinks])
    return len(sinks) if is_full else 0


def _count_queued(connection: Connection) -> int:
    query = select(func.count()).select_from(alert_messages).where(_M.state == "queued")
    return int(connection.execute(query).scalar_one())


def _select_sinks(sinks: Sequence[SinkConfig], kind: str) -> list[SinkConfig]:
    return [sink for sink in sinks if kind in sink.events]


def _read_claimed(connection: Connection, numbers: Collection[int]) -> list[Claimed]:
    if not numbers:
        return []
    columns = (
        _M.id,
        _M.sink,
        _M.attempts,
        _M.phase,
        _A.kind,
        _A.severity,
        _A.title,
        _A.message,
        _A.raised,
        _A.resolved,
    )
    query = select(*columns, _A.id.label("alert")).join_from(alert_messages, alerts, _A.id == _M.alert)
    return [
        Claimed(
            number=row.id,
            sink=row.sink,
            attempts=row.attempts,
            notice=Notice(
                id=f"alert_{row.alert}_{row.phase}",
                phase=row.phase,
                kind=row.kind,
                severity=row.severity,
                title=row.title,
                message=row.message,
                moment=row.resolved if row.phase == "resolved" else row.raised,
            ),
        )
        for row in connection.execute(query.where(_M.id.in_(numbers)).order_by(_M.id))
    ]
