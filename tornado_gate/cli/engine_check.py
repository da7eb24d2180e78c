"""The part of `check --online` that asks the engines of conf: the database, the store of limits, the bucket of media."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from tornado_gate.admission.store import StoreUnavailable
from tornado_gate.config.faults import Fault
from tornado_gate.config.model import Config
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.opening import list_revisions, read_revision
from tornado_gate.errors import ConfigError


def check_engines(config: Config) -> Iterator[str | Fault]:
    """Yield a line for each engine that works, and a fault for each other. Blocks for at most two minutes.

    Nothing is created or migrated. A bucket gets a small object, which is deleted.
    """
    if config.database:
        yield _check_database(config)
    if config.limits.store:
        yield asyncio.run(_check_limit_store(config))
    if config.media.bucket is not None:
        from tornado_gate.storage.bucket_check import find_bucket_fault  # imports the library of buckets

        fault = find_bucket_fault(config.media.bucket)
        yield fault or "media.store: The bucket takes, lists and deletes objects."


def _check_database(config: Config) -> str | Fault:
    path = ("database",)
    try:
        database = Database(config.server.data_dir, config.database)
        try:
            began = time.monotonic()
            revision = asyncio.run(database.run(read_revision, database, list_revisions()))
            seconds = time.monotonic() - began
        finally:
            database.close()
    except DatabaseError as error:
        return path, str(error)
    tables = {"": "The first start makes its tables", list_revisions()[-1]: "Its tables are up to date"}
    state = tables.get(revision, f"The next start migrates its tables from {revision}")
    return f"database: It answered within {seconds * 1000:.0f} ms. {state}."


async def _check_limit_store(config: Config) -> str | Fault:
    try:
        from tornado_gate.admission.redis_store import RedisStore  # imports the client, an extra
    except ConfigError as error:
        return error.faults[0]
    store = RedisStore(config.limits.store)
    began = time.monotonic()
    try:
        await store.start()
    except StoreUnavailable as error:
        return ("limits", "store"), str(error)
    finally:
        await store.close()
    return f"limits.store: It answered within {(time.monotonic() - began) * 1000:.0f} ms."
