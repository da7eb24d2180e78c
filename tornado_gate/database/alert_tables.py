"""The tables of alerts: what was noticed, and the messages about it. See `tables.py` and `alerts/store.py`."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, String, Table, Text

from tornado_gate.database.tables import BIG_ID, METADATA

alerts = Table(
    "alerts",
    METADATA,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("active_cause", String(400), unique=True),  # none: resolved
    Column("cause", String(400), nullable=False),
    Column("kind", String(30), nullable=False),
    Column("severity", String(20), nullable=False),  # warning, critical
    Column("title", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("lasting", Boolean, nullable=False),  # resolved when no process sees its cause any more
    Column("raised", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("resolved", Double),
    Index("ix_alerts_raised", "raised"),
)
"""The unique cause of active alerts lets one process of all nodes raise an alert."""

alert_messages = Table(
    "alert_messages",
    METADATA,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("alert", ForeignKey("alerts.id", ondelete="CASCADE"), nullable=False),
    Column("sink", String(40), nullable=False),
    Column("phase", String(20), nullable=False),  # raised, resolved
    Column("state", String(20), nullable=False),  # queued, sent, failed, dropped
    Column("attempts", Integer, nullable=False),
    Column("due", Double, nullable=False),
    Column("attempted", Double),
    Column("error", Text, nullable=False),
    Index("ix_alert_messages_alert", "alert"),
    Index("ix_alert_messages_state_due", "state", "due"),
    Index("ix_alert_messages_sink_attempted", "sink", "attempted"),
)
