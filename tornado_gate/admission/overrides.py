"""Temporary overrides of bounds by an administrator: for one subject and one bound a value, or a factor of the value in conf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tornado_gate.accounts.limit_overrides import Override
from tornado_gate.admission.bounds import NANO
from tornado_gate.types import Bound


class Overrides:
    """The active overrides. If there are two for the same bound, the later one counts."""

    def __init__(self, overrides: Iterable[Override], now: float) -> None:
        self._known = tuple(overrides)
        self._of: dict[tuple[str, str], list[Override]] = defaultdict(list)
        for override in sorted(self._known, key=lambda override: override.created):
            if override.until > now:
                self._of[override.kind, override.subject].append(override)
        self.next_end = min((override.until for override in self._known if override.until > now), default=None)
        """The time at which the first of them ends; None: never."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overrides) and dict(self._of) == dict(other._of)

    __hash__ = None  # type: ignore[assignment]  # overrides are never kept in a set

    def find_values(self, kind: str, subject: str, own: Sequence[Bound]) -> Mapping[str, float]:
        """Return the values that replace the values of conf, by the bound's name. `own` are the bounds without overrides."""
        value_of_bound: dict[str, float] = {}
        if not self._of:
            return value_of_bound
        of_conf = {bound.name: bound.limit / NANO if bound.name.startswith("usd") else bound.limit for bound in own}
        for override in self._of.get((kind, subject), ()):
            if override.value is not None:
                value_of_bound[override.bound] = override.value
            elif override.factor is not None and override.bound in of_conf:
                value_of_bound[override.bound] = of_conf[override.bound] * override.factor
        return value_of_bound

    def renew(self, now: float) -> Overrides:
        """Return the overrides that are active at `now`."""
        return Overrides(self._known, now)


NO_OVERRIDES: Final = Overrides((), 0.0)
