"""The clock of PostgreSQL, which all nodes use where their own clocks would differ."""

from __future__ import annotations

from sqlalchemy import Double, cast, func, select
from sqlalchemy.engine import Connection

CLOCK = cast(func.extract("epoch", func.clock_timestamp()), Double)
"""The clock of the database, in Unix seconds."""


def read_clock(connection: Connection) -> float:
    """Return the time of the database, in Unix seconds."""
    return float(connection.execute(select(CLOCK)).scalar_one())
