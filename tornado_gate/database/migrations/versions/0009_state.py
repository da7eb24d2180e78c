"""Kept values and client secrets in the database, for several nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0009_state"
down_revision = "0008_nodes"


def upgrade() -> None:
    op.create_table(
        "kept_values",
        sa.Column("account", sa.LargeBinary(length=32), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("account", "name", name=op.f("pk_kept_values")),
    )
    op.create_index("ix_kept_values_account_expires", "kept_values", ["account", "expires", "bytes"], unique=False)
    op.create_index("ix_kept_values_expires", "kept_values", ["expires"], unique=False)
    op.create_table(
        "client_secrets",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("account", sa.LargeBinary(length=32), nullable=False),
        sa.Column("claims", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_client_secrets")),
    )
    op.create_index("ix_client_secrets_account_expires", "client_secrets", ["account", "expires"], unique=False)
    op.create_index("ix_client_secrets_expires", "client_secrets", ["expires"], unique=False)
