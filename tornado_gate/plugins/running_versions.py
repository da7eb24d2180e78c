"""The plugin versions that a running gateway has imported, for `tornado-gate plugins list`.

A file in the data directory has them: ``{"pid": 4711, "versions": {"acme": "1.0"}}``. Several processes of one gateway write the
same; the file of a gateway that has ended is ignored.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tornado_gate.storage.private import open_private

log = logging.getLogger(__name__)

FILE_NAME: Final = "plugin-versions.json"


def write(data_dir: Path, versions: Mapping[str, str]) -> None:
    """Write the file, by atomic replace. Blocks; a failure is logged."""
    path = data_dir / FILE_NAME
    fresh = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    try:
        with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
            json.dump({"pid": os.getpid(), "versions": dict(versions)}, file)
        fresh.replace(path)
    except OSError as error:
        log.warning("cannot write the versions of plugins to %s: %s; check server.data_dir", path, error.strerror)


def read(data_dir: Path) -> dict[str, str]:
    """Return the versions that a running gateway has imported, by plugin; {} if no gateway runs."""
    try:
        noted = json.loads((data_dir / FILE_NAME).read_text(encoding="utf-8"))
        os.kill(noted["pid"], 0)
    except PermissionError:
        pass  # it runs as another user
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    versions = noted["versions"]
    return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}
