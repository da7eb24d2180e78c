"""Signing in and out, and setting a password by a link from an administrator."""

from __future__ import annotations

from urllib.parse import urlencode

from tornado_gate.accounts.errors import AccountError, SignInFailed, TooManyAttempts
from tornado_gate.server.console.base import LOGIN, SESSION_COOKIE, ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.words import format_wait

DEVICE_COOKIE = "gate_device"
DEVICE_SECONDS = 180 * 86400
SIGN_UP = "/console/signup"
OIDC_START = "/console/oidc/start"


class PublicPage(ConsoleHandler):
    """A page for visitors without a session."""

    access = "public"

    async def may_sign_up(self) -> bool:
        """Return whether the sign-up page is useful for a person without an invitation."""
        is_open = self.snapshot.config.console.signup == "open"
        return is_open or not await self.run_database(self.services.accounts.users.has_any)

    def list_identity_providers(self, setup_token: str = "") -> list[tuple[str, str]]:
        """Return other ways to sign in: (name, address)."""
        oidc = self.snapshot.config.oidc
        if oidc is None:
            return []
        query = {"next": self.get_next(), **({"token": setup_token} if setup_token else {})}
        return [(oidc.name, f"{OIDC_START}?{urlencode(query)}")]

    async def end_own_session(self) -> None:
        """End the session of the request, if it has one."""
        if self.session is not None:
            await self.run_database(self.services.accounts.sessions.end, self.session.user.id, self.session.id)
            self.session = None
        self.drop_session()

    def get_password(self, name: str = "password") -> str:
        """Return a password, with its spaces."""
        return self.get_body_argument(name, "", strip=False)

    async def begin_session(self, cookie: str, user_id: str) -> None:
        """Give the browser its new session, and a proof that it has signed in before: see `accounts.devices`."""
        self.start_session(cookie)
        device = await self.run_database(self.services.accounts.devices.make_token, user_id)
        self.set_private_cookie(DEVICE_COOKIE, device, seconds=DEVICE_SECONDS)

    def note_too_many(self, form: Form, error: TooManyAttempts) -> int:
        """Show the time to wait. Returns the status."""
        form.error = translate("Too many attempts. Wait {wait}, then try again.").format(
            wait=format_wait(error.retry_after)
        )
        self.set_header("Retry-After", str(max(1, int(error.retry_after))))
        return 429


class LoginPage(PublicPage):
    """`/console/login`. An unknown e-mail and a wrong password have the same response."""

    async def get(self) -> None:
        if self.session is not None:
            self.redirect(self.get_next())
        elif not await self.run_database(self.services.accounts.users.has_any):
            self.redirect(SIGN_UP)
        else:
            await self._show_form(Form(focus="email"))

    async def post(self) -> None:
        form = Form({"email": self.get_field("email")}, focus="password")
        try:
            cookie, session = await self.run_slowly(
                self.services.accounts.sign_in.with_password,
                form.values["email"],
                self.get_password(),
                address=self.origin.address,
                agent=self.agent,
                device=self.read_cookie(DEVICE_COOKIE),
                replaces=self.read_cookie(SESSION_COOKIE),
            )
        except TooManyAttempts as error:
            await self._show_form(form, self.note_too_many(form, error))
        except SignInFailed as error:
            form.error = error.message
            await self._show_form(form, 401)
        except AccountError as error:
            form.add(error, ("email", "password"))
            await self._show_form(form, 400)
        else:
            await self.begin_session(cookie, session.user.id)
            self.redirect(self.get_next(), status=303)

    async def _show_form(self, form: Form, status: int = 200) -> None:
        self.render_page(
            "login.html",
            title=translate("Sign in"),
            status=status,
            form=form,
            next=self.get_next(),
            may_sign_up=await self.may_sign_up(),
            providers=self.list_identity_providers(),
        )


class LogoutPage(PublicPage):
    """`/console/logout`: ends the session."""

    async def post(self) -> None:
        await self.end_own_session()
        self.flash(translate("You are signed out."))
        self.redirect(LOGIN, status=303)


class ResetPage(PublicPage):
    """`/console/reset?token=`: a new password, by a link that an administrator has made."""

    async def get(self) -> None:
        self._show_form(Form(focus="password"))

    async def post(self) -> None:
        form = Form()
        try:
            user = await self.run_slowly(
                self.services.accounts.reset_links.use, self.get_field("token"), self.get_password()
            )
        except TooManyAttempts as error:
            self._show_form(form, self.note_too_many(form, error))
        except AccountError as error:
            form.add(error, ("password",))
            self._show_form(form, 400)
        else:
            await self.end_own_session()
            self.flash(translate("The password of {email} is changed. Sign in with it.").format(email=user.email))
            self.redirect(LOGIN, status=303)

    def _show_form(self, form: Form, status: int = 200) -> None:
        token = self.get_argument("token", "")
        self.render_page("reset.html", title=translate("Set a new password"), status=status, form=form, token=token)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (LOGIN, LoginPage),
    ("/console/logout", LogoutPage),
    ("/console/reset", ResetPage),
]
