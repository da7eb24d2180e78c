"""The issuer of a rotated key, keys outside a team with limits, and e-mails by code point."""

import sqlalchemy as sa
from alembic import op

from tornado_gate.codec.emails import make_email_key

revision = "0005_makers"
down_revision = "0004_limits"


def upgrade() -> None:
    op.add_column("teams", sa.Column("personal_keys", sa.Boolean(), nullable=True))
    op.add_column("keys", sa.Column("issued_by", sa.String(length=100), nullable=True))
    _name_rotators()
    _unfold_emails()


def _name_rotators() -> None:
    """Read the actors who have rotated a key from the audit log. They may have the text of its successor."""
    audit = sa.table("audit", sa.column("action"), sa.column("actor"), sa.column("detail", sa.JSON()), sa.column("id"))
    keys = sa.table("keys", sa.column("id"), sa.column("issued_by"))
    connection = op.get_bind()
    rotations = sa.select(audit.c.actor, audit.c.detail).where(audit.c.action == "key.rotate").order_by(audit.c.id)
    for row in connection.execute(rotations).all():
        successor = row.detail.get("replaced_by")
        if successor:
            connection.execute(sa.update(keys).where(keys.c.id == successor).values(issued_by=row.actor))


def _unfold_emails() -> None:
    """Replace the texts of e-mails, which were folded before (`ß` to `ss`). The new texts differ more, so there are no
    conflicts.
    """
    users = sa.table("users", sa.column("id"), sa.column("email"), sa.column("email_key"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(users)).all():
        key = make_email_key(row.email)
        if key != row.email_key:
            connection.execute(sa.update(users).where(users.c.id == row.id).values(email_key=key))
