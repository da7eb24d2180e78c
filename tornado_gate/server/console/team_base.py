"""Who sees and manages which teams: administrators of the gateway all, administrators of a team their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tornado_gate.accounts.people import Member, Membership, Team
from tornado_gate.errors import NotAllowed, NotFound
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.key_form import AMOUNTS, FIELDS, LIMITS, TOKEN_BUDGETS, parse_form
from tornado_gate.server.console.user_pages import ROLES

TEAMS = "/console/teams"
_CHOICES = {None: "", True: "yes", False: "no"}
PERSONAL_KEYS = (("", "as the configuration says"), ("yes", "allowed"), ("no", "not allowed"))
"""Whether members may make keys outside a team that has bounds."""
BOUNDS = (*LIMITS, *AMOUNTS, *TOKEN_BUDGETS)


class TeamHandler(AdminHandler):
    """A page about teams. Access is checked for each team, as administrators of a team are members of the gateway."""

    access = "member"

    @property
    def is_administrator(self) -> bool:
        """Whether the visitor administrates the gateway, and so all teams."""
        return self.user.role == "administrator"

    def check_administrator(self) -> None:
        """Raises NotAllowed."""
        if not self.is_administrator:
            raise NotAllowed("Only an administrator of the gateway may do this.")

    async def list_teams(self) -> list[Team]:
        """The teams that the visitor manages. Raises NotAllowed if there are none for a member."""
        if self.is_administrator:
            teams: list[Team] = await self.run_database(self.services.accounts.teams.list_all)
            return teams
        memberships: list[Membership] = await self.run_database(
            self.services.accounts.members.list_of_user, self.user.id
        )
        managed = [one.team for one in memberships if one.role == "administrator"]
        if not managed:
            raise NotAllowed("This page is for administrators of teams. Ask one of them for access.")
        return managed

    async def find_team(self, identity: str) -> Team:
        """A team that the visitor manages. Raises NotFound, also for teams of others."""
        found = next((team for team in await self.list_teams() if team.id == identity), None)
        if found is None:
            raise NotFound("There is no such team, or you do not manage it.")
        return found

    async def show_team(self, team: Team, form: Form | None = None, *, status: int = 200) -> None:
        """The page of a team. Of the fields in `form` those of other forms of the page are empty."""
        members: list[Member] = await self.run_database(self.services.accounts.members.list_of_team, team.id)
        shown = Form({**fill_team_form(team), **(form.values if form else {})})
        if form is not None:
            shown.errors, shown.error = form.errors, form.error
        self.render_page(
            "team.html",
            title=team.name,
            status=status,
            team=team,
            members=members,
            form=shown,
            shown=describe_shown(team),
            roles=ROLES,
            personal_keys=PERSONAL_KEYS,
            is_administrator=self.is_administrator,
            bounds=list_bounds(team),
        )


def describe_shown(team: Team) -> str:
    """A digest of what the form of a team has shown, to notice a change by somebody else meanwhile."""
    shown = [team.name, dict(team.budget), dict(team.limits), list(team.models), team.personal_keys]
    values = json.dumps(shown, sort_keys=True)
    return hashlib.sha256(values.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def list_bounds(team: Team) -> list[str]:
    """Budget and limits in words."""
    given = {**team.limits, **team.budget}
    names = {name: name.replace("_", " ").replace("usd", "US dollars") for name in given}
    return [f"{value:,.15g} {names[name]}" for name, value in given.items()]


def fill_team_form(team: Team) -> dict[str, str]:
    """The texts of all forms of the page of a team."""
    given = {**team.limits, **team.budget}
    bounds = {name: f"{given[name]:.15g}" if name in given else "" for name in BOUNDS}
    others = {"role": "member", "email": "", "confirm": "", "personal_keys": _CHOICES[team.personal_keys]}
    return {"name": team.name, "models": "\n".join(team.models), **bounds, **others}


def parse_team_form(values: Mapping[str, str]) -> dict[str, Any]:
    """The changes of a team that a form asks for. Raises AccountError."""
    parsed = parse_form({**dict.fromkeys(FIELDS, ""), **values})
    chosen = next((choice for choice, text in _CHOICES.items() if text == values.get("personal_keys", "")), None)
    return {name: parsed[name] for name in ("name", "budget", "limits", "models")} | {"personal_keys": chosen}
