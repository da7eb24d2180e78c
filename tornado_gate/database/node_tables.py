"""The tables of several nodes that share a PostgreSQL database. See `tables.py`. SQLite has them too, empty.

`seen`, `made`, `applied` and `written` are times on the clock of the database, because the clocks of nodes may differ.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Integer, String, Table, Text

from tornado_gate.database.tables import METADATA

nodes = Table(
    "nodes",
    METADATA,
    Column("id", String(32), primary_key=True),  # random at each start of a gateway; its processes share it
    Column("process", Integer, primary_key=True, autoincrement=False),
    Column("host", String(255), nullable=False),
    Column("code", String(40), nullable=False),  # the version of tornado_gate
    Column("started", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("conf_version", BigInteger),  # of `conf_versions`; none: the configuration is a file
    Column("conf_digest", String(64), nullable=False),
    Column("applied", Double, nullable=False),  # when the process began to use its configuration
    Column("refused_version", BigInteger),  # a newer version that the process cannot use
    Column("fault", Text, nullable=False),  # why it cannot; "": it uses the newest one
)
"""The running processes of all nodes. Each renews its own row."""

conf_versions = Table(
    "conf_versions",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, …
    Column("digest", String(64), nullable=False),  # `digest_text` of the text
    Column("text", Text, nullable=False),
    Column("made", Double, nullable=False),
    Column("made_by", String(320), nullable=False),
    Column("message", String(500), nullable=False),
)
"""The versions of a configuration that is in the database."""

conf_secrets = Table(
    "conf_secrets",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", Text, nullable=False),  # encrypted with GATE_SECRET_KEY, which all nodes have
    Column("changed", Double, nullable=False),
    Column("retired", Double),  # since when no version names it
    Column("written", Double, nullable=False),
)
"""The secrets that a configuration in the database names."""
