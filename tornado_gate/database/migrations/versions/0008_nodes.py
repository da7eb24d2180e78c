"""Nodes, and the configuration in the database."""

import sqlalchemy as sa
from alembic import op

revision = "0008_nodes"
down_revision = "0007_alerts"


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("process", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("code", sa.String(length=40), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("conf_version", sa.BigInteger(), nullable=True),
        sa.Column("conf_digest", sa.String(length=64), nullable=False),
        sa.Column("applied", sa.Double(), nullable=False),
        sa.Column("refused_version", sa.BigInteger(), nullable=True),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "process", name=op.f("pk_nodes")),
    )
    op.create_table(
        "conf_versions",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("made_by", sa.String(length=320), nullable=False),
        sa.Column("message", sa.String(length=500), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_conf_versions")),
    )
    op.create_table(
        "conf_secrets",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.Column("retired", sa.Double(), nullable=True),
        sa.Column("written", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_conf_secrets")),
    )
