"""Requests in the ledger: a list with filters, the same as a file, one request with every column, and for administrators
the choice of its target now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import msgspec
import orjson

from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.key_rules import list_managed_teams
from tornado_gate.accounts.keys import KeyStore, StoredKey, digest_key
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.errors import GateError, NotFound
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.request_search import RequestPage as RequestPageOfLedger
from tornado_gate.ledger.request_search import RequestQuery, search_requests
from tornado_gate.ledger.rows import RequestRow
from tornado_gate.pipeline.calls import make_question
from tornado_gate.pipeline.explain import explain_choice
from tornado_gate.server.admin.csv_cells import render_csv, render_csv_rows
from tornado_gate.server.console import words
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import Access, ConsoleHandler
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.server.console.reasons import find_reason
from tornado_gate.server.console.request_query import REFRESH_SECONDS, REQUESTS, ROWS, RequestsView, parse_requests_view
from tornado_gate.server.console.vocabulary import name_value, name_word, translate_phrases
from tornado_gate.types import Caller

_REQUEST_ID = r"([A-Za-z0-9_.:\-]{1,128})"
EXPORT_ROWS = 50_000
"""The most requests of a file."""
EXPORT_PAGE = 500
_HIDDEN_FROM_MEMBERS = frozenset({"error_detail", "body"})
"""Columns for administrators: advice for them with the upstream's own words, and bodies, which conf records."""


class RequestHandler(AdminHandler):
    """A page about requests: the visitor's own, those of the teams that the visitor administrates, an administrator's all."""

    access: ClassVar[Access] = "member"

    @property
    def reports(self) -> Reports:
        return Reports(self.services.database)

    @property
    def is_administrator(self) -> bool:
        return self.user.role == "administrator"

    async def get_view(self) -> RequestsView:
        memberships = await self.run_database(self.services.accounts.members.list_of_user, self.user.id)
        return parse_requests_view(lambda name: self.get_query_argument(name, ""), self.user, memberships)

    async def make_filters(self, view: RequestsView) -> dict[str, Any]:
        """Return fields of `RequestQuery`. The names in an administrator's form become ids."""
        filters = view.make_filters(self.user)
        if self.is_administrator:
            for kind in ("key", "user", "team"):
                if filters[kind]:
                    filters[kind] = await self.find_id(kind, filters[kind])
        return filters

    async def find_visible(self, identity: str) -> list[RequestRow]:
        """Return the requests with this id that the visitor may see, at most two."""
        if self.is_administrator:
            return await self.run_database(self.reports.find_requests, identity)  # type: ignore[no-any-return]
        rows: list[RequestRow] = await self.run_database(self.reports.find_requests, identity, user=self.user.id)
        memberships = await self.run_database(self.services.accounts.members.list_of_user, self.user.id)
        for team in sorted(list_managed_teams(memberships)):
            rows += await self.run_database(self.reports.find_requests, identity, team=team)
        return list({row.id: row for row in rows}.values())[:2]

    async def find_request(self, request_id: str) -> RequestRow | None:
        """Return the request with this id; if several have it, the one whose row is in the address. Raises NotFound.

        None if several have the id and the address names no row: the browser is then led to their list.
        """
        row_id = self.get_query_argument("row", "")[:60]
        chosen = await self.find_visible(row_id) if row_id.isalnum() else []
        if chosen and chosen[0].id == row_id and chosen[0].request_id == request_id:
            return chosen[0]
        rows = await self.find_visible(request_id)
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
    """`/console/requests`: with `show=all`, the list includes requests without an error; with `live`, it is renewed."""

    async def get(self) -> None:
        view = await self.get_view()
        matches: list[RequestRow] = []
        if view.request_id:
            matches = await self.find_visible(view.request_id)
            if len(matches) == 1:
                self.redirect(f"{REQUESTS}/{quote(matches[0].request_id, safe='')}?row={matches[0].id}")
                return
        filters = await self.make_filters(view)
        if matches:
            filters |= {"request_id": view.request_id, "only_errors": False}
        query = RequestQuery(limit=ROWS, **filters)
        page: RequestPageOfLedger = await self.run_database(search_requests, self.services.database, query)
        kept = {"id": view.request_id} if matches else {}
        self.render_page(
            "requests.html",
            title=translate("Requests"),
            rows=page.rows,
            view=view,
            names=await self.name_users({row.user for row in page.rows if row.user}),
            older=view.make_link(**kept, before=page.next, live="") if page.next else "",
            newest=view.make_link(**kept) if view.before else "",
            is_unknown=bool(view.request_id) and not matches,
            is_shared=bool(matches),
            choices=await self.list_choices("key", "user", "team") if self.is_administrator else {},
            find_reason=find_reason,
            refresh_seconds=REFRESH_SECONDS,
        )


class RequestsFile(RequestHandler):
    """`/console/requests.csv` and `.jsonl`: the requests of the list's filters, the newest EXPORT_ROWS of them.

    The file is sent page by page, so neither memory nor the database holds all of it.
    """

    async def get(self) -> None:
        view, kind = await self.get_view(), self.request.path.rstrip("/").rpartition(".")[2]
        filters = {**await self.make_filters(view), "before": None}
        names = [name for name in EXPORTED if self.is_administrator or name not in _HIDDEN_FROM_MEMBERS]
        media_type = "text/csv" if kind == "csv" else "application/x-ndjson"
        self.set_header("Content-Type", f"{media_type}; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="requests.{kind}"')
        if kind == "csv":
            self.write(render_csv(names, ()))
        left = EXPORT_ROWS
        while left > 0:
            query = RequestQuery(limit=min(left, EXPORT_PAGE), **filters)
            page: RequestPageOfLedger = await self.run_database(search_requests, self.services.database, query)
            self.write(await asyncio.to_thread(render_rows, kind, names, page.rows))
            await self.flush()
            left -= len(page.rows)
            filters["before"] = page.next
            if not page.next:
                break
        self.finish()


EXPORTED = (
    *(
        "moment",
        "id",
        "request_id",
        "key",
        "key_name",
        "user",
        "team",
        "model",
        "upstream_model",
        "provider",
        "operation",
    ),
    *(
        "format",
        "status",
        "outcome",
        "error_code",
        "error_message",
        "error_detail",
        "input_tokens",
        "cached_input_tokens",
    ),
    *("output_tokens", "reasoning_tokens", "tokens_per_second", "first_byte_ms", "total_ms", "attempts", "cost_usd"),
    *("estimated", "cached", "tags", "end_user", "body"),
)
"""The columns of a file."""


def render_rows(kind: str, names: Sequence[str], rows: Sequence[RequestRow]) -> str | bytes:
    """Return rows as lines of CSV, without the headings, or as lines of JSON."""
    if kind == "csv":
        cells = ([_format_cell(getattr(row, name)) for name in names] for row in rows)
        return render_csv_rows(cells)
    return b"".join([orjson.dumps({name: getattr(row, name) for name in names}) + b"\n" for row in rows])


def _format_cell(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, tuple) else value


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
            is_administrator=self.is_administrator,
            detail=row.error_detail if self.is_administrator else "",
            body=row.body if self.is_administrator else None,
            reason=find_reason(row.error_code, row.outcome),
            owner=names.get(row.user, row.user),
            team=next((f"{team.organisation_name} / {team.name}" for team in teams if team.id == row.team), row.team),
            choice=choice,
            translate_phrases=translate_phrases,
            describe_bound=describe_bound,
            refusal=refusal,
            refusal_reason=find_reason(refused) if refused else None,
        )


class ExplainPage(RequestPage):
    """`/console/requests/ID/explain`: explains the present handling of such a request, with the permissions and limits of
    its key. For administrators only.
    """

    access: ClassVar[Access] = "administrator"

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
    mark("Tokens"): (
        "input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_tokens",
        "reasoning_tokens", "audio_input_tokens", "audio_output_tokens", "image_tokens", "image_output_tokens",
    ),
    mark("Details"): (
        "operation", "format", "upstream_model", "provider", "plugin", "outcome", "attempts", "first_byte_ms", "total_ms",
    ),
    mark("Caller"): ("key_name", "key", "account", "tags", "end_user"),
}  # fmt: skip
_SHOWN_ELSEWHERE = frozenset(
    (
        *("id", "moment", "request_id", "user", "team", "model", "status", "error_code", "cost", "body", "attribution"),
        *("error_message", "error_detail"),
    )
)
_ALWAYS_SHOWN = frozenset(("input_tokens", "output_tokens", "first_byte_ms", "tags", "end_user"))


def list_columns(row: RequestRow) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of a row with their values as texts, in groups. Columns of later versions are in the last group.

    Counts that the request does not have are left out, except of input and output tokens.
    """
    values = msgspec.structs.asdict(row)
    grouped = {name for names in _GROUPS.values() for name in names}
    rest = [name for name in values if name not in grouped and name not in _SHOWN_ELSEWHERE]
    groups = {
        title: [
            (_describe_column(name), format_value(name, values[name])) for name in names if _has_column(values, name)
        ]
        for title, names in {**_GROUPS, mark("Other"): tuple(rest)}.items()
    }
    groups["Caller"] += [(translate(name, "word"), str(value)) for name, value in row.attribution.items()]
    return {translate(title): columns for title, columns in groups.items() if columns}


def _has_column(values: Mapping[str, Any], name: str) -> bool:
    return values.get(name) is not None or (name in values and name in _ALWAYS_SHOWN)


def _describe_column(name: str) -> str:
    return {"first_byte_ms": translate("first byte"), "total_ms": translate("whole request")}.get(name, name_word(name))


def format_value(name: str, value: Any) -> str:
    """Return the value of a column as text; an en dash for an unknown value."""
    if value is None or value in ("", ()):
        return "–"
    if name.endswith("_ms"):
        return f"{value:,.0f} ms"
    if isinstance(value, bool):
        return translate("yes" if value else "no")
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,.15g}" if isinstance(value, int | float) else words.shorten(name_value(name, value), 500)


def describe_bound(item: Mapping[str, Any]) -> str:
    """Return what is left of a limit, from an explanation."""
    bound, subject = name_word(item["bound"]), f"{name_word(item['subject'])} {item['name']}".strip()
    text = translate("{bound} of the {subject}: {left} left of {limit}")
    return text.format(bound=bound, subject=subject, left=item["left"], limit=item["limit"])


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (REQUESTS, RequestsPage),
    (rf"{REQUESTS}\.csv", RequestsFile),
    (rf"{REQUESTS}\.jsonl", RequestsFile),
    (rf"{REQUESTS}/{_REQUEST_ID}", RequestPage),
    (rf"{REQUESTS}/{_REQUEST_ID}/explain", ExplainPage),
]
