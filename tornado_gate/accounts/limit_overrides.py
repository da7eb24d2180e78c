"""Temporary limits that administrators set. They count as changes of keys, so all processes apply them within a second."""

from __future__ import annotations

import math
import time
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, NotFound
from tornado_gate.accounts.makers import Makers
from tornado_gate.accounts.people import Actor
from tornado_gate.accounts.revision import bump_revision, lock_accounts
from tornado_gate.accounts.rows import Part, check_administrator
from tornado_gate.accounts.texts import make_storable
from tornado_gate.accounts.tokens import make_id
from tornado_gate.codec.durations import LATEST_MOMENT
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.types import Budget, Limits
from tornado_gate.types.value import Value, replace

SUBJECT_KINDS: Final = ("key", "user", "team", "model", "provider", "gateway")
BOUNDS: Final = (*Limits.__struct_fields__, *Budget.__struct_fields__)
MOST: Final = 10_000
LARGEST: Final = 1e15
CONF_KEY: Final = "conf:"
"""The beginning of the ids of keys in conf."""
_TABLE = tables.limit_overrides
_TABLES: Final = {"user": tables.users, "team": tables.teams, "key": tables.keys}


class Override(Value, frozen=True, kw_only=True):
    """A change of one limit or budget until `until`, in Unix seconds. Either `value` (US dollars for money) or `factor`
    is set.

    `kind` is the kind of the subject. `subject` is its id or name, "" for the whole gateway. `factor` multiplies the
    bound that the subject has otherwise. `suspended` is the reason why the override does not count now, because of its
    maker; None if it counts.
    """

    id: str
    kind: str
    subject: str
    bound: str
    value: float | None = None
    factor: float | None = None
    created: float
    created_by: str
    until: float
    suspended: str | None = None


_FIELDS = tuple(name for name in Override.__struct_fields__ if name != "suspended")


class LimitOverrides(Part):
    """The overrides of limits. Only administrators change them."""

    def list_all(self) -> list[Override]:
        """Return the overrides that have not ended, newest first, including suspended ones."""
        return list_overrides(self.database)

    def create(
        self,
        kind: str,
        subject: str,
        bound: str,
        actor: Actor,
        *,
        value: float | None = None,
        factor: float | None = None,
        until: float,
    ) -> Override:
        """Create an override. Raises Denied, AccountError."""
        check_administrator(actor)
        made = Override(
            id=make_id("override"),
            kind=kind,
            subject=subject,
            bound=bound,
            value=value,
            factor=factor,
            created=time.time(),
            created_by=actor.id,
            until=until,
        )
        _check_override(made)
        with self.database.write() as connection:
            lock_accounts(connection)
            made = replace(made, subject=_find_subject(connection, kind, subject))
            row = {name: getattr(made, name) for name in _FIELDS}
            connection.execute(delete(_TABLE).where(_TABLE.c.until <= made.created))
            if len(connection.execute(select(_TABLE.c.id).limit(MOST)).all()) >= MOST:
                raise AccountError(f"There are {MOST} overrides. End some.", code="too_many_overrides")
            bump_revision(connection)
            connection.execute(insert(_TABLE), [row])
            detail = {name: row[name] for name in ("kind", "subject", "bound", "value", "factor", "until")}
            record(connection, actor, "limit.override", made.id, **detail)
        return made

    def end(self, identity: str, actor: Actor) -> None:
        """End an override before its time. Raises Denied, NotFound."""
        check_administrator(actor)
        with self.database.write() as connection:
            lock_accounts(connection)
            bump_revision(connection)
            row = connection.execute(select(_TABLE).where(_TABLE.c.id == make_storable(identity))).one_or_none()
            if row is None:
                raise NotFound(
                    "There is no temporary limit with this ID. `limits list`, or the page Limits, shows all.",
                    code="unknown_override",
                )
            connection.execute(delete(_TABLE).where(_TABLE.c.id == row.id))
            record(
                connection,
                actor,
                "limit.end_override",
                row.id,
                kind=row.kind,
                subject=row.subject,
                bound=row.bound,
            )


def list_overrides(database: Database) -> list[Override]:
    """Return the overrides that have not ended, newest first, including suspended ones. Raises DatabaseError."""
    query = select(_TABLE).where(_TABLE.c.until > time.time()).order_by(_TABLE.c.created.desc())
    with database.read() as connection:
        overrides, makers = [Override(**row._mapping) for row in connection.execute(query)], Makers(connection)
        return [_add_suspension(makers, override) for override in overrides]


def _add_suspension(makers: Makers, override: Override) -> Override:
    """Return the override with the reason why it does not count. It ends with the key that made it."""
    verdict = makers.judge(override.created_by, check_administrator)
    until = override.until if verdict.until is None else min(override.until, verdict.until)
    return replace(override, until=until, suspended=verdict.reason or None)


def read_overrides(database: Database) -> list[Override]:
    """Return the overrides that count now, newest first: their makers could make them now. Raises DatabaseError."""
    return [override for override in list_overrides(database) if override.suspended is None]


def _check_override(override: Override) -> None:
    if override.kind not in SUBJECT_KINDS:
        raise _make_fault("kind", f"A subject is one of {', '.join(SUBJECT_KINDS)}.")
    if override.kind == "gateway" and override.subject:
        raise _make_fault("subject", "The gateway has no name. Leave the subject empty.")
    if override.kind != "gateway" and not (0 < len(override.subject) <= 300 and override.subject.isprintable()):
        raise _make_fault("subject", f"Name the {override.kind}: its id, or its name in conf.")
    if override.bound not in BOUNDS:
        raise _make_fault("bound", f"A bound is one of {', '.join(BOUNDS)}.")
    if (override.value is None) == (override.factor is None):
        raise _make_fault("value" if override.value is None else "factor", "Give a value or a factor, and not both.")
    field = "value" if override.factor is None else "factor"
    number = override.value if override.factor is None else override.factor
    least = 0.0 if field == "factor" or override.bound.startswith("usd") else 1.0
    if not _is_number(number) or not least <= float(number or 0) <= LARGEST:
        raise _make_fault(field, f"The {field} must be a number from {least:g}.")
    if not _is_number(override.until) or not time.time() < override.until <= LATEST_MOMENT:
        raise _make_fault("until", "The end must be in the future, and before the year 10000.")


def _find_subject(connection: Connection, kind: str, subject: str) -> str:
    """Return the id under which the subject's requests are counted. Raises AccountError for an unknown user, team or
    key.

    Names of conf cannot be checked here: names of models, of provider entries, and of keys (``conf:NAME``).
    """
    if kind not in _TABLES or (kind == "key" and subject.startswith(CONF_KEY)):
        return subject
    table = _TABLES[kind]
    row = connection.execute(select(table).where(table.c.id == make_storable(subject))).one_or_none()
    if row is None:
        also = f", or {CONF_KEY}NAME for a key of the configuration" if kind == "key" else ""
        raise _make_fault(
            "subject",
            f"There is no {kind} with this id. Give its id, or on the page Limits a name that only one {kind} has{also}.",
        )
    return (row.counted_as if kind == "key" else None) or str(row.id)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _make_fault(field: str, message: str) -> AccountError:
    return AccountError(message, code="invalid_override", field=field)
