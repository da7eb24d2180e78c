"""Users, organisations, teams, sessions, keys and the audit log. Copies the keys of an SQLite file of version 0.1."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001_accounts"
down_revision = None


def upgrade() -> None:
    known = _take_old_keys()
    _create_tables()
    op.execute(sa.text("INSERT INTO meta (name, value) VALUES ('revision', '0')"))
    if known:
        keys = sa.table("keys", *(sa.column(name, sa.JSON() if name in _JSON else None) for name in known[0]))
        op.bulk_insert(keys, known)


_JSON = frozenset({"models", "operations", "addresses", "tags", "limits", "budget"})


def _take_old_keys() -> list[dict[str, Any]]:
    """Remove the tables of version 0.1 and return its keys as rows of the new table."""
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("api_keys"):
        return []
    rows = [dict(row._mapping) for row in connection.execute(sa.text("SELECT * FROM api_keys"))]
    op.drop_table("api_keys")
    op.drop_table("meta")
    for row in rows:
        row |= {name: json.loads(row[name]) for name in ("models", "operations")}
        row |= {"addresses": [], "tags": [], "limits": {}, "budget": {}}
        row |= {"role": "member", "hidden": False, "created_by": "command"}
    return rows


def _create_tables() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("moment", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(length=100), nullable=False),
        sa.Column("actor_name", sa.String(length=320), nullable=False),
        sa.Column("action", sa.String(length=100), nullable=False),
        sa.Column("object", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("address", sa.String(length=60), nullable=False),
        sa.Column("request_id", sa.String(length=130), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_moment", "audit", ["moment"], unique=False)
    op.create_table(
        "login_failures",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("subject", sa.LargeBinary(length=32), nullable=False),
        sa.Column("moment", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login_failures")),
    )
    op.create_index("ix_login_failures_subject_moment", "login_failures", ["subject", "moment"], unique=False)
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "organisations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organisations")),
        sa.UniqueConstraint("name", name=op.f("uq_organisations_name")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("email_key", sa.String(length=320), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("subject", sa.String(length=600), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("last_login", sa.Double(), nullable=True),
        sa.Column("password_changed", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email_key", name=op.f("uq_users_email_key")),
        sa.UniqueConstraint("subject", name=op.f("uq_users_subject")),
    )
    op.create_table(
        "reset_links",
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("user", sa.String(length=40), nullable=False),
        sa.Column("created_by", sa.String(length=40), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_reset_links_user_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_reset_links")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("user", sa.String(length=40), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("address", sa.String(length=60), nullable=False),
        sa.Column("agent", sa.String(length=300), nullable=False),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_sessions_user_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
    op.create_index("ix_sessions_user", "sessions", ["user"], unique=False)
    op.create_table(
        "teams",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("organisation", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organisation"], ["organisations.id"], name=op.f("fk_teams_organisation_organisations"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_teams")),
        sa.UniqueConstraint("organisation", "name", name=op.f("uq_teams_organisation")),
    )
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("email_key", sa.String(length=320), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("team", sa.String(length=40), nullable=True),
        sa.Column("created_by", sa.String(length=40), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=True),
        sa.Column("used_by", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["team"], ["teams.id"], name=op.f("fk_invitations_team_teams"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("digest", name=op.f("uq_invitations_digest")),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("account", sa.String(length=200), nullable=False),
        sa.Column("user", sa.String(length=40), nullable=True),
        sa.Column("team", sa.String(length=40), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("prefix", sa.String(length=20), nullable=False),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.Column("operations", sa.JSON(), nullable=False),
        sa.Column("addresses", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.Column("last_used", sa.Double(), nullable=True),
        sa.Column("replaced_by", sa.String(length=40), nullable=True),
        sa.Column("counted_as", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["team"], ["teams.id"], name=op.f("fk_keys_team_teams"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_keys_user_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_keys_digest")),
    )
    op.create_index("ix_keys_created", "keys", ["created"], unique=False)
    op.create_index("ix_keys_user", "keys", ["user"], unique=False)
    op.create_table(
        "team_members",
        sa.Column("team", sa.String(length=40), nullable=False),
        sa.Column("user", sa.String(length=40), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(["team"], ["teams.id"], name=op.f("fk_team_members_team_teams"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name=op.f("fk_team_members_user_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("team", "user", name=op.f("pk_team_members")),
    )
    op.create_index("ix_team_members_user", "team_members", ["user"], unique=False)
