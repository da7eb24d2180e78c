"""Names for what is made: random enough to be never the same twice."""

from __future__ import annotations

import os

_BYTES = 16
_AT_ONCE = 256
_left: list[str] = []
os.register_at_fork(after_in_child=_left.clear)  # a child must not give the names of its parent


def unique() -> str:
    """32 hexadecimal digits that nobody can guess. The system is asked for many at a time, because asking is what costs."""
    try:
        return _left.pop()
    except IndexError:  # also where another thread took the last one
        block = os.urandom(_BYTES * _AT_ONCE).hex()
        made = [block[at : at + 2 * _BYTES] for at in range(0, len(block), 2 * _BYTES)]
        name = made.pop()
        _left.extend(made)
        return name
