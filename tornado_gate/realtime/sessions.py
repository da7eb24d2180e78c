"""The open WebSocket sessions: the number of each key and account, and the end of sessions that are no longer allowed.

The store of limits counts them, as it counts concurrent requests: for all processes of the machine, or for all nodes. A process
that dies frees its sessions. While no store can be used, each process counts its own.

Sessions are realtime sessions, and connections whose messages are requests. A session ends when its key is revoked, expires, or
is removed from conf. It also ends when the key may no longer be used for the session's operation or model, or from its address.
Permissions are checked again when the keys have changed (`KeyRing.on_change`) and when a key expires: a message costs no check.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tornado_gate.accounts.permissions import may_use_model
from tornado_gate.admission.bounds import LONGEST_TITLE, OPEN, make_counter_id
from tornado_gate.config.model import RealtimeConfig
from tornado_gate.errors import AuthenticationFailed, GateError, NotAllowed, RateLimited, Unavailable
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.gate import Gate
from tornado_gate.types import Bound, Caller

log = logging.getLogger(__name__)

OPERATION = "realtime"
LONGEST_TIMER = 86400.0
_OWNERS = "API key", "account of the API key"


class OpenSession(Protocol):
    """A session with its permission: the digest of a key, the caller that the key belonged to, operation and model.

    `model` is "" if each message names its own. `address` is the IP address of the client.
    """

    @property
    def key_digest(self) -> bytes: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def operation(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def address(self) -> str: ...

    def shut_down(self) -> None:
        """Close the session because the gateway shuts down."""

    def revoke(self, error: GateError) -> None:
        """Close the session because it is not allowed any more. Called again if the session stays open."""


class OpenSessions:
    """The open sessions of this process."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._timers: dict[OpenSession, asyncio.TimerHandle | None] = {}
        self._of_key: Counter[str] = Counter()
        self._of_account: Counter[str] = Counter()
        self._checks: set[asyncio.Task[None]] = set()
        gate.keys.on_change.append(self._check_all)

    def __len__(self) -> int:
        return len(self._timers)

    async def reserve(self, caller: Caller, rules: RealtimeConfig) -> Callable[[], None]:
        """Reserve a session of a key and its account, in the store of limits. Return a function that releases it.

        Raises RateLimited when the key or the account has reached its limit.
        """
        limiter = self._gate.admission.limiter
        bounds = _list_bounds(caller, rules)
        try:
            reservation, _ = await limiter.reserve(bounds, [1] * len(bounds))
        except RateLimited as error:
            of_key = error.exceeded["bound"] == bounds[0].name
            index = 0 if of_key else 1
            raise _make_refusal(caller, bounds[index].limit, _OWNERS[index]) from error
        return partial(limiter.cancel, reservation)

    def add(self, session: OpenSession, rules: RealtimeConfig, key_changes: int) -> None:
        """Count a session of this process. Raises RateLimited when its key or its account has reached its limit.

        `key_changes` is `KeyRing.changes` before the key was authenticated: if it has changed since then, the permissions are
        checked again.
        """
        caller = session.caller
        counts = self._of_key[caller.id], self._of_account[caller.account]
        for count, bound, owner in zip(counts, _list_bounds(caller, rules), _OWNERS, strict=True):
            if count >= bound.limit:
                raise _make_refusal(caller, bound.limit, owner)
        self._timers[session] = None
        self._of_key[caller.id] += 1
        self._of_account[caller.account] += 1
        self._set_timer(session)
        if self._gate.keys.changes != key_changes:
            self._start_check([session])

    def remove(self, session: OpenSession) -> None:
        """Remove a session that has ended. Repeated calls have no effect."""
        if session not in self._timers:
            return
        timer = self._timers.pop(session)
        if timer is not None:
            timer.cancel()
        for counter, name in ((self._of_key, session.caller.id), (self._of_account, session.caller.account)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]

    def shut_down(self) -> None:
        """Close every open session because the gateway shuts down."""
        for session in list(self._timers):
            session.shut_down()

    # Permissions

    def _set_timer(self, session: OpenSession) -> None:
        """Check the session when its key expires."""
        expires = self._gate.keys.find_expiry(session.key_digest)
        if expires is not None:
            seconds = min(max(0.0, expires - time.time()) + 0.01, LONGEST_TIMER)  # the clock may be set in between
            self._timers[session] = asyncio.get_running_loop().call_later(seconds, self._start_check, [session])

    def _check_all(self) -> None:
        if self._timers:
            self._start_check(list(self._timers))

    def _start_check(self, sessions: list[OpenSession]) -> None:
        check = asyncio.ensure_future(self._check(sessions))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _check(self, sessions: list[OpenSession]) -> None:
        """End sessions that are not allowed any more. Each key is looked up once."""
        of_key: dict[bytes, list[OpenSession]] = {}
        for session in sessions:
            of_key.setdefault(session.key_digest, []).append(session)
        for key_digest, of_one in of_key.items():
            try:
                caller = await self._gate.callers.authenticate_digest(key_digest)
            except Unavailable:
                continue  # checked again when the key store can be read, because that counts as a change
            except AuthenticationFailed:
                caller = None
            for session in of_one:
                if session in self._timers:
                    self._end_or_keep(session, caller)

    def _end_or_keep(self, session: OpenSession, caller: Caller | None) -> None:
        error = find_refusal(session, caller)
        if error is None:
            self._set_timer(session)
        else:
            log.info("a session of %s ends: %s", session.caller.id, error.message)
            session.revoke(error)


def _list_bounds(caller: Caller, rules: RealtimeConfig) -> tuple[Bound, Bound]:
    """Return the limits of open sessions of a key and an account, as bounds of the store of limits.

    `_OWNERS` has their subjects.
    """
    return (
        _make_bound("key", caller.id, "sessions_per_key", rules.sessions_per_key),
        _make_bound("user", caller.account, "sessions_per_account", rules.sessions_per_account),
    )


def _make_bound(kind: str, subject: str, name: str, most: int) -> Bound:
    return Bound(kind, subject, name, most, OPEN, make_counter_id(name, subject, OPEN))


def _make_refusal(caller: Caller, most: int, owner: str) -> RateLimited:
    name = caller.name[:LONGEST_TITLE]
    message = f"The {owner} '{name}' has reached its limit of {most} open sessions. Close one, or retry later."
    return RateLimited(message, retry_after=10, code="too_many_sessions")


def find_refusal(session: OpenSession, caller: Caller | None) -> GateError | None:
    """Return the reason why a session may not stay open; None if it may.

    `caller` is the caller that its key belongs to now, None if the key is no longer valid.
    """
    if caller is None or caller.account != session.caller.account:
        return AuthenticationFailed("The API key of this session was revoked or has expired.")
    if caller.operations and session.operation not in caller.operations:
        return NotAllowed(f"The API key of this session no longer allows the operation '{session.operation}'.")
    if caller.addresses:
        try:
            auth.check_address(caller, session.address)
        except NotAllowed as error:
            return error
    if session.model and not may_use_model(caller, session.model):
        return NotAllowed(
            "The API key of this session no longer allows its model.", param="model", code="model_not_allowed"
        )
    return None
