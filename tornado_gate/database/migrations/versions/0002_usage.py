"""The usage ledger: one row for each request, and totals by hour and by day."""

import sqlalchemy as sa
from alembic import op

revision = "0002_usage"
down_revision = "0001_accounts"


def upgrade() -> None:
    _create_usage()
    shared = ("team", "model", "provider", "operation", "status")
    for span in ("hours", "days"):
        for tagged in ((), ("tag",)):
            for keyed in ((), ("key", "user")):
                name = f"usage_{'tag_' if tagged else ''}{'key_' if keyed else ''}{span}"
                _create_totals(name, (*tagged, *keyed, *shared))


def _create_usage() -> None:
    def texts(*names: str) -> list[sa.Column[str]]:
        return [sa.Column(name, sa.Text(), nullable=False) for name in names]

    def counts(*names: str) -> list[sa.Column[int]]:
        return [sa.Column(name, sa.BigInteger(), nullable=True) for name in names]

    op.create_table(
        "usage",
        sa.Column("id", sa.String(length=24), nullable=False),
        sa.Column("moment", sa.Double(), nullable=False),
        *texts("request_id", "key", "key_name", "account", "user", "team"),
        *texts("model", "upstream_model", "provider", "plugin", "operation", "format"),
        sa.Column("status", sa.Integer(), nullable=False),
        *texts("error_code"),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        *counts("input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
        *counts("output_tokens", "reasoning_tokens", "audio_input_tokens", "audio_output_tokens"),
        *counts("image_tokens", "image_output_tokens"),
        sa.Column("images", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("characters", sa.BigInteger(), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("first_byte_ms", sa.Double(), nullable=True),
        sa.Column("total_ms", sa.Double(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        *counts("cost"),
        *texts("tags", "end_user", "attribution"),
        sa.Column("body", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_usage_request_id", "usage", ["request_id"])
    op.create_index("ix_usage_key", "usage", ["key", "id"])
    op.create_index("ix_usage_model", "usage", ["model", "id"])
    for name in ("user", "team"):
        _create_partial_index(f"ix_usage_{name}", "usage", [name, "id"], sa.column(name) != "")
    failed = sa.column("outcome").in_(["broken", "refused", "failed"])
    _create_partial_index("ix_usage_errors", "usage", ["id"], failed)
    _create_partial_index("ix_usage_model_errors", "usage", ["model", "id"], failed)


def _create_totals(name: str, dimensions: tuple[str, ...]) -> None:
    counters = [
        *("requests", "errors", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
        *("reasoning_tokens", "images", "seconds", "cost", "unpriced_requests"),
    ]
    op.create_table(
        name,
        sa.Column("bucket", sa.BigInteger(), autoincrement=False, nullable=False),
        *(
            sa.Column(column, sa.Integer() if column == "status" else sa.Text(), nullable=False)
            for column in dimensions
        ),
        *(
            sa.Column(column, sa.Double() if column == "seconds" else sa.BigInteger(), nullable=False)
            for column in counters
        ),
        sa.PrimaryKeyConstraint("bucket", *dimensions, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )
    for column in ("tag", "key", "user"):
        if column in dimensions:
            _create_partial_index(f"ix_{name}_{column}", name, [column, "bucket"], sa.column(column) != "")


def _create_partial_index(name: str, table: str, columns: list[str], where: sa.ColumnElement[bool]) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
