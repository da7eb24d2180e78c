"""Add a provider entry with its models, and remove one. The change of the file is shown, checked, applied and recorded."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

from tornado_gate.config import source
from tornado_gate.config.entry_edits import EntryRemoval, Step, TextRestoration
from tornado_gate.config.model import Config
from tornado_gate.errors import GateError, NotFound, RequestError
from tornado_gate.pipeline.connection_tests import ConnectionTest, check_connection
from tornado_gate.pipeline.vendors import OfferedVendor, list_vendors
from tornado_gate.server.configuration_changes import AppliedChange, change_configuration, run_check, store_key
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.plugin_pages import split_diff
from tornado_gate.server.console.provider_form import (
    ALL_MODELS,
    FIELDS,
    MAX_ROWS,
    Draft,
    ModelRow,
    check_fields,
    find_draft_secret,
    list_rows,
    make_entry,
)
from tornado_gate.server.process import conf_history
from tornado_gate.server.process.conf_change import Review, review_change

PROVIDERS = "/console/providers"
ADD = "/console/providers/new"
UNDO = "/console/configuration/undo"


class AddProviderPage(AdminHandler):
    """`/console/providers/new`: the button pressed is the field ``action``: ``test``, ``show`` or ``save``."""

    async def get(self) -> None:
        form = Form({"vendor": self.get_query_argument("vendor", "")}, focus="vendor")
        await self._show(form, await self._list_vendors())

    async def post(self) -> None:
        config, offers = self.snapshot.config, await self._list_vendors()
        form = Form({name: self.get_field(name) for name in (*FIELDS, "secret", "version")})
        offer = next((offer for offer in offers if offer.id == form.values["vendor"]), None)
        if offer is not None and not form.values["name"]:
            form.values["name"] = offer.vendor.name
        reference = await self._find_key(form, config)
        check_fields(form, offer, has_key=bool(reference), config=config)
        if form.has_errors or offer is None:
            await self._show(form, offers, status=400)
            return
        models = (*self.get_body_arguments("models"), *form.values["further"].split())
        entry = make_entry(offer, form.values["base_url"], reference)
        draft = Draft(name=form.values["name"], entry=entry, models=models)
        form.values["base_url"] = form.values["base_url"] or offer.vendor.base_url
        if self.get_field("action") == "save":
            await self._save(form, offers, draft)
        else:
            await self._test(form, offers, draft)

    async def _list_vendors(self) -> list[OfferedVendor]:
        return await run_check(list_vendors, self.snapshot.config.path)

    async def _find_key(self, form: Form, config: Config) -> str:
        """Return the reference to the key: of a new one, which is stored now, or of one that the form has stored."""
        key = form.values.pop("api_key")
        form.values["api_key"] = ""
        if not key:
            reference: str = await self.run_database(find_draft_secret, config, form.values["secret"])
        else:
            reference = await self.run_database(store_key, config, form.values["name"], key)
        form.values["secret"] = reference.removeprefix("${secret:").removesuffix("}")
        return reference

    async def _test(self, form: Form, offers: list[OfferedVendor], draft: Draft) -> None:
        is_test = self.get_field("action") == "test"
        steps = [draft.make_provider_step()] if is_test else draft.make_steps(self.snapshot.config.models)
        review: Review = await run_check(review_change, self.snapshot.config, steps)
        form.values["version"] = review.digest or form.values["version"]
        result: ConnectionTest | None = None
        rows: list[ModelRow] = []
        if review.snapshot is not None and is_test:
            result = await check_connection(review.snapshot, draft.name)
            rows = await asyncio.to_thread(list_rows, review.snapshot, draft.name, result.models)
        listed = {row.name for row in rows} | {ALL_MODELS}
        form.values["further"] = " ".join(name for name in draft.models if name not in listed)
        chosen = frozenset(draft.models)
        await self._show(form, offers, review=review, result=result, rows=rows, chosen=chosen)

    async def _save(self, form: Form, offers: list[OfferedVendor], draft: Draft) -> None:
        steps = draft.make_steps(self.snapshot.config.models)
        version = form.values["version"] or None
        try:
            done = await change_configuration(
                self.services, self.make_actor(), "provider.create", draft.name, steps, version=version
            )
        except RequestError as error:
            if error.param in FIELDS:
                form.errors[error.param] = error.message
            else:
                form.error = error.message.partition("\n")[0].removesuffix(" Lines of the change:")
            form.values["further"] = " ".join(draft.models)
            form.values["version"] = ""
            review = await self._review_safely(steps)
            await self._show(form, offers, review=review, status=error.status)
            return
        self._show_saved(draft, steps, done)

    async def _review_safely(self, steps: list[Step]) -> Review | None:
        """Return the review of a change that was refused; None if it does not fit the file."""
        try:
            return await run_check(review_change, self.snapshot.config, steps)
        except GateError:
            return None

    def _show_saved(self, draft: Draft, steps: list[Step], done: AppliedChange) -> None:
        names = [step.name for step in steps[1:] if hasattr(step, "name")]
        self.render_page(
            "provider_saved.html",
            title=f"{draft.name} is saved",
            name=draft.name,
            models=names,
            done=done,
            lines=split_diff(done.diff),
            undo=f"{UNDO}/{done.version}",
        )

    async def _show(
        self,
        form: Form,
        offers: list[OfferedVendor],
        *,
        review: Review | None = None,
        result: ConnectionTest | None = None,
        rows: list[ModelRow] | None = None,
        chosen: frozenset[str] = frozenset(),
        status: int = 200,
    ) -> None:
        if not form.values.get("version"):
            form.values["version"] = await asyncio.to_thread(read_version, self.snapshot.config)
        addresses = {offer.id: (offer.vendor.name, offer.vendor.base_url) for offer in offers}
        self.render_page(
            "provider_new.html",
            title="Add provider",
            status=status,
            form=form,
            offers=offers,
            addresses=addresses,
            review=review,
            lines=split_diff(review.diff) if review else [],
            result=result,
            rows=rows or [],
            most=MAX_ROWS,
            chosen=chosen,
            error="",
        )


def read_version(config: Config) -> str:
    """Return the version of the file as it is now; "" if it cannot be read. Synchronous."""
    try:
        return source.digest_text(config.path.read_bytes().decode()) if config.path else ""
    except (OSError, UnicodeDecodeError):
        return ""


class RemoveProviderPage(AdminHandler):
    """`/console/providers/entry/NAME/remove`: reviews the removal; with the digest of the reviewed file, applies it.

    Models whose only provider it is are removed with it.
    """

    async def get(self, name: str) -> None:
        name = unquote(name)
        await self._review(name, self._make_steps(name))

    async def post(self, name: str) -> None:
        name = unquote(name)
        steps = self._make_steps(name)
        try:
            await change_configuration(
                self.services, self.make_actor(), "provider.delete", name, steps, version=self.get_field("digest")
            )
        except RequestError as error:
            await self._review(name, steps, error=error.message, status=error.status)
            return
        self.flash(f"{name} is removed from the configuration.")
        self.redirect(PROVIDERS, status=303)

    def _make_steps(self, name: str) -> list[Step]:
        config = self.snapshot.config
        if name not in config.providers and ("providers", name) not in dict(config.inactive):
            raise NotFound(f"conf has no provider entry '{name[:100]}'.", code="unknown_provider")
        own = [
            entry.name
            for entry in config.models.values()
            if entry.targets and all(target.provider == name for target in entry.targets)
        ]
        steps: list[Step] = [EntryRemoval(section="models", name=model) for model in own]
        steps.append(EntryRemoval(section="providers", name=name))
        return steps

    async def _review(self, name: str, steps: list[Step], *, error: str = "", status: int = 200) -> None:
        review: Any = None
        try:
            review = await run_check(review_change, self.snapshot.config, steps)
        except RequestError as refused:
            error = error or refused.message
        self.render_page(
            "provider_remove.html",
            title=f"Remove {name}",
            status=status,
            review=review,
            lines=split_diff(review.diff) if review else [],
            error=error,
        )


class UndoPage(AdminHandler):
    """`/console/configuration/undo/VERSION`: restores the text of the file before the change that made this version."""

    def get(self, _version: str) -> None:
        self.redirect(PROVIDERS)

    async def post(self, version: str) -> None:
        data_dir = self.snapshot.config.server.data_dir
        text = await self.run_database(conf_history.find_text, data_dir, version)
        if text is None:
            raise NotFound("This change cannot be undone here any more. Change the file.", code="not_found")
        await change_configuration(
            self.services,
            self.make_actor(),
            "configuration.undo",
            version[:12],
            [TextRestoration(text)],
            version=version,
        )
        self.flash("The change of the configuration is undone.")
        self.redirect(PROVIDERS, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (ADD, AddProviderPage),
    (rf"{UNDO}/([a-z0-9]{{1,64}})", UndoPage),
    (rf"{PROVIDERS}/entry/([^/]{{1,300}})/remove", RemoveProviderPage),
]
