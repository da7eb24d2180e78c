"""The shared code of the pages for administrators."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.accounts.names import MOST_CHOICES, find_id, list_choices
from tornado_gate.errors import NotFound
from tornado_gate.server.console.base import Access, ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.vocabulary import name_word

ID = r"([A-Za-z0-9_-]{1,60})"
"""The pattern of an id of accounts in a path."""


class AdminHandler(ConsoleHandler):
    """A page for administrators of the gateway."""

    access: ClassVar[Access] = "administrator"

    async def find_object(self, function: Any, *arguments: Any) -> Any:
        """Return the result of a function of accounts. Raises NotFound as a page."""
        try:
            return await self.run_database(function, *arguments)
        except AccountNotFound as error:
            raise NotFound(error.message) from None

    async def change(self, form: Form, function: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result of a change of accounts; None, with the error in `form`, if it is refused.

        Keys are read again, because the change may affect their permissions.
        """
        try:
            result = await self.run_database(function, *arguments, **named)
        except AccountError as error:
            form.add(error, form.values)
            return None
        await self.gate.keys.check()
        return True if result is None else result

    def read_form(self, *names: str) -> Form:
        """Return the form with the fields `names`. Only the first 10,000 characters of each count."""
        return Form({name: self.get_field(name)[:10_000] for name in names})

    def get_query(self, *names: str) -> dict[str, str]:
        """Return parameters of the address, "" for missing ones."""
        return {name: self.get_query_argument(name, "")[:200] for name in names}

    async def find_id(self, kind: str, text: str) -> str:
        """Return the id of the key, user or team that a field of a form names; `text` itself, which may be an id, if unknown."""
        identity: str = await self.run_database(find_id, self.services.database, kind, text)
        is_of_conf = kind == "key" and identity == text and any(key.name == text for key in self.snapshot.config.keys)
        return f"{CONF_KEY}{text}" if is_of_conf else identity

    async def list_choices(self, *kinds: str) -> dict[str, list[tuple[str, str]]]:
        """Return (value, label) of the keys, users and teams that a form suggests, by kind."""
        choices: dict[str, list[tuple[str, str]]] = {
            kind: [
                (value, name_word(kind) + label.removeprefix(kind))
                for value, label in await self.run_database(list_choices, self.services.database, kind)
            ]
            for kind in kinds
        }
        if "key" in choices:
            keys = self.snapshot.config.keys[:MOST_CHOICES]
            label = name_word("key of the configuration")
            choices["key"] += [(f"{CONF_KEY}{key.name}", label) for key in keys]
        return choices

    async def name_users(self, identities: Collection[str]) -> dict[str, str]:
        """Return the e-mails of users by id. Deleted users are absent."""
        return await self.run_database(self.services.accounts.users.read_emails, identities)  # type: ignore[no-any-return]
