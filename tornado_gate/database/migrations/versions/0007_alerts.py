"""Alerts, and the messages about them."""

import sqlalchemy as sa
from alembic import op

revision = "0007_alerts"
down_revision = "0006_video_tasks"


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "alerts",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("active_cause", sa.String(length=400), nullable=True),
        sa.Column("cause", sa.String(length=400), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("severity", sa.String(length=20), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("lasting", sa.Boolean(), nullable=False),
        sa.Column("raised", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("resolved", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("active_cause", name=op.f("uq_alerts_active_cause")),
    )
    op.create_index("ix_alerts_raised", "alerts", ["raised"], unique=False)
    op.create_table(
        "alert_messages",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("alert", number, nullable=False),
        sa.Column("sink", sa.String(length=40), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("attempted", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert"], ["alerts.id"], name=op.f("fk_alert_messages_alert_alerts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_messages")),
    )
    op.create_index("ix_alert_messages_alert", "alert_messages", ["alert"], unique=False)
    op.create_index("ix_alert_messages_state_due", "alert_messages", ["state", "due"], unique=False)
    op.create_index("ix_alert_messages_sink_attempted", "alert_messages", ["sink", "attempted"], unique=False)
