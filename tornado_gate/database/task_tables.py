"""The tables of video tasks that are in the database: `tasks: {store: database}`. See `tables.py`.

A lease or a slot is held by `holder`, a row of `video_holders`, which a running process renews. When its time has passed on the
clock of the database, another process deletes this row and releases the leases and slots. `fence` counts how often the lease or
the slot was taken: a change with an older number is not accepted.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, LargeBinary, String, Table, text

from tornado_gate.database.tables import BIG_ID, METADATA

video_tasks = Table(
    "video_tasks",
    METADATA,
    Column("number", BIG_ID, primary_key=True, autoincrement=True),  # the order of creation
    Column("id", String(40), nullable=False, unique=True),
    Column("account", LargeBinary(32), nullable=False),  # SHA-256 of its name, which may be any text
    Column("provider", String(8), nullable=False),  # `compute_digest` of its name
    Column("created", BigInteger, nullable=False),  # nanoseconds
    Column("record", LargeBinary, nullable=False),  # `encode_record`
    Column("active", Boolean, nullable=False),  # has not ended
    Column("expires", Double),
    Column("key", LargeBinary(32), unique=True),  # digest of the account and its idempotency key
    Column("cancel", Boolean, nullable=False),  # its cancellation was requested
    Column("holder", String(32)),
    Column("fence", BigInteger, nullable=False),
    Index("ix_video_tasks_account_number", "account", "number"),
    Index("ix_video_tasks_created", "created", sqlite_where=text("active")),
    Index("ix_video_tasks_expires", "expires"),
    Index("ix_video_tasks_holder", "holder"),
)

video_holders = Table(
    "video_holders",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("until", Double, nullable=False),
)

video_slots = Table(
    "video_slots",
    METADATA,
    Column("provider", String(8), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("holder", String(32)),
    Column("fence", BigInteger, nullable=False),
    Index("ix_video_slots_holder", "holder"),
)
"""The slots of running tasks: `videos.concurrency` of each provider."""

video_turns = Table(
    "video_turns",
    METADATA,
    Column("provider", String(8), primary_key=True),
    Column("account", String(8), primary_key=True),  # `compute_digest` of its name
    Column("number", BigInteger, nullable=False),
)
"""The order of the accounts whose tasks were started: the highest number was the last one."""

video_images = Table(
    "video_images",
    METADATA,
    Column("task", String(40), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Column("stored", Double, nullable=False),
)
"""The images of tasks that have not ended, in chunks. They are stored before their task."""

webhook_secrets = Table(
    "webhook_secrets",
    METADATA,
    Column("account", LargeBinary(32), primary_key=True),  # SHA-256 of its name
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("secret", String(100), nullable=False),  # see `tasks.webhook_cipher`; "": webhooks are off
    Column("expires", Double),
)
