"""Random unique ids."""

from __future__ import annotations

import os

_BYTES = 16
_IDS_PER_CALL = 256
_prepared_ids: list[str] = []
os.register_at_fork(after_in_child=_prepared_ids.clear)  # a child process must not reuse ids of its parent


def make_unique_id() -> str:
    """Return 128 random bits as 32 hexadecimal digits. One system call fetches 256 ids, because the call is the main cost."""
    try:
        return _prepared_ids.pop()
    except IndexError:  # another thread may have taken the last one
        block = os.urandom(_BYTES * _IDS_PER_CALL).hex()
        made = [block[at : at + 2 * _BYTES] for at in range(0, len(block), 2 * _BYTES)]
        name = made.pop()
        _prepared_ids.extend(made)
        return name
