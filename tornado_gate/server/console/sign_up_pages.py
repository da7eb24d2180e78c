"""Signing up: the first account with the set-up token, others by the rules of conf or with an invitation."""

from __future__ import annotations

from typing import Any

from tornado_gate.accounts.errors import AccountError, TooManyAttempts
from tornado_gate.accounts.people import Invitation
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.sign_in_pages import SIGN_UP, PublicPage
from tornado_gate.server.handlers.common import is_from_this_machine

FIELDS = ("setup_token", "email", "password")


class SignUpPage(PublicPage):
    """`/console/signup`, with `?token=` for the first account, or `?invitation=`."""

    async def get(self) -> None:
        if self.session is not None and not self.get_query_argument("invitation", ""):
            self.redirect(self.get_next())
            return
        await self._show_form(Form({"setup_token": self.get_query_argument("token", "")[:200]}, focus="email"))

    async def post(self) -> None:
        form = Form({"email": self.get_field("email"), "setup_token": self.get_field("setup_token")})
        try:
            cookie, session = await self.run_slowly(
                self.services.accounts.sign_up.create_account,
                form.values["email"],
                self.get_password(),
                setup_token=form.values["setup_token"],
                is_local=self.is_on_this_machine(),
                invitation=self.get_field("invitation"),
                policy=self.snapshot.config.console.signup,
                address=self.origin.address,
                agent=self.agent,
            )
        except TooManyAttempts as error:
            await self._show_form(form, self.note_too_many(form, error))
        except AccountError as error:
            form.add(error, FIELDS)
            await self._show_form(form, 400)
        else:
            await self.end_own_session()
            await self.begin_session(cookie, session.user.id)
            self.flash(translate("Welcome. Your account is ready: create your first API key."))
            self.redirect(self.get_next(), status=303)

    def is_on_this_machine(self) -> bool:
        """Return whether the visitor's browser runs on this machine. It is false if conf names a proxy, which admits
        other visitors.
        """
        server = self.snapshot.config.server
        is_behind_proxy = server.public_url or server.trusted_proxies
        return not is_behind_proxy and is_from_this_machine(self.request, server)

    async def _show_form(self, form: Form, status: int = 200) -> None:
        token = self.get_argument("invitation", "")
        invitation = await self._find_invitation(token) if token else None
        if invitation is not None and invitation.email_key:
            form.fill("email", invitation.email_key, focus="password")
        values: dict[str, Any] = {
            "form": form,
            "is_first": not await self.run_database(self.services.accounts.users.has_any),
            "needs_token": not self.is_on_this_machine(),
            "invitation": invitation,
            "invitation_token": token,
            "policy": self.snapshot.config.console.signup,
            "providers": self.list_identity_providers(form.values.get("setup_token", "")),
        }
        self.render_page("signup.html", title=translate("Create your account"), status=status, **values)

    async def _find_invitation(self, token: str) -> Invitation | None:
        """Return the invitation of a link, None if it cannot be used."""
        try:
            invitation: Invitation | None = await self.run_database(
                self.services.accounts.invitations.find_invitation, token
            )
        except AccountError:
            return None
        return invitation


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [(SIGN_UP, SignUpPage)]
