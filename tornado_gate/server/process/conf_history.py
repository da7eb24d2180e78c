"""Earlier texts of the configuration file, so that a change can be undone. They are encrypted, as they may have secrets.

Blocks: call it in a thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tornado_gate.config.secret_store import HISTORY_FILE, LONGEST_SECRET, SecretError, SecretStore

MAX_TEXTS: Final = 20
_NAME_LENGTH: Final = 64


def keep_text(data_dir: Path, version: str, text: str) -> None:
    """Keep the text that the change to `version` replaces. A text that is too long, or a failure, only prevents the undo."""
    if len(text) > LONGEST_SECRET:
        return
    store = _open_store(data_dir)
    with suppress(SecretError):
        store.write(version[:_NAME_LENGTH], text)
        texts = sorted(store.list_secrets(), key=lambda kept: kept.changed)
        for old in texts[:-MAX_TEXTS]:
            store.remove(old.name)


def find_text(data_dir: Path, version: str) -> str | None:
    """Return the text before the change that made `version`; None if it is not kept."""
    try:
        return _open_store(data_dir).read(version[:_NAME_LENGTH])
    except SecretError:
        return None


def _open_store(data_dir: Path) -> SecretStore:
    return SecretStore(data_dir, os.environ, file=HISTORY_FILE)
