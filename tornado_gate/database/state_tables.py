"""The tables of short-lived state that is in the database: `state: {store: database}`. See `tables.py`."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, LargeBinary, String, Table

from tornado_gate.database.tables import METADATA

kept_values = Table(
    "kept_values",
    METADATA,
    Column("account", LargeBinary(32), primary_key=True),  # SHA-256 of its name, which may be any text
    Column(
        "name", LargeBinary, primary_key=True
    ),  # in UTF-8: a name may contain the id of an upstream, which is any text
    Column("value", LargeBinary, nullable=False),  # JSON
    Column("bytes", Integer, nullable=False),  # of the row
    Column("expires", Double, nullable=False),
    Index("ix_kept_values_account_expires", "account", "expires", "bytes"),  # has the sums of accounts
    Index("ix_kept_values_expires", "expires"),
)
"""Kept responses and conversations, records of upstream objects, signatures of thinking: the values of `call.memory`."""

client_secrets = Table(
    "client_secrets",
    METADATA,
    Column("name", String(64), primary_key=True),  # SHA-256 of the secret
    Column("account", LargeBinary(32), nullable=False),
    Column("claims", LargeBinary, nullable=False),
    Column("expires", Double, nullable=False),
    Index("ix_client_secrets_account_expires", "account", "expires"),
    Index("ix_client_secrets_expires", "expires"),
)
