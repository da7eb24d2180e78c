"""Pages that change, rotate and revoke one API key."""

from __future__ import annotations

import time

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.key_rules import check_adoption, check_key_change, check_rotation
from tornado_gate.accounts.keys import StoredKey
from tornado_gate.accounts.people import Membership, Team, User
from tornado_gate.server.console import key_form
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.bound_bars import read_bars
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.key_pages import KEYS, KeyHandler, NewKey
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.server.services import Services

_ID = rf"{KEYS}/([A-Za-z0-9_-]{{1,60}})"
OVERLAPS = {
    "0": mark("none: the old key ends now"),
    "3600": mark("1 hour"),
    "86400": mark("1 day"),
    "604800": mark("7 days"),
    "2592000": mark("30 days"),
}
"""Labels of the time for which the old key stays valid beside its successor, by seconds."""


class KeyPage(KeyHandler):
    """`/console/keys/ID`: the form that changes a key."""

    async def get(self, identity: str) -> None:
        key, memberships = await self.get_key(identity)
        await self._show_form(key, memberships, Form(key_form.fill_form(key)))

    async def post(self, identity: str) -> None:
        key, memberships = await self.get_key(identity)
        form = self.read_form()
        try:
            fields = key_form.parse_key_form(form.values, key.expires)
            check_key_change(self.user, memberships, key, **fields)
            await self.run_database(self.store.change, key.id, actor=self.make_actor(), **fields)
        except AccountError as error:
            form.add(error, self.list_fields())
            await self._show_form(key, memberships, form, 400)
            return
        await self.apply_changes()
        self.flash(translate("The key {name} is changed.").format(name=fields["name"]))
        self.redirect(KEYS, status=303)

    async def _show_form(self, key: StoredKey, memberships: list[Membership], form: Form, status: int = 200) -> None:
        suspensions = await self.find_suspensions([key])
        subjects = await self.run_database(_list_subjects, self.services, key)
        self.render_page(
            "key.html",
            title=key.name,
            status=status,
            key=key,
            form=form,
            operations=self.list_operations(),
            roles=translate_labels(key_form.ROLES),
            teams=self._list_teams(key, memberships),
            state=key.get_state(time.time()),
            suspended=suspensions.get(key.id, ""),
            overlaps=translate_labels(OVERLAPS.items()),
            bars=await read_bars(self.gate, self.services.database, subjects),
            bars_are_named=len(subjects) > 1,
        )

    def _list_teams(self, key: StoredKey, memberships: list[Membership]) -> list[tuple[str, str]]:
        options = self.list_team_options(memberships)
        known = {identity for identity, _ in options}
        if not key.team and "" not in known:
            return [("", translate("none")), *options]  # made before its owner's team had limits
        return options if not key.team or key.team in known else [*options, (key.team, key.team)]


def _list_subjects(services: Services, key: StoredKey) -> list[StoredKey | User | Team]:
    """Return the key, its user and its team: the limits of all three act. Blocks."""
    subjects: list[StoredKey | User | Team] = [key]
    if key.user:
        subjects.append(services.accounts.users.get(key.user))
    if key.team:
        subjects += [team for team in services.accounts.teams.list_all() if team.id == key.team]
    return subjects


class RevokePage(KeyHandler):
    """`/console/keys/ID/revoke`: asks for confirmation unless the browser's script has done so."""

    async def get(self, identity: str) -> None:
        key, _ = await self.get_key(identity)
        self.render_page("key_revoke.html", title=translate("Revoke the key"), key=key)

    async def post(self, identity: str) -> None:
        if self.get_field("confirmed") != "yes":
            await self.get(identity)
            return
        key, _ = await self.get_key(identity)
        was_active = await self.run_database(self.store.revoke, key.id, actor=self.make_actor())
        await self.apply_changes()
        if was_active:
            self.flash(translate("The key {name} is revoked.").format(name=key.name))
        else:
            self.flash(translate("The key {name} was revoked before.").format(name=key.name), "warning")
        self.redirect(KEYS, status=303)


class AdoptPage(KeyHandler):
    """`/console/keys/ID/adopt`: makes the visitor the issuer of a key whose maker may no longer make it."""

    async def post(self, identity: str) -> None:
        key, memberships = await self.get_key(identity)
        try:
            check_adoption(self.user, memberships, key)
            await self.run_database(self.store.adopt, key.id, self.make_actor())
        except AccountError as error:
            self.flash(error.message, "warning")
        else:
            await self.apply_changes()
            self.flash(
                translate(
                    "You have taken over the key {name}. Rotate it, because its maker may still have its text."
                ).format(name=key.name)
            )
        self.redirect(f"{KEYS}/{key.id}", status=303)


class RotatePage(KeyHandler):
    """`/console/keys/ID/rotate`: a successor with the same permissions."""

    async def get(self, identity: str) -> None:
        key, _ = await self.get_key(identity)
        self._show_form(key, Form({"overlap": "86400"}))

    async def post(self, identity: str) -> None:
        key, memberships = await self.get_key(identity)
        form = Form({"overlap": self.get_field("overlap")})
        if form.values["overlap"] not in OVERLAPS:
            form.errors["overlap"] = translate("Choose how long the old key stays valid.")
            self._show_form(key, form, 400)
            return
        try:
            check_rotation(self.user, memberships, key)
            text, new = await self.run_database(
                self.store.rotate, key.id, overlap_seconds=float(form.values["overlap"]), actor=self.make_actor()
            )
        except AccountError as error:
            form.add(error, ("overlap",))
            self._show_form(key, form, 409)
            return
        await self.apply_changes()
        old = await self.run_database(self.store.get, key.id)
        await self.show_list(Form({"role": "member"}), new=NewKey(text, new, old))

    def _show_form(self, key: StoredKey, form: Form, status: int = 200) -> None:
        overlaps = translate_labels(OVERLAPS.items())
        self.render_page(
            "key_rotate.html", title=translate("Rotate the key"), status=status, key=key, form=form, overlaps=overlaps
        )


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (_ID, KeyPage),
    (rf"{_ID}/adopt", AdoptPage),
    (rf"{_ID}/revoke", RevokePage),
    (rf"{_ID}/rotate", RotatePage),
]
