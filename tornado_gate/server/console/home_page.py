"""The home page: the state of the gateway, the visitor's models, first steps, and a snippet for each SDK."""

from __future__ import annotations

from tornado_gate.accounts.keys import KeyStore
from tornado_gate.server.admin.views import ModelView, describe_models
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.snippets import is_plain, list_snippets, read_provider_example, render_snippet
from tornado_gate.types.value import Value

MOST_MODELS = 200
"""The maximum number of models in the table."""
NO_MODEL = "MODEL"


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
        self.render_page(
            "home.html",
            title=translate("Home"),
            models=models[:MOST_MODELS],
            model_count=len(models),
            available=sum(view.state == "available" for view in models),
            is_draining=self.gate.readiness.is_draining,
            steps=steps,
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

    def _choose_model(self, models: list[ModelView], chat_models: list[str]) -> str:
        healthy = {view.name for view in models if view.state == "available"}
        return next((name for name in chat_models if name in healthy), chat_models[0] if chat_models else NO_MODEL)

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
