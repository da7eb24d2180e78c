"""The nodes that share the database: the rows by which their processes announce themselves, and the view of each node."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Literal

from sqlalchemy import Row, delete, select
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK, read_clock
from tornado_gate.database.engine import Database
from tornado_gate.database.node_tables import conf_versions, nodes
from tornado_gate.types.value import Value

HEARTBEAT_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 15.0
"""The age of the last heartbeat with which a node counts as silent."""
EXPIRY_SECONDS: Final = 600.0
"""The time for which a silent node is still listed."""

_KEY: Final = (nodes.c.id, nodes.c.process)


class ProcessRow(Value, frozen=True, kw_only=True):
    """What a process announces. `applied` is the age of its configuration in seconds."""

    id: str
    process: int
    host: str
    code: str
    uptime: float
    conf_version: int | None
    conf_digest: str
    applied: float
    refused_version: int | None
    fault: str


class NodeView(Value, frozen=True, kw_only=True):
    """A running gateway. Times are Unix seconds on the clock of the database.

    `version` is that of tornado_gate. `state` is silent if no process has announced itself for 15 s; after 10 minutes the node is
    no longer listed. `conf_version` is the oldest version that one of its processes uses, null if the configuration is a file;
    `conf_digest` is the version of its text. `behind` counts newer versions. `lag_seconds` is the time from the making of a
    version to its use: of the version in use, or, if there is a newer one, of that one until now. `refused_version` is a newer
    version that the node cannot use, because of `fault`.
    """

    id: str
    host: str
    version: str
    state: Literal["serving", "silent"]
    started: float
    last_seen: float
    processes: int
    conf_version: int | None
    conf_digest: str
    behind: int
    lag_seconds: float | None
    refused_version: int | None
    fault: str


def announce(database: Database, row: ProcessRow) -> None:
    """Write the row of a process. Blocks. Raises DatabaseError."""
    from sqlalchemy.dialects.postgresql import insert

    values = {
        **{name: getattr(row, name) for name in row.__struct_fields__ if name != "uptime"},
        "started": CLOCK - row.uptime,
        "seen": CLOCK,
        "applied": CLOCK - row.applied,
    }
    changes = {name: value for name, value in values.items() if name not in ("id", "process", "started")}
    with database.write() as connection:
        connection.execute(insert(nodes).values(values).on_conflict_do_update(index_elements=_KEY, set_=changes))
        connection.execute(delete(nodes).where(nodes.c.seen < CLOCK - EXPIRY_SECONDS))


def remove(database: Database, node: str, process: int) -> None:
    """Delete the row of a process that stops. Blocks. Raises DatabaseError."""
    with database.write() as connection:
        connection.execute(delete(nodes).where(nodes.c.id == node, nodes.c.process == process))


def list_nodes(database: Database) -> list[NodeView]:
    """Return the nodes, oldest first; [] for SQLite, which has none. Blocks. Raises DatabaseError."""
    if database.is_file:
        return []
    with database.read() as connection:
        now = read_clock(connection)
        rows = connection.execute(select(nodes).where(nodes.c.seen >= now - EXPIRY_SECONDS).order_by(nodes.c.id)).all()
        made = _read_moments(connection, rows)
    views = [_describe_node(list(own), made, now) for _, own in groupby(rows, key=lambda row: row.id)]
    return sorted(views, key=lambda view: (view.started, view.id))


def _read_moments(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, float]:
    """Return when the versions were made, from the oldest that is in use."""
    oldest = min((row.conf_version for row in rows if row.conf_version is not None), default=None)
    if oldest is None:
        return {}
    query = select(conf_versions.c.number, conf_versions.c.made).where(conf_versions.c.number >= oldest)
    return dict(connection.execute(query).tuples().all())


def _describe_node(rows: list[Row[Any]], made: dict[int, float], now: float) -> NodeView:
    """Return the view of a node from the rows of its processes. The silent ones count only if all are silent."""
    alive = [row for row in rows if row.seen >= now - SILENT_SECONDS]
    counted = alive or rows
    slowest = min(counted, key=lambda row: row.conf_version or 0)
    refused = next((row for row in counted if row.fault), slowest)
    newer = sorted(number for number in made if slowest.conf_version is not None and number > slowest.conf_version)
    return NodeView(
        id=slowest.id,
        host=slowest.host,
        version=slowest.code,
        state="serving" if alive else "silent",
        started=min(row.started for row in rows),
        last_seen=max(row.seen for row in rows),
        processes=len(counted),
        conf_version=slowest.conf_version,
        conf_digest=slowest.conf_digest,
        behind=len(newer),
        lag_seconds=_find_lag(counted, newer, made, now),
        refused_version=refused.refused_version,
        fault=refused.fault,
    )


def _find_lag(rows: list[Row[Any]], newer: list[int], made: dict[int, float], now: float) -> float | None:
    if newer:
        return round(now - made[newer[0]], 3)
    lags = [row.applied - made[row.conf_version] for row in rows if row.conf_version in made]
    return round(max(0.0, *lags), 3) if lags else None
