"""Limits of sign-in attempts, in the table `login_failures`, so that they apply to all processes and nodes.

A failure counts for its pair of e-mail and network, and for its network. It never counts for the e-mail alone, because
otherwise anybody could lock its owner out. A device that has signed in before is counted separately. Thus a neighbour
behind the same address cannot lock its owner out either.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.errors import TooManyAttempts
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.types.value import Value

WINDOW_SECONDS = 15 * 60.0
PAIR_ATTEMPTS = 5
DEVICE_ATTEMPTS = 10
ADDRESS_ATTEMPTS = 50
SIGN_UPS = 30
FIRST_WAIT_SECONDS = 10.0
_PRUNE_SECONDS = 60.0
_failures = tables.login_failures


class Bound(Value, frozen=True):
    """A limit of attempts. After `attempts` failures within the window each attempt for `subject`, a digest, has to wait."""

    subject: bytes
    attempts: int


def find_network(address: str) -> str:
    """Return the network that counts as one attacker: an IPv4 address, or the /64 of an IPv6 address.

    All texts that are not addresses are one network. If the proxy does not name its callers ("unknown"), they share one
    count, which is the strictest. Otherwise a caller who makes its own address unreadable would have no limit.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:60]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def make_bound(attempts: int, *words: str) -> Bound:
    """Return a bound for the subject that `words` name together."""
    digest = hashlib.sha256()
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big") + data)
    return Bound(digest.digest(), attempts)


class Throttle:
    """The count of attempts. `begin` counts an attempt before its result is known, so that parallel attempts cannot
    exceed a bound.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next_prune = 0.0

    def begin(self, bounds: Sequence[Bound]) -> list[int]:
        """Count an attempt for each bound, and return the ids for `cancel`. Raises TooManyAttempts, and then counts no
        attempt.
        """
        now = time.time()
        with self._database.write() as connection:
            self._delete_old_failures(connection, now)
            ids = [
                int(
                    connection.execute(
                        insert(_failures).values(subject=bound.subject, moment=now).returning(_failures.c.id)
                    ).scalar_one()
                )
                for bound in bounds
            ]
        with self._database.read() as connection:  # after the commit, which shows attempts that run at the same time
            waits = [_find_wait(connection, bound, ids, now) for bound in bounds]
        if max(waits, default=0.0) > 0:
            self.cancel(ids)
            raise TooManyAttempts(max(waits))
        return ids

    def cancel(self, ids: Sequence[int], forgiven: Sequence[Bound] = ()) -> None:
        """Delete the attempt with these ids, which was no failure, and all failures of the bounds in `forgiven`."""
        with self._database.write() as connection:
            self.cancel_within(connection, ids, forgiven)

    def cancel_within(self, connection: Connection, ids: Sequence[int], forgiven: Sequence[Bound] = ()) -> None:
        """Cancel as `cancel` does, in the caller's transaction."""
        connection.execute(delete(_failures).where(_failures.c.id.in_(ids)))
        if forgiven:
            subjects = [bound.subject for bound in forgiven]
            recent = (
                _failures.c.moment > time.time() - WINDOW_SECONDS
            )  # older ones are deleted by `_delete_old_failures`
            connection.execute(delete(_failures).where(_failures.c.subject.in_(subjects), recent))

    def _delete_old_failures(self, connection: Connection, now: float) -> None:
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE_SECONDS
            connection.execute(delete(_failures).where(_failures.c.moment < now - WINDOW_SECONDS))


def _find_wait(connection: Connection, bound: Bound, own: Sequence[int], now: float) -> float:
    """Return the seconds until an attempt is within the bound; 0 if it is now.

    After the bound each failure doubles the wait since the last one. So a person who mistypes waits for seconds, and an
    attacker has about a dozen attempts per window.
    """
    others = (
        _failures.c.subject == bound.subject,
        _failures.c.moment > now - WINDOW_SECONDS,
        _failures.c.id.not_in(own),
    )
    query = select(func.count(), func.max(_failures.c.moment)).where(*others)
    count, last = connection.execute(query).one()
    if count < bound.attempts:
        return 0.0
    doublings = min(int(count) - bound.attempts, 20)
    wait: float = min(FIRST_WAIT_SECONDS * 2**doublings, WINDOW_SECONDS)
    return max(0.0, float(last) + wait - now)
