"""Temporary limits and budgets that administrators set: the list, and the form that makes one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.errors import AccountError, check_all
from tornado_gate.accounts.keys import KeyStore, StoredKey
from tornado_gate.accounts.limit_overrides import BOUNDS, SUBJECT_KINDS, Override
from tornado_gate.accounts.names import MOST_CHOICES, find_names
from tornado_gate.accounts.people import Actor, Team, User
from tornado_gate.codec.durations import parse_moment
from tornado_gate.server.console.admin_base import ID, AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.bound_bars import read_bars
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.vocabulary import name_word
from tornado_gate.server.services import Services

PAGE = "/console/limits"
MAX_BARS = 50
"""The number of temporary limits whose subjects have bars."""
_NUMBERS = ("value", "factor")
FIELDS = ("kind", "subject", "bound", *_NUMBERS, "until")


class LimitsPage(AdminHandler):
    """`/console/limits`."""

    async def get(self) -> None:
        query = self.get_query("kind", "subject")
        kind = query["kind"] if query["kind"] in SUBJECT_KINDS else "key"
        await self._show_list(Form({"kind": kind, "subject": query["subject"], "bound": BOUNDS[0], "until": "2h"}))

    async def post(self) -> None:
        form = self.read_form(*FIELDS)
        subject = await self.find_id(form.values["kind"], form.values["subject"].strip())
        fields = {**form.values, "subject": subject}
        if await self.change(form, create_override, self.services.accounts, fields, self.make_actor()) is None:
            await self._show_list(form, 400)
            return
        self.flash(translate("The limit is changed, in all processes within a second."))
        self.redirect(PAGE, status=303)

    async def _show_list(self, form: Form, status: int = 200) -> None:
        overrides: list[Override] = await self.run_database(self.services.accounts.limit_overrides.list_all)
        config, choices = self.snapshot.config, await self.list_choices("key", "user", "team")
        choices["model"] = [(name, name_word("model")) for name in list(config.models)[:MOST_CHOICES]]
        choices["provider"] = [(name, name_word("provider")) for name in list(config.providers)[:MOST_CHOICES]]
        self.render_page(
            "limits.html",
            title=translate("Temporary limits"),
            status=status,
            form=form,
            overrides=overrides,
            bounds=[(name, name_word(name)) for name in BOUNDS],
            names=await self.name_users({override.created_by for override in overrides}),
            subjects=await self._name_subjects(overrides),
            choices={"subject": [choice for items in choices.values() for choice in items]},
            kinds=[(kind, name_word(kind)) for kind in SUBJECT_KINDS],
            now=time.time(),
            bars=await read_bars(
                self.gate,
                self.services.database,
                await self.run_database(find_bound_subjects, self.services, overrides[:MAX_BARS]),
            ),
            bars_are_named=True,
        )

    async def _name_subjects(self, overrides: Sequence[Override]) -> dict[str, str]:
        """Return the names of the keys, users and teams whose limits are changed, by id."""
        names: dict[str, str] = {}
        for kind in ("key", "user", "team"):
            ids = {override.subject for override in overrides if override.kind == kind}
            names |= await self.run_database(find_names, self.services.database, kind, ids)
        return names


def find_bound_subjects(services: Services, overrides: Sequence[Override]) -> list[StoredKey | User | Team]:
    """Return the keys, users and teams whose limits are changed, each once. Blocks."""
    finders: dict[str, Callable[[str], Any]] = {
        "key": KeyStore(services.database).get,
        "user": services.accounts.users.get,
        "team": {team.id: team for team in services.accounts.teams.list_all()}.get,
    }
    subjects = []
    for kind, subject in dict.fromkeys((override.kind, override.subject) for override in overrides):
        with suppress(AccountError):  # deleted meanwhile, or of conf
            bound_subject = finders[kind](subject) if kind in finders else None
            subjects += [bound_subject] if bound_subject is not None else []
    return subjects


def create_override(accounts: Accounts, fields: dict[str, Any], actor: Actor) -> Override:
    """Create an override. Synchronous. Raises AccountError with every faulty field."""
    checks: dict[str, Callable[[], Any]] = {name: partial(_parse_number, fields[name], name) for name in _NUMBERS}
    parsed = check_all({**checks, "until": partial(_parse_end, fields["until"])})
    return accounts.limit_overrides.create(fields["kind"], fields["subject"].strip(), fields["bound"], actor, **parsed)


def _parse_end(text: str) -> float:
    try:
        return parse_moment(text)
    except ValueError as error:
        raise AccountError(translate("The end {error}.").format(error=error), field="until") from None


def _parse_number(text: str, field: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("$", "")) if text.strip() else None
    except ValueError:
        raise AccountError(translate("Enter a number, or nothing."), field=field) from None


class EndLimitPage(AdminHandler):
    """`/console/limits/ID/end`."""

    def get(self, _identity: str) -> None:
        self.redirect(PAGE)

    async def post(self, identity: str) -> None:
        form = Form({})
        done = await self.change(form, self.services.accounts.limit_overrides.end, identity, self.make_actor())
        self.flash(form.error, "warning") if done is None else self.flash(translate("The temporary limit has ended."))
        self.redirect(PAGE, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (PAGE, LimitsPage),
    (rf"{PAGE}/{ID}/end", EndLimitPage),
]
