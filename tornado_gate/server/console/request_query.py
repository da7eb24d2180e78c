"""The content of the list of requests. It is parsed from the address, within the visitor's permissions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from tornado_gate.accounts.people import Membership, User
from tornado_gate.ledger.request_search import LONGEST_TEXT
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.usage_query import list_whose
from tornado_gate.types.value import Value

REQUESTS: Final = "/console/requests"
ROWS: Final = 50
LIVE_SECONDS: Final = 900
"""The time for which a list is renewed. Then the visitor chooses again."""
REFRESH_SECONDS: Final = 5
USUAL_FIELDS: Final = ("model", "key", "status", "text")
FURTHER_FIELDS: Final = ("error_code", "operation", "tag", "end_user", "from", "to")
"""Fields that the page shows when they are needed."""
ADMINISTRATORS_FIELDS: Final = ("user", "team")
_STATUS: Final = re.compile(r"[1-5][0-9]{2}", re.ASCII)
_ROW_ID: Final = re.compile(r"[0-9a-f]{1,40}", re.ASCII)


class RequestsView(Value, frozen=True, kw_only=True):
    """A view of the list. `whose` is "me", "all" or the id of a team; `show` is "failed" or "all".

    `fields` are the texts of the form by name, "" for none. `live_since` is 0, or the Unix time at which live updates began.
    """

    show: str
    whose: str
    whose_options: Sequence[tuple[str, str]]
    fields: Mapping[str, str]
    request_id: str
    before: str
    live_since: int
    is_administrator: bool
    faults: Mapping[str, str]

    @property
    def is_filtered(self) -> bool:
        return any(self.fields.values())

    @property
    def has_further(self) -> bool:
        """Return whether one of the fields is used that the page shows only then."""
        return any(self.fields[name] for name in FURTHER_FIELDS)

    @property
    def is_live(self) -> bool:
        return self.live_since > 0 and not self.before

    def make_filters(self, user: User) -> dict[str, Any]:
        """Return fields of `RequestQuery`, never beyond `whose`. An administrator's names are not resolved yet."""
        fields = self.fields
        filters: dict[str, Any] = {
            name: fields[name] for name in ("model", "text", "error_code", "operation", "tag", "end_user")
        }
        filters |= {
            "status": int(fields["status"]) if fields["status"] and "status" not in self.faults else 0,
            "only_errors": self.show == "failed",
            "start": parse_moment(fields["from"]),
            "end": parse_moment(fields["to"]),
            "before": self.before or None,
            "key" if self.is_administrator else "key_name": fields["key"],
        }
        if self.is_administrator:
            filters |= {"user": fields["user"], "team": fields["team"]}
        if self.whose == "me":
            filters["user"] = user.id
        elif self.whose != "all":
            filters["team"] = self.whose
        return filters

    def make_link(self, path: str = REQUESTS, **changes: str) -> str:
        """Return the address of the same view with changes."""
        parameters = {
            "show": self.show,
            "whose": self.whose if self.whose != self.whose_options[0][0] else "",
            **self.fields,
            "live": str(self.live_since) if self.live_since else "",
            **changes,
        }
        return f"{path}?{urlencode({name: value for name, value in parameters.items() if value}, errors='replace')}"


def parse_requests_view(get: Callable[[str], str], user: User, memberships: Sequence[Membership]) -> RequestsView:
    """Return the view that an address requests. Unknown and forbidden parameters have defaults. `get` returns "" for none."""
    is_administrator = user.role == "administrator"
    options = list_whose(user, memberships)
    whose = get("whose") if get("whose") in dict(options) else options[0][0]
    names = (*USUAL_FIELDS, *FURTHER_FIELDS, *ADMINISTRATORS_FIELDS)
    fields = {name: get(name)[: LONGEST_TEXT if name == "text" else 200].strip() for name in names}
    if not is_administrator:
        fields |= dict.fromkeys(ADMINISTRATORS_FIELDS, "")
    before = get("before")
    return RequestsView(
        show=get("show") if get("show") in ("failed", "all") else "failed" if is_administrator else "all",
        whose=whose,
        whose_options=options,
        fields=fields,
        request_id=get("id")[:200],
        before=before if _ROW_ID.fullmatch(before) else "",
        live_since=_parse_live(get("live")),
        is_administrator=is_administrator,
        faults=_find_faults(fields),
    )


def _parse_live(text: str) -> int:
    """Return the beginning of live updates; 0 without them, or when their time is over."""
    now = int(time.time())
    if text == "1":
        return now
    since = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
    return since if now - LIVE_SECONDS < since <= now else 0


def _find_faults(fields: Mapping[str, str]) -> dict[str, str]:
    faults = {}
    if fields["status"] and not _STATUS.fullmatch(fields["status"]):
        faults["status"] = translate("Enter an HTTP status, such as 429.")
    for name in ("from", "to"):
        if fields[name] and parse_moment(fields[name]) is None:
            faults[name] = translate("Enter a time, such as 2026-11-28T14:30 (UTC).")
    return faults


def parse_moment(text: str) -> float | None:
    """Return the Unix time of a date, or of a date and a time in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except OverflowError:
        return None
