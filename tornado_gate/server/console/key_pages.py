"""API keys: the list, and the form that creates a key.

The text of a new key is only in the response to the form that has created it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tornado_gate.accounts.errors import AccountError, Conflict
from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.key_rules import check_new_key, find_binding_team, list_managed_teams, may_manage_key
from tornado_gate.accounts.keys import KeyStore, StoredKey
from tornado_gate.accounts.people import Membership
from tornado_gate.errors import NotFound
from tornado_gate.server.console import key_form
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate, translate_labels
from tornado_gate.server.console.paging import PAGE_ROWS, Paging, parse_page
from tornado_gate.types.value import Value
from tornado_gate.types.wire import OPERATIONS

KEYS = "/console/keys"
STATES = ("active", "expired", "revoked")
_MOMENT = re.compile(r"[0-9]{1,12}\.[0-9]{3}")


class NewKey(Value, frozen=True):
    """A key that was just created, with its text. `old` is its predecessor."""

    text: str
    key: StoredKey
    old: StoredKey | None = None

    hidden_fields = frozenset({"text"})


class KeyHandler(ConsoleHandler):
    """A page about keys."""

    access = "member"

    @property
    def store(self) -> KeyStore:
        return KeyStore(self.services.database)

    async def get_key(self, identity: str) -> tuple[StoredKey, list[Membership]]:
        """Return a key that the visitor manages, and the visitor's teams. Raises NotFound, even for keys of others."""
        memberships = await self.get_memberships()
        try:
            key: StoredKey = await self.run_database(self.store.get, identity)
        except AccountNotFound:
            raise NotFound(translate("There is no such key. It may belong to somebody else.")) from None
        if key.hidden or not may_manage_key(self.user, memberships, key):
            raise NotFound(translate("There is no such key. It may belong to somebody else."))
        return key, memberships

    async def find_suspensions(self, keys: Sequence[StoredKey]) -> Mapping[str, str]:
        """Return, by id, why active keys cannot be used now."""
        suspensions: Mapping[str, str] = await self.run_database(self.store.find_suspensions, keys)
        return suspensions

    async def apply_changes(self) -> None:
        """Make this process read keys again now. The other processes do within a second."""
        await self.gate.keys.check()

    def list_team_options(self, memberships: list[Membership]) -> list[tuple[str, str]]:
        return [
            *([("", translate("none"))] if find_binding_team(self.user, memberships) is None else ()),
            *(
                (membership.team.id, f"{membership.team.organisation_name} / {membership.team.name}")
                for membership in memberships
            ),
        ]

    def read_form(self) -> Form:
        return Form(key_form.read_form(self.get_field, self.get_body_arguments))

    def list_fields(self) -> list[str]:
        """Return the fields that the visitor's form certainly has. An error about another field is shown above the form."""
        is_administrator = self.user.role == "administrator"
        return [name for name in key_form.FIELDS if name != "team" and (name != "role" or is_administrator)]

    def list_operations(self) -> list[tuple[str, str]]:
        hidden = {"models"} if self.user.role == "administrator" else {"models", "admin"}
        return [(name, name) for name in sorted(OPERATIONS - hidden)]

    async def show_list(self, form: Form, status: int = 200, new: NewKey | None = None) -> None:
        """Send the list, with the form as it was filled, and once the text of a new key."""
        memberships = await self.get_memberships()
        query = {name: self.get_query_argument(name, "")[:200] for name in ("search", "state", "owner")}
        if query["state"] not in STATES:
            query["state"] = ""
        number = parse_page(self.get_query_argument("page", ""))
        keys, total = await self._list_keys(query, memberships, number)
        others = await self._count_others() if not total and not any(query.values()) else 0
        self.render_page(
            "keys.html",
            title=translate("API keys"),
            status=status,
            form=form,
            new=new,
            operations=self.list_operations(),
            roles=translate_labels(key_form.ROLES),
            teams=self.list_team_options(memberships),
            is_filtered=any(query.values()),
            others=others,
            keys_of_conf=len(self.snapshot.config.keys) if self.user.role == "administrator" else 0,
            query=query,
            owners=self._list_owner_options(memberships),
            states=STATES,
            keys=keys,
            suspensions=await self.find_suspensions(keys),
            names=await self.run_database(self.store.name_owners, keys),
            paging=Paging(path=KEYS, query=query, number=number, total=total),
            now=time.time(),
            shown=f"{time.time():.3f}",
            details_open=form.has_value(*(name for name in key_form.OPTIONAL if name != "role")),
        )

    async def _count_others(self) -> int:
        """Return the number of active keys that others or commands have made, for administrators; else 0."""
        if self.user.role != "administrator":
            return 0
        _, count = await self.run_database(self.store.list_page, state="active", limit=1)
        return int(count)

    async def _list_keys(
        self, query: Mapping[str, str], memberships: list[Membership], number: int
    ) -> tuple[list[StoredKey], int]:
        """Return the keys of a page, and the number of all keys."""
        whose: dict[str, Any] = {"user": self.user.id}
        if query["owner"] == "all" and self.user.role == "administrator":
            whose = {}
        elif query["owner"] in list_managed_teams(memberships):
            whose = {"team": query["owner"]}
        page: tuple[list[StoredKey], int] = await self.run_database(
            self.store.list_page,
            search=query["search"],
            state=query["state"],
            offset=(number - 1) * PAGE_ROWS,
            limit=PAGE_ROWS,
            **whose,
        )
        return page

    def _list_owner_options(self, memberships: list[Membership]) -> list[tuple[str, str]]:
        """Return the owners whose keys the visitor may list; [] for only the visitor's own."""
        managed = set(list_managed_teams(memberships))
        options = [
            (membership.team.id, translate("of team {name}").format(name=membership.team.name))
            for membership in memberships
            if membership.team.id in managed
        ]
        if self.user.role == "administrator":
            options.append(("all", translate("of everybody")))
        return [("", translate("mine")), *options] if options else []


class KeysPage(KeyHandler):
    """`/console/keys`."""

    async def get(self) -> None:
        await self.show_list(Form({"role": "member"}))

    async def post(self) -> None:
        form = self.read_form()
        try:
            text, key = await self._create_key(form)
        except AccountError as error:
            form.add(error, self.list_fields())
            await self.show_list(form, 400)
            return
        await self.apply_changes()
        await self.show_list(Form({"role": "member"}), new=NewKey(text, key))

    async def _create_key(self, form: Form) -> tuple[str, StoredKey]:
        fields = key_form.parse_key_form(form.values)
        user = self.user
        fields |= {"user": user.id, "created_by": user.id}
        check_new_key(user, await self.get_memberships(), **fields)
        await self._refuse_repeated_form(fields["name"].strip())
        created: tuple[str, StoredKey] = await self.run_database(
            self.store.create, account=user.id, actor=self.make_actor(), **fields
        )
        return created

    async def _refuse_repeated_form(self, name: str) -> None:
        """Raise Conflict for a form that was sent already, such as by a reload of its response. It would make a second
        key.
        """
        shown = self.get_field("shown")
        if not _MOMENT.fullmatch(shown):
            return
        recent, _ = await self.run_database(self.store.list_page, user=self.user.id, search=name, limit=PAGE_ROWS)
        if any(key.name == name and key.created >= float(shown) for key in recent):
            message = translate(
                "This form has already created the key '{name}'. Its text was shown once; to get another, rotate it."
            ).format(name=name)
            raise Conflict(message)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(KEYS, KeysPage)]
