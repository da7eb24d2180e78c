"""The tables. A change here needs a migration in `migrations/versions`; a test compares both.

Times are Unix seconds. Ids are random texts with a prefix (`user_`, `key_`). Secrets are stored as SHA-256 digests, passwords as
argon2id hashes.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BIG_ID = BigInteger().with_variant(Integer(), "sqlite")
"""A number that the database assigns; SQLite does so for INTEGER only."""

meta = Table(
    "meta",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Values of the whole gateway: ``revision`` counts changes of keys, users and teams."""

organisations = Table(
    "organisations",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Double, nullable=False),
)

teams = Table(
    "teams",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("organisation", ForeignKey("organisations.id", ondelete="CASCADE"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("budget", JSON, nullable=False),  # {"usd_per_day", "usd_per_month", "tokens_per_day"}, each optional
    Column("limits", JSON, nullable=False),  # {"requests_per_minute", "tokens_per_minute", "concurrent_requests"}
    Column("models", JSON, nullable=False),  # globs; empty: all
    Column("created", Double, nullable=False),
    Column("personal_keys", Boolean),  # whether members make keys outside a team with limits; none: the default of conf
    UniqueConstraint("organisation", "name"),
)

users = Table(
    "users",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("email", String(320), nullable=False),  # as it was typed
    Column("email_key", String(320), nullable=False, unique=True),  # `codec.emails.make_email_key`
    Column("name", String(200), nullable=False),
    Column("password_hash", Text),  # none: signs in with OIDC only
    Column("role", String(20), nullable=False),  # administrator, member
    Column("state", String(20), nullable=False),  # active, disabled
    Column("subject", String(600), unique=True),  # OIDC: issuer and subject
    Column("created", Double, nullable=False),
    Column("last_login", Double),
    Column("password_changed", Double),
    Column("budget", JSON(none_as_null=True)),  # as of teams; none: no limit
    Column("limits", JSON(none_as_null=True)),
)

team_members = Table(
    "team_members",
    METADATA,
    Column("team", ForeignKey("teams.id", ondelete="CASCADE"), primary_key=True),
    Column("user", ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(20), nullable=False),  # administrator, member
    Column("source", String(20), nullable=False),  # console, oidc: a group of the identity provider
    Index("ix_team_members_user", "user"),
)

invitations = Table(
    "invitations",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("email_key", String(320)),  # only this e-mail may use it; none: anybody who has the link
    Column("role", String(20), nullable=False),
    Column("team", ForeignKey("teams.id", ondelete="CASCADE")),
    Column("created_by", String(40), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("used", Double),
    Column("used_by", String(40)),
)

reset_links = Table(
    "reset_links",
    METADATA,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("user", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created_by", String(40), nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("used", Double),
)

sessions = Table(
    "sessions",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("user", ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
    Column("created", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("address", String(60), nullable=False),
    Column("agent", String(300), nullable=False),
    Index("ix_sessions_user", "user"),
)

login_failures = Table(
    "login_failures",
    METADATA,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("subject", LargeBinary(32), nullable=False),  # digest of the e-mail, or of the address
    Column("moment", Double, nullable=False),
    Index("ix_login_failures_subject_moment", "subject", "moment"),
)

keys = Table(
    "keys",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("account", String(200), nullable=False),
    Column("user", ForeignKey("users.id", ondelete="CASCADE")),  # none: made by command
    Column("team", ForeignKey("teams.id", ondelete="SET NULL")),
    Column("role", String(20), nullable=False),  # administrator, member
    Column("digest", LargeBinary(32), nullable=False, unique=True),
    Column("prefix", String(20), nullable=False),
    Column("models", JSON, nullable=False),
    Column("operations", JSON, nullable=False),
    Column("addresses", JSON, nullable=False),  # networks; empty: all
    Column("tags", JSON, nullable=False),
    Column("limits", JSON, nullable=False),  # as of teams
    Column("budget", JSON, nullable=False),  # as of teams
    Column("hidden", Boolean, nullable=False),  # made by the gateway itself: the playground's
    Column("created_by", String(100), nullable=False),  # a user, a key, or "command"
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
    Column("last_used", Double),
    Column("replaced_by", String(40)),  # rotation: valid until `expires` beside its successor
    Column("counted_as", String(40)),  # rotation: the first key, under whose id limits, budgets and usage count
    Column(
        "issued_by", String(100)
    ),  # the actor who rotated or adopted it, and is responsible for it; none: `created_by` is
    Index("ix_keys_user", "user"),
    Index("ix_keys_created", "created"),
)

limit_overrides = Table(
    "limit_overrides",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("kind", String(20), nullable=False),  # key, user, team, model, provider, gateway
    Column("subject", String(300), nullable=False),  # its id or name; "": the gateway
    Column("bound", String(40), nullable=False),
    Column("value", Double),  # either a value, or
    Column("factor", Double),  # a factor of the limit in conf or of the subject
    Column("created", Double, nullable=False),
    Column("created_by", String(100), nullable=False),
    Column("until", Double, nullable=False),
    Index("ix_limit_overrides_until", "until"),
)
"""Temporary limits that administrators have set."""

audit = Table(
    "audit",
    METADATA,
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("moment", Double, nullable=False),
    Column("actor", String(100), nullable=False),  # id of a user or a key, or "command"
    Column("actor_name", String(320), nullable=False),
    Column("action", String(100), nullable=False),  # such as key.create
    Column("object", String(200), nullable=False),
    Column("detail", JSON, nullable=False),
    Column("address", String(60), nullable=False),
    Column("request_id", String(130), nullable=False),
    Index("ix_audit_moment", "moment"),
)
