"""The audit log: one row for each change of accounts, keys and teams, written in the transaction of the change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.people import Actor
from tornado_gate.accounts.texts import make_storable, shorten
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.types.value import Value

LONGEST_PAGE = 1000


class AuditEvent(Value, frozen=True, kw_only=True):
    """One change. `action` is a name such as `key.create`; `object` is an id; `detail` depends on the action and has no
    secrets.
    """

    id: int
    moment: float
    actor: str
    actor_name: str
    action: str
    object: str
    detail: Mapping[str, Any]
    address: str
    request_id: str


def record(connection: Connection, actor: Actor, action: str, object: str, **detail: Any) -> None:
    """Add an event in the caller's transaction. `detail` must be JSON and without secrets."""
    row = {
        "moment": time.time(),
        "actor": shorten(actor.id, 100),
        "actor_name": shorten(actor.name, 320),
        "action": action,
        "object": shorten(object, 200),
        "detail": detail,
        "address": shorten(actor.address, 60),
        "request_id": shorten(actor.request_id, 130),
    }
    connection.execute(insert(tables.audit), [row])


def list_events(
    database: Database, *, before: int | None = None, limit: int = 100, action: str = "", actor: str = ""
) -> list[AuditEvent]:
    """Return events, newest first, with an id below `before`. `actor` and `action` are filters; `user.` matches its
    whole group.
    """
    columns = tables.audit.c
    query = select(tables.audit).order_by(columns.id.desc()).limit(max(1, min(limit, LONGEST_PAGE)))
    if before is not None:
        query = query.where(columns.id < before)
    if action:
        is_prefix = action.endswith(".")
        query = query.where(
            columns.action.startswith(make_storable(action), autoescape=True)
            if is_prefix
            else columns.action == make_storable(action)
        )
    if actor:
        query = query.where(columns.actor == make_storable(actor))
    with database.read() as connection:
        return [AuditEvent(**row._mapping) for row in connection.execute(query)]
