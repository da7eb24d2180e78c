"""Models and providers in the state of this process: states, circuits, recent errors."""

from __future__ import annotations

import time
from functools import partial
from typing import get_args
from urllib.parse import quote

from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import UsageQuery, UsageRow
from tornado_gate.server.admin.target_views import CircuitView, KeyView, ModelState
from tornado_gate.server.admin.views import ModelView, describe_models, describe_providers
from tornado_gate.server.console import words
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.model_catalogue import describe_abilities, describe_context, describe_price
from tornado_gate.server.console.paging import Paging, parse_page
from tornado_gate.server.console.reasons import find_reason

RECENT_SECONDS = 3600.0
MODELS = "/console/models"
ROWS = 100


class ModelsPage(AdminHandler):
    """`/console/models`."""

    async def get(self) -> None:
        query = self.get_query("search", "state")
        models = await describe_models(self.services)
        matches = [model for model in models if _matches_filters(model, query["search"], query["state"])]
        number = parse_page(self.get_query_argument("page", ""))
        self.render_page(
            "models.html",
            title=translate("Models"),
            models=matches[(number - 1) * ROWS : number * ROWS],
            paging=Paging(path=MODELS, query=query, number=number, total=len(matches), rows=ROWS),
            query=query,
            describe_price=partial(describe_price, self.snapshot),
            describe_context=describe_context,
            describe_abilities=describe_abilities,
            quote_segment=partial(quote, safe=""),
            states=get_args(ModelState),
            describe_circuit=describe_circuit,
            describe_key_rest=describe_key_rest,
        )


def _matches_filters(model: ModelView, search: str, state: str) -> bool:
    texts = (model.name, str(model.facts.get("display_name", "")), *(target.provider for target in model.targets))
    folded = search.casefold()
    return state in ("", model.state) and any(folded in text.casefold() for text in texts)


def describe_circuit(circuit: CircuitView) -> str:
    """Return the meaning of a circuit's state, its duration and its reason. The state itself is shown beside it."""
    last = ""
    if circuit.failed_seconds is not None:
        meaning = find_reason(circuit.error_code).meaning.removesuffix(".")
        last = translate(" Last failure {time} ago: {meaning}.").format(
            time=words.format_duration(circuit.failed_seconds), meaning=meaning
        )
    if circuit.state == "closed":
        return translate("Requests are sent.{last}").format(last=last)
    whom = translate("For the account {account} only: ").format(account=circuit.account) if circuit.account else ""
    since = (
        ""
        if circuit.opened_seconds is None
        else translate(" Open since {time}.").format(time=words.format_duration(circuit.opened_seconds))
    )
    if circuit.state == "half-open":
        return translate("{whom}The next request tries the target.{since}{last}").format(
            whom=whom, since=since, last=last
        )
    wait = (
        translate(" Next try in {time}.").format(time=words.format_duration(circuit.retry_seconds))
        if circuit.retry_seconds
        else ""
    )
    return translate("{whom}No requests are sent.{since}{wait}{last}").format(
        whom=whom, since=since, wait=wait, last=last
    )


def describe_key_rest(key: KeyView) -> str:
    """Return why a key of a provider entry is suspended."""
    return find_reason(key.error_code).meaning


class ProvidersPage(AdminHandler):
    """`/console/providers`."""

    async def get(self) -> None:
        now = time.time()
        query = UsageQuery(start=now - RECENT_SECONDS, end=now, group_by=("provider",))
        rows: list[UsageRow] = await self.run_database(Reports(self.services.database).usage, query)
        self.render_page(
            "providers.html",
            title=translate("Providers"),
            providers=describe_providers(self.services),
            recent={row.group["provider"]: row for row in rows},
            describe_circuit=describe_circuit,
            describe_key_rest=describe_key_rest,
        )


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(MODELS, ModelsPage), ("/console/providers", ProvidersPage)]
