"""The pages of the audit log: a list with filters, and the same as CSV."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from urllib.parse import urlencode

from tornado_gate.accounts.audit import AuditEvent, list_events
from tornado_gate.server.admin.csv_cells import render_csv
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.audit_words import DIFF, KINDS, describe_action, describe_detail
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.entry_removal import UNDO, find_former_text
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.plugin_pages import split_diff

AUDIT = "/console/audit"
ROWS = 100
CSV_ROWS = 10_000
CSV_PAGE = 1000
COLUMNS = ("time", "actor", "actor_id", "action", "object", "detail", "address", "request_id")
"""The columns of the CSV file."""


class AuditHandler(AdminHandler):
    async def list_events(self, limit: int, before: int | None) -> list[AuditEvent]:
        """Return the events that the filters of the address select."""
        query = self.get_query("kind", "actor")
        action = f"{query['kind']}." if query["kind"] in KINDS else ""
        actor = await self.find_id("user", query["actor"])
        events: list[AuditEvent] = await self.run_database(
            list_events, self.services.database, before=before, limit=limit, action=action, actor=actor
        )
        return events


class AuditPage(AuditHandler):
    """`/console/audit`."""

    async def get(self) -> None:
        before = self.get_query_argument("before", "")
        number = int(before) if before.isascii() and before.isdigit() and len(before) < 16 else None
        events = await self.list_events(ROWS + 1, number)
        query = self.get_query("kind", "actor")
        people = {event.actor for event in events} | {event.object for event in events}
        shown = events[:ROWS]
        teams = await self.run_database(self.services.accounts.teams.list_all)
        filters = urlencode({name: value for name, value in query.items() if value}, errors="replace")
        self.render_page(
            "audit.html",
            title=translate("Audit log"),
            events=shown,
            query=query,
            kinds=KINDS,
            choices=await self.list_choices("user"),
            names=await self.name_users({identity for identity in people if identity.startswith("user_")}),
            teams={team.id: f"{team.organisation_name} / {team.name}" for team in teams},
            older=f"{AUDIT}?{urlencode({**query, 'before': shown[-1].id}, errors='replace')}"
            if len(events) > ROWS
            else "",
            is_first=number is None,
            csv_address=f"{AUDIT}.csv?{filters}",
            undo=await self._find_undo(shown if number is None else []),
            describe_action=describe_action,
            describe_detail=describe_detail,
            find_diff=lambda event: split_diff(str(event.detail.get(DIFF, ""))),
        )

    async def _find_undo(self, events: list[AuditEvent]) -> tuple[int, str]:
        """Return the id of the newest change of the configuration, and the address that undoes it; (0, "") without one."""
        newest = next((event for event in events if event.detail.get(DIFF)), None)
        version = self.snapshot.config.version
        if newest is None or not version:
            return 0, ""
        former = await self.run_database(find_former_text, self.services, version)
        return (0, "") if former is None else (newest.id, f"{UNDO}/{version}")


class AuditTablePage(AuditHandler):
    """`/console/audit.csv`: the newest events with the filters of the list."""

    async def get(self) -> None:
        events: list[AuditEvent] = []
        while len(events) < CSV_ROWS:
            page = await self.list_events(CSV_PAGE, events[-1].id if events else None)
            events += page
            if len(page) < CSV_PAGE:
                break
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="audit.csv"')
        self.finish(await asyncio.to_thread(render_csv, COLUMNS, (list_cells(event) for event in events)))


def list_cells(event: AuditEvent) -> list[str]:
    moment = datetime.fromtimestamp(event.moment, UTC).isoformat(timespec="milliseconds")
    detail = json.dumps(event.detail, ensure_ascii=False)
    return [
        moment, event.actor_name, event.actor, event.action, event.object, detail, event.address, event.request_id,
    ]  # fmt: skip


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(AUDIT, AuditPage), (rf"{AUDIT}\.csv", AuditTablePage)]
