"""Limits and budgets of users, and temporary limits that administrators have set."""

import sqlalchemy as sa
from alembic import op

revision = "0004_limits"
down_revision = "0003_ledger"


def upgrade() -> None:
    for name in ("budget", "limits"):
        op.add_column("users", sa.Column(name, sa.JSON(), nullable=True))
    op.create_table(
        "limit_overrides",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("bound", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("factor", sa.Double(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_limit_overrides")),
    )
    op.create_index("ix_limit_overrides_until", "limit_overrides", ["until"], unique=False)
