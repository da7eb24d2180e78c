"""Temporary limits and budgets that administrators set: the list, and the form that makes one."""

from __future__ import annotations

import time
from typing import Any

from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.limit_overrides import BOUNDS, SUBJECT_KINDS, Override
from tornado_gate.accounts.people import Actor
from tornado_gate.codec.durations import parse_moment
from tornado_gate.server.console.admin_base import ID, AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form

PAGE = "/console/limits"
FIELDS = ("kind", "subject", "bound", "value", "factor", "until")
KINDS = tuple((kind, kind) for kind in SUBJECT_KINDS)
BOUND_CHOICES = tuple((name, name.replace("_", " ").replace("usd", "US dollars")) for name in BOUNDS)


class LimitsPage(AdminHandler):
    """`/console/limits`."""

    async def get(self) -> None:
        query = self.get_query("kind", "subject")
        kind = query["kind"] if query["kind"] in SUBJECT_KINDS else "key"
        await self._show_list(Form({"kind": kind, "subject": query["subject"], "bound": BOUNDS[0], "until": "2h"}))

    async def post(self) -> None:
        form = self.read_form(*FIELDS)
        if await self.change(form, create_override, self.services.accounts, form.values, self.make_actor()) is None:
            await self._show_list(form, 400)
            return
        self.flash("The limit is changed, in all processes within a second.")
        self.redirect(PAGE, status=303)

    async def _show_list(self, form: Form, status: int = 200) -> None:
        overrides: list[Override] = await self.run_database(self.services.accounts.limit_overrides.list_all)
        self.render_page(
            "limits.html",
            title="Temporary limits",
            status=status,
            form=form,
            overrides=overrides,
            bounds=BOUND_CHOICES,
            words_of_bounds=dict(BOUND_CHOICES),
            names=await self.name_users({override.created_by for override in overrides}),
            kinds=KINDS,
            now=time.time(),
        )


def create_override(accounts: Accounts, fields: dict[str, Any], actor: Actor) -> Override:
    """Create an override. Synchronous. Raises AccountError with the field."""
    try:
        until = parse_moment(fields["until"])
    except ValueError as error:
        raise AccountError(f"The end {error}.", field="until") from None
    numbers = {name: _parse_number(fields[name], name) for name in ("value", "factor")}
    return accounts.limit_overrides.create(
        fields["kind"], fields["subject"].strip(), fields["bound"], actor, **numbers, until=until
    )


def _parse_number(text: str, field: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("$", "")) if text.strip() else None
    except ValueError:
        raise AccountError("Enter a number, or nothing.", field=field) from None


class EndLimitPage(AdminHandler):
    """`/console/limits/ID/end`."""

    def get(self, _identity: str) -> None:
        self.redirect(PAGE)

    async def post(self, identity: str) -> None:
        form = Form({})
        done = await self.change(form, self.services.accounts.limit_overrides.end, identity, self.make_actor())
        self.flash(form.error, "warning") if done is None else self.flash("The temporary limit has ended.")
        self.redirect(PAGE, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (PAGE, LimitsPage),
    (rf"{PAGE}/{ID}/end", EndLimitPage),
]
