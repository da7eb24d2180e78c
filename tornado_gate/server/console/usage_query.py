"""The content of the usage page. It is parsed from the address, within the visitor's permissions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from tornado_gate.accounts.people import Membership, User
from tornado_gate.ledger.rows import UsageQuery
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.types.value import Value

_STATUS = re.compile(r"[1-5][0-9]{2}", re.ASCII)
HOUR: Final = 3600
DAY: Final = 86400
RANGES: Final = {"24h": mark("24 hours"), "7d": mark("7 days"), "30d": mark("30 days"), "custom": mark("other days")}
_DAYS: Final = {"24h": 1, "7d": 7, "30d": 30}
METRICS: Final = {
    "requests": mark("Requests"),
    "tokens": mark("Tokens"),
    "errors": mark("Errors"),
    "cost": mark("Cost"),
}
GROUPS: Final = {
    "model": "model",
    "key": "key",
    "team": "team",
    "status": "status",
    "tag": "tag",
    "end_user": "end user",
}
ADMINISTRATORS_GROUPS: Final = {**GROUPS, "user": "user", "provider": "provider"}
FILTERS: Final = ("model", "status", "tag", "key", "end_user")
ADMINISTRATORS_FILTERS: Final = (*FILTERS, "user", "team", "provider")
FIELDS: Final = ("model", "status", "tag")
"""Filters with a field in the form."""
MOST_DAYS: Final = 366
HOURLY_DAYS: Final = 2
"""The longest range in days whose chart has a bar for each hour."""


class UsageView(Value, frozen=True, kw_only=True):
    """A view of usage. `whose`: "me", "all" or the id of a team. `start` and `end` are Unix seconds, on the borders of
    bars.
    """

    range: str
    first: str
    last: str
    start: int
    end: int
    bar_seconds: int
    metric: str
    group: str
    groups: Mapping[str, str]
    whose: str
    whose_options: Sequence[tuple[str, str]]
    filters: Mapping[str, str]
    fault: str = ""

    def make_query(self, user: User, *group_by: str) -> UsageQuery:
        """Return a report for the visitor, never beyond `whose`."""
        filters: dict[str, Any] = {**self.filters}
        if "status" in filters:
            filters["status"] = int(filters["status"])
        if self.whose == "me":
            filters["user"] = user.id
        elif self.whose != "all":
            filters["team"] = self.whose
        return UsageQuery(start=self.start, end=self.end, group_by=group_by, **filters)

    @property
    def bar_name(self) -> str:
        return "hour" if self.bar_seconds == HOUR else "day"

    def make_link(self, path: str = "/console/usage", **changes: str) -> str:
        """Return the address of the same view with changes."""
        parameters = {
            "range": self.range,
            "from": self.first if self.range == "custom" else "",
            "to": self.last if self.range == "custom" else "",
            "metric": self.metric,
            "group": self.group,
            "whose": self.whose,
            **self.filters,
            **changes,
        }
        return f"{path}?{urlencode({name: value for name, value in parameters.items() if value}, errors='replace')}"


def parse_view(
    get: Callable[[str], str], user: User, memberships: Sequence[Membership], now: float | None = None
) -> UsageView:
    """Return the view that an address requests. Missing, unknown and forbidden parameters have defaults. `get` returns
    "" for none.
    """
    is_administrator = user.role == "administrator"
    options = list_whose(user, memberships)
    groups = ADMINISTRATORS_GROUPS if is_administrator else GROUPS
    if len(options) > 1:
        groups = {**groups, "user": "user"}
    whose = _choose_known(get("whose"), dict(options), options[0][0])
    allowed = ADMINISTRATORS_FILTERS if is_administrator else FILTERS
    if whose not in ("me", "all"):
        allowed = tuple(dict.fromkeys((*allowed, "user")))
    filters = {name: get(name)[:300] for name in allowed if get(name)}
    if not _STATUS.fullmatch(filters.get("status", "100")):
        del filters["status"]
    moment = time.time() if now is None else now
    name, start, end, fault = _parse_range(get("range"), get("from"), get("to"), moment)
    return UsageView(
        range=name,
        first=_format_day(start),
        last=_format_day(end - 1),
        start=start,
        end=end,
        bar_seconds=HOUR if end - start <= HOURLY_DAYS * DAY else DAY,
        metric=_choose_known(get("metric"), METRICS, "requests"),
        group=_choose_known(get("group"), groups, "model"),
        groups=groups,
        whose=whose,
        whose_options=options,
        filters=filters,
        fault=fault,
    )


def list_whose(user: User, memberships: Sequence[Membership]) -> list[tuple[str, str]]:
    """Return the choices of `whose` for the visitor, the default first."""
    teams = [
        (membership.team.id, translate("team {name}").format(name=membership.team.name))
        for membership in memberships
        if membership.role == "administrator"
    ]
    everybody = [("all", translate("everybody"))] if user.role == "administrator" else []
    return [*everybody, ("me", translate("me")), *teams]


def _choose_known(text: str, known: Mapping[str, str], default: str) -> str:
    return text if text in known else default


def _parse_range(name: str, first: str, last: str, now: float) -> tuple[str, int, int, str]:
    """Return the name of the range, its start and end, and the fault in the typed days.

    Days that equal the named range change nothing, because the form sends both.
    """
    today = int(now // DAY) * DAY
    end = int(now // HOUR) * HOUR + HOUR if name == "24h" else today + DAY
    start = end - _DAYS.get(name, 7) * DAY
    if name != "custom" and (first, last) in (("", ""), (_format_day(start), _format_day(end - 1))):
        return _choose_known(name, RANGES, "7d"), start, end, ""
    return "custom", *_parse_days(first, last, today)


def _parse_days(first: str, last: str, today: int) -> tuple[int, int, str]:
    default = (today - 6 * DAY, today + DAY)
    try:
        start = datetime.strptime(first, "%Y-%m-%d").replace(tzinfo=UTC)
        end = datetime.strptime(last, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        return (*default, translate("Enter both days, such as 2026-11-01."))
    if not 0 < (end - start).days <= MOST_DAYS or start.year < 2000:
        return (*default, translate("The last day must follow the first, within {days} days.").format(days=MOST_DAYS))
    return int(start.timestamp()), int(end.timestamp()), ""


def _format_day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
