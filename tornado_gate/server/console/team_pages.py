"""Organisations, their teams, and the members of a team."""

from __future__ import annotations

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.people import Member, Team, User
from tornado_gate.errors import NotFound
from tornado_gate.server.console.admin_base import ID
from tornado_gate.server.console.base import ConsoleHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.team_base import BOUNDS, TEAMS, TeamHandler, describe_shown, parse_team_form

INVITATION_SECONDS = 7 * 86400.0


class TeamsPage(TeamHandler):
    """`/console/teams`: organisations and their teams; the form creates a team."""

    async def get(self) -> None:
        await self.show_teams(Form({}))

    async def post(self) -> None:
        self.check_administrator()
        form = self.read_form("organisation", "name")
        values = form.values
        made: Team | None = await self.change(
            form, self.services.accounts.teams.create, values["organisation"], values["name"], self.make_actor()
        )
        if made is None:
            await self.show_teams(form, 400)
            return
        self.flash(translate("The team {name} is created. Add members below.").format(name=made.name))
        self.redirect(f"{TEAMS}/{made.id}", status=303)

    async def show_teams(self, form: Form, status: int = 200) -> None:
        teams = await self.list_teams()
        organisations = {team.organisation: team.organisation_name for team in teams}
        if self.is_administrator:
            all_organisations = await self.run_database(self.services.accounts.organisations.list_all)
            organisations = {organisation.id: organisation.name for organisation in all_organisations}
        self.render_page(
            "teams.html",
            title=translate("Teams"),
            status=status,
            form=form,
            organisations=organisations,
            teams=teams,
            is_administrator=self.is_administrator,
        )


class NewOrganisationPage(TeamsPage):
    """`/console/teams/organisations`: creates an organisation."""

    async def post(self) -> None:
        self.check_administrator()
        form = self.read_form("organisation_name")
        name = form.values["organisation_name"]
        if await self.change(form, self.services.accounts.organisations.create, name, self.make_actor()) is None:
            form.errors["organisation_name"] = form.errors.pop("name", form.error)
            form.error = ""
            await self.show_teams(form, 400)
            return
        self.flash(translate("The organisation {name} is created. Add a team to it.").format(name=name))
        self.redirect(TEAMS, status=303)


class OrganisationPage(TeamHandler):
    """`/console/teams/organisations/ID`: renames or, when `do` is delete, deletes an organisation without teams."""

    async def get(self, identity: str) -> None:
        self.check_administrator()
        await self._show_organisation(identity, Form({}))

    async def post(self, identity: str) -> None:
        self.check_administrator()
        form, accounts = self.read_form("name"), self.services.accounts
        if self.get_field("do") == "delete":
            done = await self.change(form, accounts.organisations.delete, identity, self.make_actor())
            text = translate("The organisation is deleted.")
        else:
            name = form.values["name"]
            done = await self.change(form, accounts.organisations.rename, identity, name, self.make_actor())
            text = translate("The organisation is renamed.")
        if done is None:
            await self._show_organisation(identity, form, 409)
            return
        self.flash(text)
        self.redirect(TEAMS, status=303)

    async def _show_organisation(self, identity: str, form: Form, status: int = 200) -> None:
        organisations = await self.run_database(self.services.accounts.organisations.list_all)
        organisation = next((candidate for candidate in organisations if candidate.id == identity), None)
        if organisation is None:
            raise NotFound(translate("There is no such organisation."))
        form.values.setdefault("name", organisation.name)
        self.render_page(
            "organisation.html", title=organisation.name, status=status, organisation=organisation, form=form
        )


class TeamPage(TeamHandler):
    """`/console/teams/ID`: the form changes name, budget, limits and models."""

    async def get(self, identity: str) -> None:
        await self.show_team(await self.find_team(identity))

    async def post(self, identity: str) -> None:
        team = await self.find_team(identity)
        self.check_administrator()
        form = self.read_form("name", "models", "personal_keys", *BOUNDS)
        if self.get_field("shown") != describe_shown(team):
            form.error = translate(
                "Somebody has changed this team since you opened the page. Look at the values and save again."
            )
            await self.show_team(team, form, status=409)
            return
        try:
            changes = parse_team_form(form.values)
        except AccountError as error:
            form.add(error, form.values)
            await self.show_team(team, form, status=400)
            return
        if await self.change(form, self.services.accounts.teams.update, team.id, self.make_actor(), **changes) is None:
            await self.show_team(team, form, status=400)
            return
        self.flash(translate("The team {name} is changed.").format(name=changes["name"]))
        self.redirect(f"{TEAMS}/{team.id}", status=303)


class DeleteTeamPage(TeamHandler):
    """`/console/teams/ID/delete`: deletes the team when the form repeats its name."""

    async def get(self, identity: str) -> None:
        await self.find_team(identity)
        self.redirect(f"{TEAMS}/{identity}")

    async def post(self, identity: str) -> None:
        team = await self.find_team(identity)
        self.check_administrator()
        form = self.read_form("confirm")
        if form.values["confirm"] != team.name:
            form.errors["confirm"] = translate("Type the name of the team to confirm.")
            await self.show_team(team, form, status=400)
            return
        if await self.change(form, self.services.accounts.teams.delete, team.id, self.make_actor()) is None:
            await self.show_team(team, form, status=409)
            return
        self.flash(translate("The team {name} is deleted, and its keys are revoked.").format(name=team.name))
        self.redirect(TEAMS, status=303)


class MembersPage(TeamHandler):
    """`/console/teams/ID/members`: adds a user, by e-mail."""

    async def get(self, identity: str) -> None:
        await self.find_team(identity)
        self.redirect(f"{TEAMS}/{identity}")

    async def post(self, identity: str) -> None:
        team = await self.find_team(identity)
        form, accounts = self.read_form("email", "role"), self.services.accounts
        user: User | None = await self.run_database(accounts.users.find_user, form.values["email"])
        if user is None:
            form.errors["email"] = translate("No user has this e-mail. Invite the person with the form below.")
            await self.show_team(team, form, status=400)
            return
        role = form.values["role"]
        if await self.change(form, accounts.members.set_role, team.id, user.id, role, self.make_actor()) is None:
            await self.show_team(team, form, status=400)
            return
        self.flash(describe_role(user.email, role))
        self.redirect(f"{TEAMS}/{team.id}", status=303)


def describe_role(email: str, role: str) -> str:
    """Return the role that somebody has now, as a sentence."""
    if role == "administrator":
        return translate("{email} is an administrator of the team.").format(email=email)
    return translate("{email} is a member of the team.").format(email=email)


class MemberPage(TeamHandler):
    """`/console/teams/ID/members/USER`: changes the role of a member."""

    async def get(self, identity: str, _user: str) -> None:
        await self.find_team(identity)
        self.redirect(f"{TEAMS}/{identity}")

    async def post(self, identity: str, user: str) -> None:
        team = await self.find_team(identity)
        member = await self.find_member(team, user)
        form = self.read_form("role")
        role = form.values["role"]
        accounts = self.services.accounts
        if await self.change(form, accounts.members.set_role, team.id, user, role, self.make_actor()) is None:
            await self.show_team(team, form, status=400)
            return
        self.flash(describe_role(member.user.email, role))
        self.redirect(f"{TEAMS}/{team.id}", status=303)

    async def find_member(self, team: Team, user: str) -> Member:
        """Return a member. Raises NotFound."""
        members: list[Member] = await self.run_database(self.services.accounts.members.list_of_team, team.id)
        match = next((member for member in members if member.user.id == user), None)
        if match is None:
            raise NotFound(translate("The team has no such member."))
        return match


class RemoveMemberPage(MemberPage):
    """`/console/teams/ID/members/USER/remove`: removes a member after a confirmation."""

    async def get(self, identity: str, user: str) -> None:
        team = await self.find_team(identity)
        member = await self.find_member(team, user)
        self.render_page("member_remove.html", title=translate("Remove a member"), team=team, member=member)

    async def post(self, identity: str, user: str) -> None:
        team = await self.find_team(identity)
        member = await self.find_member(team, user)
        form = Form({})
        accounts = self.services.accounts
        if await self.change(form, accounts.members.remove, team.id, user, self.make_actor()) is None:
            await self.show_team(team, form, status=409)
            return
        self.flash(
            translate("{email} is removed from the team, and the member's keys for it are revoked.").format(
                email=member.user.email
            )
        )
        self.redirect(
            f"{TEAMS}/{team.id}" if user != self.user.id or self.is_administrator else "/console/", status=303
        )


class InvitePage(TeamHandler):
    """`/console/teams/ID/invite`: an invitation to sign up as a member of the team."""

    async def get(self, identity: str) -> None:
        await self.find_team(identity)
        self.redirect(f"{TEAMS}/{identity}")

    async def post(self, identity: str) -> None:
        team = await self.find_team(identity)
        form = self.read_form("invited")
        email = form.values["invited"]
        make = self.services.accounts.invitations.create
        made = await self.change(form, make, self.make_actor(), email=email, team=team.id, seconds=INVITATION_SECONDS)
        if made is None:
            await self.show_team(team, form, status=400)
            return
        whom = (
            translate("Only {email} can use it").format(email=email)
            if email
            else translate("Whoever has it can use it once")
        )
        self.render_page(
            "link.html",
            title=translate("Invitation"),
            link=f"{self.public_url}/console/signup?invitation={made[0]}",
            text=translate(
                "Send this link to the person whom you invite to {name}. {whom}, within 7 days. It is shown only now."
            ).format(name=team.name, whom=whom),
            back=f"{TEAMS}/{team.id}",
        )


ROUTES: list[tuple[str, type[ConsoleHandler]]] = [
    (TEAMS, TeamsPage),
    (rf"{TEAMS}/organisations", NewOrganisationPage),
    (rf"{TEAMS}/organisations/{ID}", OrganisationPage),
    (rf"{TEAMS}/{ID}", TeamPage),
    (rf"{TEAMS}/{ID}/delete", DeleteTeamPage),
    (rf"{TEAMS}/{ID}/members", MembersPage),
    (rf"{TEAMS}/{ID}/members/{ID}", MemberPage),
    (rf"{TEAMS}/{ID}/members/{ID}/remove", RemoveMemberPage),
    (rf"{TEAMS}/{ID}/invite", InvitePage),
]
