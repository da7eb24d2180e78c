"""Add a provider entry with its models, or change one. The change of the file is shown, checked, applied and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar
from urllib.parse import unquote

from tornado_gate.codec.secret_words import mask_address
from tornado_gate.config import source
from tornado_gate.config.entry_edits import EntryAddition, Step
from tornado_gate.config.model import Config
from tornado_gate.config.stored import read_conf_text
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import GateError, NotFound, RequestError
from tornado_gate.pipeline.connection_tests import ConnectionTest, check_connection
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.pipeline.vendors import OfferedVendor, list_vendors
from tornado_gate.server.configuration_changes import (
    AppliedChange,
    change_configuration,
    run_check,
    store_key,
)
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.entry_removal import PROVIDERS, UNDO, RemoveProviderPage, UndoPage
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.model_catalogue import describe_abilities
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
from tornado_gate.server.console.vocabulary import translate_phrases
from tornado_gate.server.process.conf_change import Review, read_current, review_change

ADD = "/console/providers/new"


class ProviderFormPage(AdminHandler):
    """The form of a provider entry. The button pressed is the field ``action``: ``test``, ``show`` or ``save``."""

    action: ClassVar[str]
    """The name of the change in the audit log."""

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

    async def _handle(self, form: Form, draft: Draft) -> None:
        try:
            if self.get_field("action") == "save":
                await self._save(form, draft)
            else:
                await self._test(form, draft)
        except RequestError as error:
            await self._show_refusal(form, draft, error)

    async def _test(self, form: Form, draft: Draft) -> None:
        is_test = self.get_field("action") == "test"
        steps = draft.make_provider_steps() if is_test else draft.make_steps(self.snapshot.config.models)
        review: Review | None = None
        snapshot: Snapshot | None = self.snapshot
        if steps:
            review = await run_check(review_change, self.snapshot.config, steps)
            form.values["version"] = review.digest or form.values["version"]
            snapshot = review.snapshot or (snapshot if not review.diff else None)
        result: ConnectionTest | None = None
        rows: list[ModelRow] = []
        if snapshot is not None and is_test and draft.name in snapshot.targets.providers:
            result = await check_connection(snapshot, draft.name)
            rows = await asyncio.to_thread(list_rows, snapshot, draft.name, result.models)
        listed = {row.name for row in rows} | {ALL_MODELS}
        form.values["further"] = " ".join(name for name in draft.models if name not in listed)
        await self._show(form, review=review, result=result, rows=rows, chosen=frozenset(draft.models))

    async def _save(self, form: Form, draft: Draft) -> None:
        steps = draft.make_steps(self.snapshot.config.models)
        if not steps:
            form.error = translate("Nothing is changed. Paste another key, or pick models.")
            await self._show(form)
            return
        done = await change_configuration(
            self.services, self.make_actor(), self.action, draft.name, steps, version=form.values["version"] or None
        )
        self._show_saved(draft, steps, done)

    async def _show_refusal(self, form: Form, draft: Draft, error: RequestError) -> None:
        if error.param in FIELDS:
            form.errors[error.param] = error.message
        else:
            form.error = error.message.partition("\n")[0].removesuffix(" Lines of the change:")
        form.values["further"] = " ".join(draft.models)
        form.values["version"] = ""
        review: Review | None = None
        with suppress(GateError):  # a change that does not fit the file has no review
            review = await run_check(review_change, self.snapshot.config, draft.make_steps(self.snapshot.config.models))
        await self._show(form, review=review, status=error.status)

    def _show_saved(self, draft: Draft, steps: list[Step], done: AppliedChange) -> None:
        models = [step.name for step in steps if isinstance(step, EntryAddition) and step.section == "models"]
        self.render_page(
            "entry_saved.html",
            title=translate("{name} is saved").format(name=draft.name),
            name=draft.name,
            models=models,
            done=done,
            lines=split_diff(done.diff),
            undo=f"{UNDO}/{done.version}",
            back=PROVIDERS,
            back_text=translate("All providers"),
        )

    async def _show(
        self,
        form: Form,
        *,
        review: Review | None = None,
        result: ConnectionTest | None = None,
        rows: Sequence[ModelRow] = (),
        chosen: frozenset[str] = frozenset(),
        status: int = 200,
    ) -> None:
        if not form.values.get("version"):
            form.values["version"] = await asyncio.to_thread(read_version, self.snapshot.config)
        offers = await self.list_offers()
        self.render_page(
            "provider_form.html",
            title=translate("Add provider") if offers else form.values["name"],
            status=status,
            form=form,
            offers=offers,
            vendors=[
                ("", translate("Choose a vendor")),
                *((offer.id, translate_phrases(offer.vendor.title)) for offer in offers),
            ],
            addresses={offer.id: (offer.vendor.name, offer.vendor.base_url) for offer in offers},
            review=review,
            lines=split_diff(review.diff) if review else [],
            result=result,
            rows=rows,
            most=MAX_ROWS,
            describe_abilities=describe_abilities,
            chosen=chosen,
            error="",
        )

    async def list_offers(self) -> list[OfferedVendor]:
        """Return the vendors to choose from; [] for an entry that exists."""
        return []


class AddProviderPage(ProviderFormPage):
    """`/console/providers/new`."""

    action = "provider.create"

    async def get(self) -> None:
        await self._show(Form({"vendor": self.get_query_argument("vendor", "")}, focus="vendor"))

    async def post(self) -> None:
        config, offers = self.snapshot.config, await self.list_offers()
        form = Form({name: self.get_field(name) for name in (*FIELDS, "secret", "version")})
        offer = next((offer for offer in offers if offer.id == form.values["vendor"]), None)
        if offer is not None and not form.values["name"]:
            form.values["name"] = offer.vendor.name
        reference = await self._find_key(form, config)
        check_fields(form, offer, has_key=bool(reference), config=config)
        if form.has_errors or offer is None:
            await self._show(form, status=400)
            return
        models = (*self.get_body_arguments("models"), *form.values["further"].split())
        entry = await asyncio.to_thread(make_entry, config, offer, form.values["base_url"], reference)
        form.values["base_url"] = form.values["base_url"] or offer.vendor.base_url
        await self._handle(form, Draft(name=form.values["name"], entry=entry, models=models))

    async def list_offers(self) -> list[OfferedVendor]:
        return await run_check(list_vendors, self.snapshot.config.path)


class ProviderPage(ProviderFormPage):
    """`/console/providers/entry/NAME`: another key or address, and models from the vendor's list."""

    action = "provider.change"

    async def get(self, name: str) -> None:
        await self._show(self._make_form(unquote(name)))

    async def post(self, name: str) -> None:
        form = self._make_form(unquote(name))
        base_url = form.values["base_url"]
        form.values |= {name: self.get_field(name) for name in ("base_url", "api_key", "further", "secret", "version")}
        members: dict[str, str | None] = {}
        if form.values["base_url"] != base_url:
            members["base_url"] = form.values["base_url"] or None
        if reference := await self._find_key(form, self.snapshot.config):
            members["api_key"] = reference
        models = (*self.get_body_arguments("models"), *form.values["further"].split())
        await self._handle(form, Draft(name=form.values["name"], entry=members, models=models, is_new=False))

    def _make_form(self, name: str) -> Form:
        """Return the form with the values of a provider entry. Raises NotFound."""
        provider = self.snapshot.config.providers.get(name)
        if provider is None:
            raise NotFound(
                translate("No provider entry '{name}' is on.").format(name=name[:100]), code="unknown_provider"
            )
        return Form({"name": name, "base_url": mask_address(provider.base_url)})


def read_version(config: Config) -> str:
    """Return the version of the file as it is now; "" if it cannot be read. Synchronous."""
    try:
        return source.digest_text(read_conf_text(read_current(config.path))) if config.path else ""
    except (OSError, UnicodeDecodeError, DatabaseError):
        return ""


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (ADD, AddProviderPage),
    (rf"{UNDO}/([a-z0-9]{{1,64}})", UndoPage),
    (rf"{PROVIDERS}/entry/([^/]{{1,300}})", ProviderPage),
    (rf"{PROVIDERS}/entry/([^/]{{1,300}})/remove", RemoveProviderPage),
]
