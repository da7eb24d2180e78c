"""Users: the list, and a page with one user's role, state, password link and sessions."""

from __future__ import annotations

import time
from typing import Any

from tornado_gate.accounts.keys import KeyStore
from tornado_gate.accounts.people import Membership, Session, User
from tornado_gate.accounts.texts import make_email_key
from tornado_gate.server.console.admin_base import ID, AdminHandler
from tornado_gate.server.console.base import LOGIN, ConsoleHandler
from tornado_gate.server.console.bound_bars import read_bars
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.key_form import AMOUNTS, FIELDS, LIMITS, TOKEN_BUDGETS, parse_form
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.server.console.paging import PAGE_ROWS, Paging, parse_page
from tornado_gate.server.services import Services
from tornado_gate.types.value import Value

USERS = "/console/users"
BOUNDS = (*LIMITS, *AMOUNTS, *TOKEN_BUDGETS)
ROLES = (("member", mark("member")), ("administrator", mark("administrator")))
STATES = (("active", mark("active")), ("disabled", mark("disabled: cannot sign in, keys do not work")))
POLICIES = {
    "open": mark("Anybody may sign up."),
    "invite": mark("Only people with an invitation may sign up."),
    "closed": mark("Sign-up is closed: invitations cannot be used while conf closes it."),
}


class UsersPage(AdminHandler):
    """`/console/users`."""

    async def get(self) -> None:
        query = self.get_query("search")
        number = parse_page(self.get_query_argument("page", ""))
        users, total = await self.run_database(
            self.services.accounts.users.list_page,
            search=query["search"],
            offset=(number - 1) * PAGE_ROWS,
            limit=PAGE_ROWS,
        )
        self.render_page(
            "users.html",
            title=translate("Users"),
            users=users,
            query=query,
            paging=Paging(path=USERS, query=query, number=number, total=total),
            policy=translate(POLICIES[self.snapshot.config.console.signup]),
        )


class UserFacts(Value, frozen=True, kw_only=True):
    """The content of the page of a user."""

    user: User
    sessions: list[Session]
    memberships: list[Membership]
    active_keys: int


def find_user_facts(services: Services, identity: str) -> UserFacts:
    """Return the facts of a user. Synchronous. Raises NotFound of accounts."""
    accounts = services.accounts
    _, active_keys = KeyStore(services.database).list_page(user=identity, state="active", limit=1)
    return UserFacts(
        user=accounts.users.get(identity),
        sessions=accounts.sessions.list_open(identity),
        memberships=accounts.members.list_of_user(identity),
        active_keys=active_keys,
    )


class UserHandler(AdminHandler):
    async def show_user(self, identity: str, form: Form | None = None, *, status: int = 200) -> None:
        facts: UserFacts = await self.find_object(find_user_facts, self.services, identity)
        user = facts.user
        bounds = {**user.limits, **user.budget}
        values = {"role": user.role, "state": user.state, "name": user.name, "email": ""}
        values |= {name: f"{bounds[name]:.15g}" if name in bounds else "" for name in BOUNDS}
        shown = Form({**values, **(form.values if form else {})})
        if form is not None:
            shown.errors, shown.error = form.errors, form.error
        self.render_page(
            "user.html",
            title=user.name or user.email,
            status=status,
            facts=facts,
            user=user,
            form=shown,
            shown=describe_shown(user),
            roles=translate_labels(ROLES),
            states=translate_labels(STATES),
            now=time.time(),
            bars=await read_bars(self.gate, self.services.database, [user]),
            bars_are_named=False,
        )

    async def finish_change(self, identity: str, form: Form, result: Any, done: str) -> None:
        """Show the user again, with the completed change or the reason of its refusal."""
        if result is None:
            await self.show_user(identity, form, status=400 if form.errors else 409)
        else:
            self.flash(done)
            self.redirect(f"{USERS}/{identity}", status=303)


class UserPage(UserHandler):
    """`/console/users/ID`: the form changes name, role and state."""

    async def get(self, identity: str) -> None:
        await self.show_user(identity)

    async def post(self, identity: str) -> None:
        user: User = await self.find_object(self.services.accounts.users.get, identity)
        form = self.read_form("name", "role", "state")
        if self.get_field("shown") != describe_shown(user):
            form.error = translate(
                "Somebody has changed this user since you opened the page. Look at the values and save again."
            )
            await self.show_user(identity, form, status=409)
            return
        result = await self.change(form, self._save_changes, user, form.values)
        await self.finish_change(identity, form, result, translate("{email} is changed.").format(email=user.email))

    def _save_changes(self, user: User, changes: dict[str, Any]) -> None:
        """Save changes. Synchronous. After the first refusal the other values stay unchanged."""
        accounts, actor = self.services.accounts, self.make_actor()
        if changes["role"] != user.role:
            accounts.users.set_role(user.id, changes["role"], actor)
        if changes["state"] != user.state:
            accounts.users.set_state(user.id, changes["state"], actor)
        if changes["name"] != user.name:
            accounts.users.set_name(user.id, changes["name"], actor)


def describe_shown(user: User) -> str:
    """Return the shown values of a user's form, to notice a change by another person while the form was open."""
    return "|".join((user.role, user.state, user.name))


class UserBoundsPage(UserHandler):
    """`/console/users/ID/bounds`: changes the limits that all keys of the user share."""

    def get(self, identity: str) -> None:
        self.redirect(f"{USERS}/{identity}")

    async def post(self, identity: str) -> None:
        user: User = await self.find_object(self.services.accounts.users.get, identity)
        form = self.read_form(*BOUNDS)
        result = await self.change(form, self._save_changes, user, form.values)
        await self.finish_change(
            identity, form, result, translate("The limits of {email} are changed.").format(email=user.email)
        )

    def _save_changes(self, user: User, changes: dict[str, Any]) -> None:
        parsed = parse_form({**dict.fromkeys(FIELDS, ""), **changes})
        bounds = {name: parsed[name] for name in ("limits", "budget")}
        self.services.accounts.users.set_bounds(user.id, self.make_actor(), **bounds)


class ResetLinkPage(UserHandler):
    """`/console/users/ID/reset`: makes a link with which the user sets a new password. It is shown once."""

    def get(self, identity: str) -> None:
        self.redirect(f"{USERS}/{identity}")

    async def post(self, identity: str) -> None:
        user: User = await self.find_object(self.services.accounts.users.get, identity)
        form = Form({})
        token = await self.change(form, self.services.accounts.reset_links.create, identity, self.make_actor())
        if token is None:
            await self.show_user(identity, form, status=409)
            return
        self.render_page(
            "link.html",
            title=translate("Reset link"),
            link=f"{self.public_url}/console/reset?token={token}",
            text=translate(
                "Give this link to {email}. It sets a new password once, within a day, and ends all sessions. "
                "It is shown only now."
            ).format(email=user.email),
            back=f"{USERS}/{identity}",
        )


class EndSessionsPage(UserHandler):
    """`/console/users/ID/sessions`: ends all sessions of the user, except the visitor's own."""

    def get(self, identity: str) -> None:
        self.redirect(f"{USERS}/{identity}")

    async def post(self, identity: str) -> None:
        user: User = await self.find_object(self.services.accounts.users.get, identity)
        assert self.session is not None
        keep = self.session.id if identity == self.user.id else ""
        form = Form({})
        result = await self.change(form, self.services.accounts.sessions.end_others, identity, keep, self.make_actor())
        await self.finish_change(
            identity, form, result, translate("The sessions of {email} have ended.").format(email=user.email)
        )


class DeleteUserPage(UserHandler):
    """`/console/users/ID/delete`: deletes the user when the form repeats the e-mail."""

    def get(self, identity: str) -> None:
        self.redirect(f"{USERS}/{identity}")

    async def post(self, identity: str) -> None:
        user: User = await self.find_object(self.services.accounts.users.get, identity)
        form = self.read_form("email")
        if make_email_key(form.values["email"]) != make_email_key(user.email):
            form.errors["email"] = translate("Type the e-mail of the user to confirm.")
            await self.show_user(identity, form, status=400)
            return
        if await self.change(form, self.services.accounts.users.delete, identity, self.make_actor()) is None:
            await self.show_user(identity, form, status=409)
            return
        if identity == self.user.id:
            self.drop_session()
            self.redirect(LOGIN, status=303)
            return
        self.flash(translate("{email} is deleted. Its keys do not work any more.").format(email=user.email))
        self.redirect(USERS, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (USERS, UsersPage),
    (rf"{USERS}/{ID}", UserPage),
    (rf"{USERS}/{ID}/bounds", UserBoundsPage),
    (rf"{USERS}/{ID}/reset", ResetLinkPage),
    (rf"{USERS}/{ID}/sessions", EndSessionsPage),
    (rf"{USERS}/{ID}/delete", DeleteUserPage),
]
