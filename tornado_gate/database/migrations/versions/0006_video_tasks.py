"""Video tasks in the database, for several nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0006_video_tasks"
down_revision = "0005_makers"


def upgrade() -> None:
    _create_tasks()
    op.create_table(
        "video_holders",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_video_holders")),
    )
    op.create_table(
        "video_slots",
        sa.Column("provider", sa.String(length=8), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "number", name=op.f("pk_video_slots")),
    )
    op.create_index("ix_video_slots_holder", "video_slots", ["holder"], unique=False)
    op.create_table(
        "video_turns",
        sa.Column("provider", sa.String(length=8), nullable=False),
        sa.Column("account", sa.String(length=8), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "account", name=op.f("pk_video_turns")),
    )
    op.create_table(
        "video_images",
        sa.Column("task", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("stored", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("task", "number", name=op.f("pk_video_images")),
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("account", sa.LargeBinary(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("secret", sa.String(length=100), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("account", "number", name=op.f("pk_webhook_secrets")),
    )


def _create_tasks() -> None:
    op.create_table(
        "video_tasks",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("account", sa.LargeBinary(length=32), nullable=False),
        sa.Column("provider", sa.String(length=8), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("key", sa.LargeBinary(length=32), nullable=True),
        sa.Column("cancel", sa.Boolean(), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_video_tasks")),
        sa.UniqueConstraint("id", name=op.f("uq_video_tasks_id")),
        sa.UniqueConstraint("key", name=op.f("uq_video_tasks_key")),
    )
    op.create_index("ix_video_tasks_account_number", "video_tasks", ["account", "number"], unique=False)
    active = sa.text("active")
    op.create_index(
        "ix_video_tasks_created", "video_tasks", ["created"], unique=False, sqlite_where=active, postgresql_where=active
    )
    op.create_index("ix_video_tasks_expires", "video_tasks", ["expires"], unique=False)
    op.create_index("ix_video_tasks_holder", "video_tasks", ["holder"], unique=False)
