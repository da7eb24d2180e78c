"""Add a model, change one or remove one. The change of the file is shown, checked, applied and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote

from tornado_gate.config.entry_edits import EntryAddition, EntryChange, EntryRemoval, Step
from tornado_gate.config.routing_keys import STRATEGIES
from tornado_gate.config.yaml_edit import EditRefused
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import NotFound, RequestError, Unavailable
from tornado_gate.server.configuration_changes import change_configuration, run_check
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.entry_removal import UNDO, RemoveEntryPage
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.model_form import (
    TEXTS,
    TargetRow,
    add_empty_rows,
    fill_model_form,
    find_changes,
    list_target_rows,
    parse_model_form,
    read_target_rows,
)
from tornado_gate.server.console.model_pages import MODELS
from tornado_gate.server.console.plugin_pages import split_diff
from tornado_gate.server.console.vocabulary import name_word
from tornado_gate.server.plugin_settings import WrittenEntry, read_entry
from tornado_gate.server.process.conf_change import Review, review_change


class ModelFormPage(AdminHandler):
    """The form of a model. The button pressed is the field ``action``: ``show`` or ``save``."""

    async def read_entry(self, name: str) -> WrittenEntry:
        """Return the entry as it is written in the file. Raises Unavailable."""
        try:
            return await asyncio.to_thread(read_entry, self.snapshot.config, name, "models")
        except (OSError, UnicodeDecodeError, EditRefused, DatabaseError) as error:
            raise Unavailable(translate("The configuration file cannot be read. Run 'tornado-gate check'.")) from error

    def read_model_form(self) -> tuple[Form, list[TargetRow]]:
        """Return the form that was sent, and its targets."""
        form = Form({name: self.get_field(name)[:2000] for name in (*TEXTS, "version")})
        names = ("provider", "model", "weight")
        return form, read_target_rows(*(self.get_body_arguments(name) for name in names))

    async def handle(self, action: str, name: str, form: Form, rows: list[TargetRow], steps: list[Step]) -> None:
        """Show the change of the file, or make it. Raises no RequestError: a refusal is shown."""
        if not steps:
            form.error = translate("Nothing is changed.")
            self.show(form, rows)
            return
        try:
            if self.get_field("action") == "save":
                await self._save(action, name, form, steps)
                return
            review = await run_check(review_change, self.snapshot.config, steps)
            form.values["version"] = review.digest or form.values["version"]
            self.show(form, rows, review=review)
        except RequestError as error:
            form.error = error.message.partition("\n")[0].removesuffix(" Lines of the change:")
            form.values["version"] = (await self.read_entry(name)).version
            self.show(form, rows, status=error.status)

    async def _save(self, action: str, name: str, form: Form, steps: list[Step]) -> None:
        done = await change_configuration(
            self.services, self.make_actor(), action, name, steps, version=form.values["version"] or None
        )
        self.render_page(
            "entry_saved.html",
            title=translate("{name} is saved").format(name=name),
            name=name,
            models=[] if "*" in name else [name],
            done=done,
            lines=split_diff(done.diff),
            undo=f"{UNDO}/{done.version}",
            back=MODELS,
            back_text=translate("All models"),
        )

    def show(self, form: Form, rows: Sequence[TargetRow], *, review: Review | None = None, status: int = 200) -> None:
        """Send the form."""
        providers = [*self.snapshot.config.providers, *(row.provider for row in rows)]
        self.render_page(
            "model_form.html",
            title=self.get_title(form),
            status=status,
            form=form,
            is_new=self.is_new,
            rows=add_empty_rows(rows),
            providers=list(dict.fromkeys(name for name in providers if name)),
            strategies=[(name, name_word(name)) for name in STRATEGIES],
            review=review,
            lines=split_diff(review.diff) if review else [],
        )

    is_new = False

    def get_title(self, form: Form) -> str:
        """Return the heading."""
        return form.values["name"]


class AddModelPage(ModelFormPage):
    """`/console/models/new`."""

    is_new = True

    def get_title(self, form: Form) -> str:
        return translate("Add model")

    async def get(self) -> None:
        form = Form({**fill_model_form("", {}), "version": (await self.read_entry("")).version}, focus="name")
        self.show(form, [TargetRow(provider=self.get_query_argument("provider", "")[:100])])

    async def post(self) -> None:
        form, rows = self.read_model_form()
        name = form.values["name"]
        if not name:
            form.errors["name"] = translate("Give the model a name.")
        members = parse_model_form(form, rows)
        if form.has_errors:
            self.show(form, rows, status=400)
            return
        entry = {member: value for member, value in members.items() if value is not None}
        step = EntryAddition(section="models", name=name, entry=entry, new_secrets=frozenset())
        await self.handle("model.create", name, form, rows, [step])


class ModelPage(ModelFormPage):
    """`/console/models/entry/NAME`."""

    async def get(self, name: str) -> None:
        name, entry = await self._find_entry(name)
        form = Form({**fill_model_form(name, entry.members), "version": entry.version}, focus="fallback")
        self.show(form, list_target_rows(entry.members))

    async def post(self, name: str) -> None:
        name, entry = await self._find_entry(name)
        form, rows = self.read_model_form()
        form.values["name"] = name
        members = parse_model_form(form, rows)
        if form.has_errors:
            self.show(form, rows, status=400)
            return
        changes = find_changes(entry.members, members)
        step = EntryChange(section="models", name=name, members=changes, new_secrets=frozenset())
        await self.handle("model.change", name, form, rows, [step] if changes else [])

    async def _find_entry(self, quoted: str) -> tuple[str, WrittenEntry]:
        """Return the name and the entry of a model. Raises NotFound."""
        name = unquote(quoted)
        entry = await self.read_entry(name)
        if not entry.members:
            raise NotFound(translate("conf has no model '{name}'.").format(name=name[:100]), code="unknown_model")
        return name, entry


class RemoveModelPage(RemoveEntryPage):
    """`/console/models/entry/NAME/remove`: reviews the removal; with the digest of the reviewed file, applies it."""

    action = "model.delete"
    back = MODELS

    @property
    def back_text(self) -> str:
        return translate("All models")

    def make_steps(self, name: str) -> list[Step]:
        config = self.snapshot.config
        if name not in config.models and ("models", name) not in dict(config.inactive):
            raise NotFound(translate("conf has no model '{name}'.").format(name=name[:100]), code="unknown_model")
        return [EntryRemoval(section="models", name=name)]


_ENTRY = rf"{MODELS}/entry/([^/]{{1,600}})"
ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (f"{MODELS}/new", AddModelPage),
    (_ENTRY, ModelPage),
    (f"{_ENTRY}/remove", RemoveModelPage),
]
