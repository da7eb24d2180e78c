"""The callers of keys and the limits that apply to them, cached by key."""

from __future__ import annotations

from typing import NamedTuple

from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.key_ring import KeyRing
from tornado_gate.accounts.keys import digest_key
from tornado_gate.admission.reservations import Admission
from tornado_gate.config.model import AccountsConfig, Config
from tornado_gate.pipeline.auth import unknown_key_error
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Bound, Budget, Caller, Limits

MAX_CALLERS = 10_000
"""The number of keys whose callers are cached."""


class KnownKey(NamedTuple):
    """A key with the version of its permissions and limits."""

    digest: bytes
    record: KeyRecord
    changes: int


class Callers:
    """A cache of callers by key. `apply` and `forget` clear it."""

    def __init__(self, keys: KeyRing, admission: Admission, config: Config) -> None:
        self._keys = keys
        self._admission = admission
        self._config = config
        self._callers: dict[str, tuple[KeyRecord, Caller]] = {}
        self._changes = 0

    def apply(self, config: Config) -> None:
        """Use the limits of a configuration."""
        self._config = config
        self.forget()

    def forget(self) -> None:
        """Clear the cache, because limits have changed."""
        self._callers.clear()
        self._changes += 1

    async def authenticate(self, key: str) -> Caller:
        """Return the caller of a key. Raises AuthenticationFailed."""
        return await self.authenticate_digest(digest_key(key))

    async def authenticate_digest(self, key_digest: bytes) -> Caller:
        """Return the caller of the key with this digest. Raises AuthenticationFailed."""
        record = await self._keys.find_by_digest(key_digest)
        if record is None:
            raise unknown_key_error()
        return self._get_caller(record)

    async def describe(self, key_digest: bytes) -> Caller:
        """Return the same caller as `authenticate_digest`, without counting this as a use of the key."""
        record = await self._keys.peek(key_digest)
        if record is None:
            raise unknown_key_error()
        return self._get_caller(record)

    def find_cached(self, key_digest: bytes) -> Caller | None:
        """Return the caller of a key from the cache, or None when the key store must be read."""
        record = self._keys.find_cached(key_digest)
        return None if record is None else self._get_caller(record)

    def note_key(self, key_digest: bytes, caller: Caller) -> KnownKey | None:
        """Return what `is_unchanged` needs to know of a key; None if `caller` is no longer its caller."""
        record = self._keys.find_cached(key_digest)
        if record is None or self._get_caller(record) is not caller:
            return None
        return KnownKey(key_digest, record, self._changes)

    def is_unchanged(self, known: KnownKey) -> bool:
        """Return whether a key still has the same caller. If it has, record a use of the key."""
        return self._keys.find_cached(known.digest) is known.record and self._changes == known.changes

    def _get_caller(self, record: KeyRecord) -> Caller:
        try:
            kept, caller = self._callers[record.id]
            if kept is record:
                return caller
        except KeyError:
            pass
        caller = self._make_caller(record)
        if len(self._callers) >= MAX_CALLERS:
            del self._callers[next(iter(self._callers))]
        self._callers[record.id] = (record, caller)
        return caller

    def _make_caller(self, record: KeyRecord) -> Caller:
        return Caller(
            id=record.usage_id,
            account=record.account,
            name=record.name,
            user=record.user,
            team=record.team,
            tags=record.tags,
            addresses=record.addresses,
            bounds=self._list_bounds(record),
            models=tuple(record.models),
            operations=tuple(record.operations),
            role=record.role,
        )

    def _list_bounds(self, record: KeyRecord) -> tuple[Bound, ...]:
        """Return the limits of a key, its user and its team. If the key lacks a limit, conf's limit for all keys applies."""
        config, list_bounds = self._config, self._admission.list_bounds
        requests, tokens = record.requests_per_minute, record.tokens_per_minute
        own = Limits(
            requests_per_minute=config.limits.requests_per_minute if requests is None else requests,
            tokens_per_minute=config.limits.tokens_per_minute if tokens is None else tokens,
            concurrent_requests=record.concurrent_requests,
        )
        bounds = list_bounds("key", record.usage_id, own, record.budget, record.name)
        user, team = (record.user_limits, record.user_budget), (record.team_limits, record.team_budget)
        if record.source == "conf":
            of_user, of_team = config.users.get(record.user), config.teams.get(record.team)
            user = (of_user.limits, of_user.budget) if of_user else user
            team = (of_team.limits, of_team.budget) if of_team else team
        else:
            user = _fill_bounds(config.accounts, *user)
        if record.user:
            bounds += list_bounds("user", record.user, *user, record.user_name)
        if record.team:
            bounds += list_bounds("team", record.team, *team, record.team_name)
        return bounds


def _fill_bounds(rules: AccountsConfig, limits: Limits, budget: Budget) -> tuple[Limits, Budget]:
    """Return the limits and the budget of a user of the database. Conf's defaults replace missing ones."""
    return (
        rules.default_limits if limits is NO_LIMITS else limits,
        rules.default_budget if budget is NO_BUDGET else budget,
    )
