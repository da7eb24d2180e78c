"""The playground: a page that sends requests of the visitor to the gateway's own API, as any other client does.

Its script gets a short-lived key, which it holds in memory only. This module does not depend on the API's routes.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tornado_gate.accounts.key_rules import find_binding_team
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.session_keys import create_session_key
from tornado_gate.ledger.reports import Reports
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.types import Caller

TABS = (
    ("chat", mark("Chat")),
    ("images", mark("Images")),
    ("speech", mark("Speech")),
    ("videos", mark("Video")),
    ("realtime", mark("Realtime")),
)
"""Operations with a tab, and the tab's label."""


def list_playground_models(snapshot: Snapshot, caller: Caller) -> dict[str, list[dict[str, Any]]]:
    """Return the models that a caller may use, by operation, for each operation with a tab and at least one model.

    Each is ``{"id", "family", "title"}``; `family` names the rules of image requests: "one", "two", "three" or "".
    """
    models = snapshot.targets.list_models(caller)
    by_operation: dict[str, list[dict[str, Any]]] = {}
    for operation, _ in TABS:
        able = [model for model in models if operation in model.operations]
        if able:
            by_operation[operation] = [
                {
                    "id": model.id,
                    "family": model.facts.get("image_family", ""),
                    "title": model.facts.get("display_name") or model.id,
                }
                for model in able
            ]
    return by_operation


class PlaygroundHandler(ConsoleHandler):
    """The page, with the tabs for which the visitor has models."""

    access = "member"

    async def get(self) -> None:
        team = find_binding_team(self.user, await self.get_memberships())
        caller = Caller(id="", account=self.user.id, user=self.user.id, models=team.models if team else ())
        models = list_playground_models(self.snapshot, caller)
        self.render_page(
            "playground.html",
            title=translate("Playground"),
            tabs=[(name, translate(label)) for name, label in TABS if name in models],
            models=json.dumps(models),
        )


class PlaygroundKeyHandler(ConsoleHandler):
    """The endpoint that makes the key of the session, for the page's script. The previous key is revoked."""

    access = "member"

    async def post(self) -> None:
        store = KeyStore(self.services.database)
        team = find_binding_team(self.user, await self.get_memberships())
        text, key = await self.run_database(create_session_key, store, self.session, team.id if team else None)
        self.write({"key": text, "expires": key.expires})


class PlaygroundCostHandler(ConsoleHandler):
    """The cost of a request of the visitor in US dollars, as in `x-gate-cost`; null before the ledger has it."""

    access = "member"

    async def post(self) -> None:
        reports = Reports(self.services.database)
        rows = await self.run_database(reports.find_requests, self.get_field("id")[:200])
        cost = next((row.cost for row in rows if row.user == self.user.id), None)
        self.write({"cost": None if cost is None else format(Decimal(cost).scaleb(-9).normalize(), "f")})


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    ("/console/playground", PlaygroundHandler),
    ("/console/playground/key", PlaygroundKeyHandler),
    ("/console/playground/cost", PlaygroundCostHandler),
]
