"""Bounds that an administrator has changed for a time: for one subject and one bound a value, or a factor of that in conf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tornado_gate.accounts.limit_overrides import Override
from tornado_gate.admission.bounds import NANO
from tornado_gate.types import Bound


class Overrides:
    """The overrides that are in force. Of two for the same bound the later one counts."""

    def __init__(self, given: Iterable[Override], now: float) -> None:
        self._known = tuple(given)
        self._of: dict[tuple[str, str], list[Override]] = defaultdict(list)
        for one in sorted(self._known, key=lambda one: one.created):
            if one.until > now:
                self._of[one.kind, one.subject].append(one)
        self.next_end = min((one.until for one in self._known if one.until > now), default=None)
        """When one of them ends; None: never."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overrides) and dict(self._of) == dict(other._of)

    __hash__ = None  # type: ignore[assignment]  # nobody keeps them in a set

    def find(self, kind: str, subject: str, own: Sequence[Bound]) -> Mapping[str, float]:
        """The values that replace those of conf, by the bound's name. `own` are the bounds without overrides."""
        found: dict[str, float] = {}
        if not self._of:
            return found
        of_conf = {bound.name: bound.limit / NANO if bound.name.startswith("usd") else bound.limit for bound in own}
        for one in self._of.get((kind, subject), ()):
            if one.value is not None:
                found[one.bound] = one.value
            elif one.factor is not None and one.bound in of_conf:
                found[one.bound] = of_conf[one.bound] * one.factor
        return found

    def renew(self, now: float) -> Overrides:
        """Those that are in force at `now`."""
        return Overrides(self._known, now)


NO_OVERRIDES: Final = Overrides((), 0.0)
