"""The visitor's account: name, password, sessions, teams."""

from __future__ import annotations

from tornado_gate.accounts.errors import AccountError, TooManyAttempts
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.words import format_wait

ACCOUNT = "/console/account"


class AccountPage(ConsoleHandler):
    """`/console/account`."""

    access = "member"

    async def get(self) -> None:
        await self.show()

    async def show(self, *, profile: Form | None = None, password: Form | None = None, status: int = 200) -> None:
        """Send the page, with the forms as the visitor has filled them."""
        assert self.session is not None
        accounts = self.services.accounts
        self.render_page(
            "account.html",
            title=translate("Account"),
            status=status,
            profile=profile or Form({"name": self.user.name}),
            password=password or Form(),
            sessions=await self.run_database(accounts.sessions.list_open, self.user.id),
            current=self.session.id,
            memberships=await self.run_database(accounts.members.list_of_user, self.user.id),
        )


class NamePage(AccountPage):
    """`/console/account/name`."""

    async def get(self) -> None:
        self.redirect(ACCOUNT)

    async def post(self) -> None:
        form = Form({"name": self.get_field("name")})
        try:
            await self.run_database(
                self.services.accounts.users.set_name, self.user.id, form.values["name"], self.make_actor()
            )
        except AccountError as error:
            form.add(error, ("name",))
            await self.show(profile=form, status=400)
            return
        self.flash(translate("Your name is changed."))
        self.redirect(ACCOUNT, status=303)


class PasswordPage(AccountPage):
    """`/console/account/password`: a new password ends all other sessions."""

    async def get(self) -> None:
        self.redirect(ACCOUNT)

    async def post(self) -> None:
        form = Form()
        old, new = (self.get_body_argument(name, "", strip=False) for name in ("old", "new"))
        accounts = self.services.accounts
        try:
            await self.run_slowly(accounts.sessions.change_password, self.session, old, new, self.make_actor())
        except TooManyAttempts as error:
            form.error = translate("Too many attempts. Wait {wait}, then try again.").format(
                wait=format_wait(error.retry_after)
            )
            self.set_header("Retry-After", str(max(1, int(error.retry_after))))
            await self.show(password=form, status=429)
            return
        except AccountError as error:
            form.add(error, ("old", "new"))
            if error.field == "password":
                form.errors, form.error = {"new": error.message}, ""
            await self.show(password=form, status=400)
            return
        self.flash(translate("Your password is changed. All other sessions have ended."))
        self.redirect(ACCOUNT, status=303)


class EndSessionPage(AccountPage):
    """`/console/account/sessions/ID`: ends one session of the visitor."""

    async def get(self, identity: str) -> None:  # type: ignore[override]  # the path has an id
        self.redirect(ACCOUNT)

    async def post(self, identity: str) -> None:
        assert self.session is not None
        try:
            await self.run_database(self.services.accounts.sessions.end, self.user.id, identity)
        except AccountError as error:
            self.flash(error.message, "warning")
        else:
            self.flash(translate("The session has ended."))
        if identity == self.session.id:
            self.drop_session()
        self.redirect(ACCOUNT, status=303)


class EndOtherSessionsPage(AccountPage):
    """`/console/account/sessions`: ends all sessions except this one."""

    async def get(self) -> None:
        self.redirect(ACCOUNT)

    async def post(self) -> None:
        assert self.session is not None
        await self.run_database(self.services.accounts.sessions.end_others, self.user.id, self.session.id)
        self.flash(translate("All other sessions have ended."))
        self.redirect(ACCOUNT, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (ACCOUNT, AccountPage),
    (f"{ACCOUNT}/name", NamePage),
    (f"{ACCOUNT}/password", PasswordPage),
    (f"{ACCOUNT}/sessions", EndOtherSessionsPage),
    (rf"{ACCOUNT}/sessions/([A-Za-z0-9_-]{{1,60}})", EndSessionPage),
]
