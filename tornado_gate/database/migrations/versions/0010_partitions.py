"""The rows of requests in partitions by month, on PostgreSQL. The table of before becomes the first partition.

Other nodes write rows all the time, so no lock that they wait for is held while rows are read. `prepare` therefore has
several transactions. Each may be repeated: a process that is killed leaves nothing that the next start cannot continue.

1. A constraint says that all rows are older than the end of the coming first partition. It is not checked yet. A
   trigger puts newer rows, of a node whose clock is wrong, into the table `usage_other`.
2. The constraint is checked. This reads all rows, beside readers and writers.
3. The table is renamed and attached to a new one. The checked constraint saves PostgreSQL from reading the rows again.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa

from tornado_gate.database.clock import read_clock
from tornado_gate.database.engine import Database, DatabaseError, is_lock_timeout

revision = "0010_partitions"
down_revision = "0009_state"

log = logging.getLogger("tornado_gate.database.migrations")

LOCK_MILLISECONDS = 400
"""The time for a lock. Writers wait meanwhile; they have 450 ms until they write to their spool."""
RETRY_SECONDS = 1.0
MOST_SECONDS = 900.0
"""The time until the migration fails, if another session holds the table, such as a backup."""
MARGIN_SECONDS = 7 * 86_400
"""The least time until the end of the first partition. A clock that is wrong by less needs no trigger."""
MICROSECONDS = 1_000_000
EMPTY_BYTES = 1_000_000

INDEXES = {
    "request_id": "(request_id)",
    "key": "(key, id)",
    "model": "(model, id)",
    "user": """("user", id) WHERE "user" != ''""",
    "team": "(team, id) WHERE team != ''",
    "errors": "(id, model) WHERE outcome IN ('broken', 'refused', 'failed')",
}


def prepare(database: Database) -> None:
    """Make the partitions. Returns immediately if they exist, and for SQLite. Raises DatabaseError."""
    if database.is_file or _is_partitioned(database):
        return
    _repeat(database, _fence)
    with database.write() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("ALTER TABLE usage VALIDATE CONSTRAINT usage_end"))
    _repeat(database, _swap)


def upgrade() -> None:
    """Only record the revision: `prepare` has done the work."""


def _is_partitioned(database: Database) -> bool:
    with database.read() as connection:
        kind = connection.execute(sa.text("SELECT relkind FROM pg_class WHERE oid = to_regclass('usage')")).scalar()
    return bool(kind in ("p", b"p"))


def _repeat(database: Database, step: Callable[[sa.Connection], None]) -> None:
    """Run a step in a transaction of its own, with all locks on the table, until it gets them."""
    ends_at = time.monotonic() + MOST_SECONDS
    while True:
        try:
            with database.write() as connection:
                connection.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}"))
                connection.execute(sa.text("LOCK TABLE usage IN ACCESS EXCLUSIVE MODE"))
                step(connection)
            return
        except DatabaseError as error:
            if not is_lock_timeout(error):
                raise
            if time.monotonic() >= ends_at:
                raise DatabaseError(
                    f"{database.name} cannot be upgraded: another session uses the table `usage` all the time. End long "
                    "queries and backups (see pg_stat_activity), and start again."
                ) from error
            log.warning("the migration waits for another session that uses the table `usage`, such as a backup")
        time.sleep(RETRY_SECONDS)


def _fence(connection: sa.Connection) -> None:
    """Let rows of the future go to `usage_other`, so that the constraint on the other rows never refuses one."""
    end = _find_end(connection)
    run = connection.exec_driver_sql
    run("CREATE TABLE IF NOT EXISTS usage_other (LIKE usage INCLUDING ALL)")
    run("DROP TRIGGER IF EXISTS usage_divert ON usage")
    run("ALTER TABLE usage DROP CONSTRAINT IF EXISTS usage_end")  # of a migration that was killed
    for source, target, condition in (("usage_other", "usage", "<"), ("usage", "usage_other", ">=")):
        run(
            f"WITH moved AS (DELETE FROM {source} WHERE id {condition} '{end}' RETURNING *) "
            f"INSERT INTO {target} SELECT * FROM moved ON CONFLICT DO NOTHING"
        )
    run(f"ALTER TABLE usage ADD CONSTRAINT usage_end CHECK (id < '{end}') NOT VALID")
    run(
        "CREATE OR REPLACE FUNCTION usage_divert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO usage_other SELECT (NEW).* ON CONFLICT DO NOTHING; RETURN NULL; END $$"
    )
    run(
        f"CREATE TRIGGER usage_divert BEFORE INSERT ON usage FOR EACH ROW WHEN (NEW.id >= '{end}') "
        "EXECUTE FUNCTION usage_divert()"
    )


def _find_end(connection: sa.Connection) -> str:
    """Return the smallest id after the first partition: of the first month that begins after MARGIN_SECONDS."""
    moment = datetime.fromtimestamp(read_clock(connection) + MARGIN_SECONDS, UTC)
    year, month = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return f"{int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * MICROSECONDS:014x}"


def _swap(connection: sa.Connection) -> None:
    """Put the partitioned table in the place of the table."""
    run = connection.exec_driver_sql
    constraint = "conname = 'usage_end' AND conrelid = 'usage'::regclass"
    definition = run(f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE {constraint}").scalar_one()
    end = str(definition).split("'")[1]
    run("DROP TRIGGER usage_divert ON usage")
    run("DROP FUNCTION usage_divert()")
    run("ALTER TABLE usage RENAME TO usage_before")
    run("ALTER TABLE usage_before RENAME CONSTRAINT pk_usage TO pk_usage_before")
    for name in INDEXES:
        run(f"ALTER INDEX ix_usage_{name} RENAME TO ix_usage_before_{name}")
    run("CREATE TABLE usage (LIKE usage_before, CONSTRAINT pk_usage PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    for name, columns in INDEXES.items():
        run(f"CREATE INDEX ix_usage_{name} ON usage {columns}")
    _copy_grants(connection)
    run("ALTER TABLE usage ATTACH PARTITION usage_other DEFAULT")
    if _is_empty(connection):
        run("DROP TABLE usage_before")
        return
    run(f"ALTER TABLE usage ATTACH PARTITION usage_before FOR VALUES FROM (MINVALUE) TO ('{end}')")
    run("ALTER TABLE usage_before DROP CONSTRAINT usage_end")


def _is_empty(connection: sa.Connection) -> bool:
    """Return whether the old table has no rows. A large file may take long to read, so it counts as rows."""
    run = connection.exec_driver_sql
    if run("SELECT pg_relation_size('usage_before')").scalar_one() > EMPTY_BYTES:
        return False
    return run("SELECT 1 FROM usage_before LIMIT 1").first() is None


def _copy_grants(connection: sa.Connection) -> None:
    """Give the roles that may read the table, such as one for dashboards, the same rights to the new one."""
    rights = connection.exec_driver_sql(
        "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END, "
        "is_grantable FROM pg_class, aclexplode(relacl) "
        "WHERE pg_class.oid = 'usage_before'::regclass AND grantee <> relowner"
    ).all()
    for right, role, is_grantable in rights:
        connection.exec_driver_sql(f"GRANT {right} ON usage TO {role}" + (" WITH GRANT OPTION" * bool(is_grantable)))
