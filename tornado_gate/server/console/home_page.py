"""The home page: the state of the gateway, the visitor's models, first steps, and a snippet for each SDK."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tornado_gate.accounts.key_rules import list_managed_teams
from tornado_gate.accounts.keys import KeyStore, StoredKey
from tornado_gate.server.admin.views import ModelView, describe_models
from tornado_gate.server.console.attention import MAX_ITEMS, Item, list_gateway_items, list_own_items
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.bound_bars import Bar, read_bars
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.model_catalogue import describe_abilities, describe_context, describe_price
from tornado_gate.server.console.overview import read_figures
from tornado_gate.server.console.snippets import is_plain, list_snippets, read_provider_example, render_snippet
from tornado_gate.server.control.nodes import NodeView, list_nodes
from tornado_gate.types.value import Value

MOST_MODELS = 200
"""The maximum number of models in the table."""
NO_MODEL = "MODEL"
MAX_KEYS = 500
"""The maximum number of keys whose ends are looked at: the newest ones."""
MAX_BARS = 8


class Step(Value, frozen=True, kw_only=True):
    """A first step. `name` selects its text in the template."""

    name: str
    is_done: bool


class HomePage(ConsoleHandler):
    """`/console/`. `?sdk=` selects the snippet, `?model=` its model."""

    access = "member"

    async def get(self) -> None:
        models = [view for view in await describe_models(self.services) if view.state != "inactive"]
        titles = list_snippets()
        sdk = self.get_query_argument("sdk", "")
        sdk = sdk if sdk in titles else next(iter(titles))
        chat_models = [view.name for view in models if "chat" in view.operations and is_plain(view.name)]
        model = self.get_query_argument("model", "")
        model = model if model in chat_models else self._choose_model(models, chat_models)
        steps = await self._list_steps()
        items, bars = await self._find_state()
        self.render_page(
            "home.html",
            title=translate("Home"),
            models=models[:MOST_MODELS],
            describe_price=partial(describe_price, self.snapshot),
            describe_context=describe_context,
            describe_abilities=describe_abilities,
            model_count=len(models),
            available=sum(view.state == "available" for view in models),
            is_draining=self.gate.readiness.is_draining,
            nodes=await self._list_nodes(),
            steps=steps,
            figures=await self._read_figures(),
            items=items[:MAX_ITEMS],
            more_items=max(0, len(items) - MAX_ITEMS),
            bars=sorted(bars, key=lambda bar: -bar.part)[:MAX_BARS],
            bars_are_named=True,
            is_new=not all(step.is_done for step in steps),
            titles=titles,
            sdk=sdk,
            model=model,
            chat_models=chat_models,
            snippet=render_snippet(sdk, self.public_url, model),
            provider_example=read_provider_example(),
            inactive_providers=[
                str(path[1]) for path, _ in self.snapshot.config.inactive if path[0] == "providers" and len(path) == 2
            ],
            conf_path=self.snapshot.config.path,
        )

    @property
    def _is_for_all(self) -> bool:
        """Return whether the page shows the whole gateway: an administrator's does, a member's shows the member's own."""
        return self.user.role == "administrator"

    async def _read_figures(self) -> Any:
        whose = "" if self._is_for_all else self.user.id
        return await self.run_database(read_figures, self.services.database, whose, time.time())

    async def _find_state(self) -> tuple[list[Item], list[Bar]]:
        """Return what needs attention, and the bars of the visitor's own budgets and limits."""
        keys = await self._list_keys()
        memberships = await self.get_memberships()
        teams = [membership.team for membership in memberships]
        bars: list[Bar] = await read_bars(self.gate, self.services.database, [self.user, *teams, *keys])
        if self._is_for_all:
            return await list_gateway_items(self.gate, self.run_database), bars
        return list_own_items(bars, keys, list_managed_teams(memberships)), bars

    async def _list_keys(self) -> list[StoredKey]:
        store = KeyStore(self.services.database)
        keys, _ = await self.run_database(store.list_page, user=self.user.id, state="active", limit=MAX_KEYS)
        return list(keys)

    def _choose_model(self, models: list[ModelView], chat_models: list[str]) -> str:
        healthy = {view.name for view in models if view.state == "available"}
        return next((name for name in chat_models if name in healthy), chat_models[0] if chat_models else NO_MODEL)

    async def _list_nodes(self) -> list[NodeView]:
        if self.user.role != "administrator":
            return []
        nodes: list[NodeView] = await self.run_database(list_nodes, self.services.database)
        return nodes

    async def _list_steps(self) -> list[Step]:
        store = KeyStore(self.services.database)
        keys, count = await self.run_database(store.list_page, user=self.user.id, limit=100)
        steps = [
            Step(name="key", is_done=bool(count)),
            Step(name="request", is_done=any(key.last_used for key in keys)),
        ]
        if self.user.role == "administrator":
            has_vendor = any(provider.entry.api_key for provider in self.snapshot.targets.providers.values())
            _, users = await self.run_database(self.services.accounts.users.list_page, limit=2)
            steps += [Step(name="provider", is_done=has_vendor), Step(name="people", is_done=users > 1)]
        return steps


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [("/console", HomePage)]
