"""Cheaper rows of the ledger: values that no report sums or selects are one JSON text. Totals by day of each key and
user.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003_ledger"
down_revision = "0002_usage"

_FAILED = sa.column("outcome").in_(["broken", "refused", "failed"])
_KEPT = (
    *("id", "request_id", "key", "user", "team", "model", "provider", "operation", "status", "outcome"),
    *("input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens"),
    *("reasoning_tokens", "images", "seconds", "cost", "tags"),
)
_DETAILS = (
    *("key_name", "account", "upstream_model", "plugin", "format", "error_code", "end_user"),
    *("audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens", "characters"),
    *("first_byte_ms", "total_ms", "attempts", "body"),
)
_COUNTERS = (
    *("requests", "errors", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
    *("reasoning_tokens", "images", "seconds", "cost", "unpriced_requests"),
)


def upgrade() -> None:
    for name in ("request_id", "key", "model", "user", "team", "errors", "model_errors"):
        op.drop_index(f"ix_usage_{name}", "usage")
    op.rename_table("usage", "usage_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE usage_before RENAME CONSTRAINT pk_usage TO pk_usage_before")
    _create_usage()
    _copy_usage()
    op.drop_table("usage_before")
    _create_totals("usage_owner_days", ("key", "user", "team"))
    _create_totals("usage_user_days", ("user", "team", "model", "provider", "operation", "status"))


def _create_usage() -> None:
    def texts(*names: str) -> list[sa.Column[str]]:
        return [sa.Column(name, sa.Text(), nullable=False) for name in names]

    def counts(*names: str) -> list[sa.Column[int]]:
        return [sa.Column(name, sa.BigInteger(), nullable=True) for name in names]

    op.create_table(
        "usage",
        sa.Column("id", sa.String(length=24), nullable=False),
        *texts("request_id", "key", "user", "team", "model", "provider", "operation"),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        *counts("input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
        *counts("output_tokens", "reasoning_tokens"),
        sa.Column("images", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        *counts("cost"),
        *texts("tags", "details"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_usage_request_id", "usage", ["request_id"])
    op.create_index("ix_usage_key", "usage", ["key", "id"])
    op.create_index("ix_usage_model", "usage", ["model", "id"])
    for name in ("user", "team"):
        _create_partial_index(f"ix_usage_{name}", "usage", [name, "id"], sa.column(name) != "")
    _create_partial_index("ix_usage_errors", "usage", ["id", "model"], _FAILED)


def _copy_usage() -> None:
    kept = ", ".join(f'"{name}"' for name in _KEPT)
    members = ", ".join(f"'{name}', \"{name}\"" for name in _DETAILS)
    if op.get_bind().dialect.name == "sqlite":
        estimated = "json(CASE WHEN estimated THEN 'true' ELSE 'false' END)"
        details = f"json_object({members}, 'estimated', {estimated}, 'attribution', json(attribution))"
    else:
        rest = "'estimated', estimated, 'attribution', CAST(attribution AS json)"
        details = f"CAST(json_strip_nulls(json_build_object({members}, {rest})) AS text)"
    op.execute(f"INSERT INTO usage ({kept}, details) SELECT {kept}, {details} FROM usage_before")


def _create_totals(name: str, dimensions: tuple[str, ...]) -> None:
    """Create a table of totals by day, from the totals by day, key and all other dimensions."""
    op.create_table(
        name,
        sa.Column("bucket", sa.BigInteger(), autoincrement=False, nullable=False),
        *(
            sa.Column(column_name, sa.Integer() if column_name == "status" else sa.Text(), nullable=False)
            for column_name in dimensions
        ),
        *(
            sa.Column(column_name, sa.Double() if column_name == "seconds" else sa.BigInteger(), nullable=False)
            for column_name in _COUNTERS
        ),
        sa.PrimaryKeyConstraint("bucket", *dimensions, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )
    for column_name in ("key", "user"):
        if column_name in dimensions:
            _create_partial_index(
                f"ix_{name}_{column_name}", name, [column_name, "bucket"], sa.column(column_name) != ""
            )
    columns = ", ".join(f'"{column}"' for column in ("bucket", *dimensions))
    sums = ", ".join(f"sum({counter})" for counter in _COUNTERS)
    op.execute(
        f"INSERT INTO {name} ({columns}, {', '.join(_COUNTERS)}) "
        f"SELECT {columns}, {sums} FROM usage_key_days GROUP BY {columns}"
    )


def _create_partial_index(name: str, table: str, columns: list[str], where: sa.ColumnElement[bool]) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
