"""Open the configuration that is in a database: the newest version, or the copy of the last one that the node has applied."""

from __future__ import annotations

from pathlib import Path

from tornado_gate.config.faults import FileFaults
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.engine import DatabaseError, describe_address, parse_address
from tornado_gate.database.opening import migrate
from tornado_gate.server.control.conf_copy import read_copy
from tornado_gate.server.control.conf_versions import open_conf_database, read_conf


def open_newest(conf: StoredConf) -> StoredConf:
    """Return the newest version. Creates missing tables. Raises DatabaseError, FileFaults if there is no version."""
    with open_conf_database(conf.address) as database:
        migrate(database)
        newest = read_conf(database, conf.address)
    if newest is None:
        message = "has no configuration yet; add one with: tornado-gate conf push FILE"
        raise FileFaults([((), message)], Path(describe_address(parse_address(conf.address))), {})
    return newest


def open_to_serve(conf: StoredConf, data_dir: Path) -> StoredConf:
    """Return the version with which a node starts: the newest one, or the copy in `data_dir` while the database is away.

    Raises DatabaseError without a copy, FileFaults.
    """
    try:
        return open_newest(conf)
    except DatabaseError as error:
        cause = str(error)
    copy = read_copy(data_dir, conf.address)
    if copy is None:
        raise DatabaseError(
            f"{cause} This node has no copy of the configuration in {data_dir} yet, so it cannot start without the database."
        )
    alarm = f"the configuration cannot be read from the database, so this node uses its copy: {copy}. {cause}"
    return StoredConf.make(conf.address, copy.number, copy.text, copy.secrets, alarm=alarm)


def find_usable_copy(conf: StoredConf, data_dir: Path, faults: list[str]) -> StoredConf | None:
    """Return the copy of an earlier version, for a node that cannot use the newest one because of `faults`; None without one."""
    copy = read_copy(data_dir, conf.address)
    if copy is None or copy.number == conf.number or conf.alarm:
        return None
    alarm = f"{conf} cannot be used, so this node uses its copy of the last usable one: {copy}. {'; '.join(faults)}"
    return StoredConf.make(conf.address, copy.number, copy.text, copy.secrets, alarm=alarm)
