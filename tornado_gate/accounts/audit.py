"""The audit log: who changed what, when and from where."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from tornado_gate.accounts.people import Actor
from tornado_gate.database import tables


def record(connection: Connection, actor: Actor, action: str, object: str, **detail: Any) -> None:
    """Add an event, in the transaction of the change."""
    row = {
        "moment": time.time(),
        "actor": actor.id,
        "actor_name": actor.name,
        "action": action,
        "object": object,
        "detail": detail,
        "address": actor.address,
        "request_id": actor.request_id,
    }
    connection.execute(insert(tables.audit), [row])
