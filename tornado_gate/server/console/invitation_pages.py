"""Invitations to sign up: the list, and the form that makes an invitation. The link of an invitation is shown once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tornado_gate.accounts.people import Invitation, Team
from tornado_gate.server.console.admin_base import ID, AdminHandler
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.server.console.user_pages import POLICIES, ROLES

INVITATIONS = "/console/users/invitations"
LIFETIMES = (("86400", mark("1 day")), ("604800", mark("7 days")), ("2592000", mark("30 days")))
FIELDS = ("email", "role", "team", "seconds")


class InvitationsPage(AdminHandler):
    """`/console/users/invitations`."""

    async def get(self) -> None:
        await self._show_list(Form({"role": "member", "seconds": "604800"}))

    async def post(self) -> None:
        form = self.read_form(*FIELDS)
        values = form.values
        if values["seconds"] not in dict(LIFETIMES):
            form.errors["seconds"] = translate("Choose one of the lifetimes.")
            await self._show_list(form, 400)
            return
        made = await self.change(
            form,
            self.services.accounts.invitations.create,
            self.make_actor(),
            email=values["email"],
            role=values["role"],
            team=values["team"] or None,
            seconds=float(values["seconds"]),
        )
        if made is None:
            await self._show_list(form, 400)
            return
        self._show_link(*made)

    def _show_link(self, token: str, invitation: Invitation) -> None:
        whom = (
            translate("Only {email_key} can use it.").format(email_key=invitation.email_key)
            if invitation.email_key
            else translate("Whoever has it can use it, once.")
        )
        self.render_page(
            "link.html",
            title=translate("Invitation"),
            link=f"{self.public_url}/console/signup?invitation={token}",
            text=translate("Send this link to the person whom you invite. {whom} It is shown only now.").format(
                whom=whom
            ),
            back=INVITATIONS,
        )

    async def _show_list(self, form: Form, status: int = 200) -> None:
        accounts = self.services.accounts
        invitations: list[Invitation] = await self.run_database(accounts.invitations.list_newest)
        teams: list[Team] = await self.run_database(accounts.teams.list_all)
        people = {invitation.created_by for invitation in invitations} | {
            invitation.used_by for invitation in invitations if invitation.used_by
        }
        self.render_page(
            "invitations.html",
            title=translate("Invitations"),
            status=status,
            form=form,
            invitations=invitations,
            names=await self.name_users(people),
            teams={team.id: f"{team.organisation_name} / {team.name}" for team in teams},
            team_options=[("", translate("none")), *list_team_options(teams)],
            roles=translate_labels(ROLES),
            lifetimes=translate_labels(LIFETIMES),
            policy=translate(POLICIES[self.snapshot.config.console.signup]),
            now=time.time(),
        )


def list_team_options(teams: Sequence[Team]) -> list[tuple[str, str]]:
    return [(team.id, f"{team.organisation_name} / {team.name}") for team in teams]


class RevokeInvitationPage(AdminHandler):
    """`/console/users/invitations/ID/revoke`."""

    def get(self, _identity: str) -> None:
        self.redirect(INVITATIONS)

    async def post(self, identity: str) -> None:
        form = Form({})
        done = await self.change(form, self.services.accounts.invitations.revoke, identity, self.make_actor())
        self.flash(form.error, "warning") if done is None else self.flash(translate("The invitation is revoked."))
        self.redirect(INVITATIONS, status=303)


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (INVITATIONS, InvitationsPage),
    (rf"{INVITATIONS}/{ID}/revoke", RevokeInvitationPage),
]
