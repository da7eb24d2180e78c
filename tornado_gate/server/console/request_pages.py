"""Requests in the ledger: recent failures or all requests; one request with every column, and the choice of its target
now.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.keys import KeyStore, StoredKey, digest_key
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.errors import GateError, NotFound
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import RequestRow
from tornado_gate.pipeline.calls import make_question
from tornado_gate.pipeline.explain import explain_choice
from tornado_gate.server.console import words
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.reasons import find_reason
from tornado_gate.types import Caller

REQUESTS = "/console/requests"
ROWS = 50
FILTERS = ("key", "user", "team", "model")
_REQUEST_ID = r"([A-Za-z0-9_.:\-]{1,128})"


class RequestHandler(AdminHandler):
    @property
    def reports(self) -> Reports:
        return Reports(self.services.database)

    async def find_request(self, request_id: str) -> RequestRow | None:
        """Return the request with this id; if several have it, the one whose row is in the address. Raises NotFound.

        None if several have the id and the address names no row: the browser is then led to their list.
        """
        row_id = self.get_query_argument("row", "")[:60]
        chosen: list[RequestRow] = (
            await self.run_database(self.reports.find_requests, row_id) if row_id.isalnum() else []
        )
        if chosen and chosen[0].id == row_id and chosen[0].request_id == request_id:
            return chosen[0]
        rows: list[RequestRow] = await self.run_database(self.reports.find_requests, request_id)
        if not rows:
            raise NotFound(
                translate(
                    "The ledger has no request with this id. It may be written within seconds, or have been deleted."
                )
            )
        if len(rows) == 1:
            return rows[0]
        self.redirect(f"{REQUESTS}?{urlencode({'show': 'all', 'id': request_id})}")
        return None


class RequestsPage(RequestHandler):
    """`/console/requests`: with `show=all`, the list includes requests without an error."""

    async def get(self) -> None:
        query = self.get_query("show", "id", *FILTERS)
        matches: list[RequestRow] = []
        if query["id"]:
            matches = await self.run_database(self.reports.find_requests, query["id"])
            if len(matches) == 1:
                self.redirect(f"{REQUESTS}/{quote(matches[0].request_id, safe='')}?row={matches[0].id}")
                return
        before = self.get_query_argument("before", "")[:60]
        rows: list[RequestRow] = await self.run_database(
            self.reports.requests,
            before=before if before.isalnum() and before.isascii() else None,
            limit=ROWS + 1,
            only_errors=query["show"] != "all" and not matches,
            request_id=query["id"] if matches else "",
            **{name: await self.find_id(name, query[name]) for name in FILTERS},
        )
        shown = rows[:ROWS]
        kept = {name: value for name, value in query.items() if value and (name != "id" or matches)}
        self.render_page(
            "requests.html",
            title=translate("Requests"),
            rows=shown,
            query=query,
            names=await self.name_users({row.user for row in shown if row.user}),
            older=f"{REQUESTS}?{urlencode({**kept, 'before': shown[-1].id}, errors='replace')}"
            if len(rows) > ROWS
            else "",
            newest=f"{REQUESTS}?{urlencode(kept, errors='replace')}" if before else "",
            is_unknown=bool(query["id"]) and not matches,
            is_shared=bool(matches),
            choices=await self.list_choices("key", "user", "team"),
            is_filtered=any(query[name] for name in FILTERS),
            find_reason=find_reason,
        )


class RequestPage(RequestHandler):
    """`/console/requests/ID`: every column of the ledger."""

    async def get(self, request_id: str) -> None:
        row = await self.find_request(request_id)
        if row is not None:
            await self.show(row)

    async def show(
        self, row: RequestRow, choice: dict[str, Any] | None = None, refusal: GateError | None = None
    ) -> None:
        """Send the page of a request. `choice` is the present choice of its target, `refusal` the error that its caller
        would receive.
        """
        names = await self.name_users({row.user} if row.user else set())
        refused = refusal.code if refusal else (choice or {}).get("refused", {}).get("code", "")
        teams = await self.run_database(self.services.accounts.teams.list_all) if row.team else []
        self.render_page(
            "request.html",
            title=translate("Request"),
            row=row,
            groups=list_columns(row),
            reason=find_reason(row.error_code, row.outcome),
            owner=names.get(row.user, row.user),
            team=next((f"{team.organisation_name} / {team.name}" for team in teams if team.id == row.team), row.team),
            choice=choice,
            refusal=refusal,
            refusal_reason=find_reason(refused) if refused else None,
        )


class ExplainPage(RequestPage):
    """`/console/requests/ID/explain`: explains the present handling of such a request, with the permissions and limits
    of its key.
    """

    async def get(self, request_id: str) -> None:
        row = await self.find_request(request_id)
        if row is None:
            return
        try:
            caller = await self._find_caller(row)
            call = make_question(self.request_id, row.operation, row.format, row.model, caller)
            choice = await explain_choice(self.gate, self.snapshot, call)
        except GateError as error:
            await self.show(row, refusal=error)
            return
        await self.show(row, choice=choice)

    async def _find_caller(self, row: RequestRow) -> Caller:
        """Return the caller of the request with its current permissions. Raises GateError if the key is no longer valid."""
        if row.key.startswith(CONF_KEY):
            name = row.key.removeprefix(CONF_KEY)
            entry = next((entry for entry in self.snapshot.config.keys if entry.name == name and entry.key), None)
            if entry is None:
                raise NotFound(translate("The key of the request is no longer in conf."), code="invalid_api_key")
            return await self.gate.callers.describe(digest_key(entry.key))
        try:
            key: StoredKey = await self.run_database(KeyStore(self.services.database).get, row.key)
        except AccountNotFound:
            raise NotFound(translate("The key of the request was deleted."), code="invalid_api_key") from None
        return await self.gate.callers.describe(key.digest)


_GROUPS = {
    "Tokens": (
        "input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens",
        "reasoning_tokens", "audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens",
    ),
    "Details": (
        "operation", "format", "upstream_model", "provider", "plugin", "outcome", "attempts", "first_byte_ms", "total_ms",
    ),
    "Caller": ("key_name", "key", "account", "tags", "end_user"),
}  # fmt: skip
_SHOWN_ELSEWHERE = frozenset(
    ("id", "moment", "request_id", "user", "team", "model", "status", "error_code", "cost", "body", "attribution")
)


def list_columns(row: RequestRow) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of a row with their values as texts, in groups. Columns of later versions are in the last group."""
    values = msgspec.structs.asdict(row)
    grouped = {name for names in _GROUPS.values() for name in names}
    rest = [name for name in values if name not in grouped and name not in _SHOWN_ELSEWHERE]
    groups = {
        title: [(_describe_column(name), format_value(name, values[name])) for name in names if name in values]
        for title, names in {**_GROUPS, "Other": tuple(rest)}.items()
    }
    groups["Caller"] += [(name, str(value)) for name, value in row.attribution.items()]
    return {title: columns for title, columns in groups.items() if columns}


def _describe_column(name: str) -> str:
    return {"first_byte_ms": translate("first byte"), "total_ms": translate("whole request")}.get(
        name, name.replace("_", " ")
    )


def format_value(name: str, value: Any) -> str:
    """Return the value of a column as text; an en dash for an unknown value."""
    if value is None or value in ("", ()):
        return "–"
    if name.endswith("_ms"):
        return f"{value:,.0f} ms"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,.15g}" if isinstance(value, int | float) else words.shorten(str(value), 500)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (REQUESTS, RequestsPage),
    (rf"{REQUESTS}/{_REQUEST_ID}", RequestPage),
    (rf"{REQUESTS}/{_REQUEST_ID}/explain", ExplainPage),
]
