"""Access to the pages of teams. Administrators of the gateway manage all teams, administrators of a team their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from tornado_gate.accounts.errors import check_all
from tornado_gate.accounts.people import Member, Membership, Team
from tornado_gate.accounts.texts import check_name
from tornado_gate.errors import NotAllowed, NotFound
from tornado_gate.server.console.admin_base import AdminHandler
from tornado_gate.server.console.bound_bars import read_bars
from tornado_gate.server.console.forms import Form
from tornado_gate.server.console.key_form import AMOUNTS, FIELDS, LIMITS, TOKEN_BUDGETS, parse_form
from tornado_gate.server.console.languages.catalogues import mark, translate, translate_labels
from tornado_gate.server.console.user_pages import ROLES
from tornado_gate.server.console.vocabulary import name_word

TEAMS = "/console/teams"
_CHOICES = {None: "", True: "yes", False: "no"}
PERSONAL_KEYS = (("", mark("default of the configuration")), ("yes", mark("allowed")), ("no", mark("not allowed")))
"""Labels of the rule whether members may make keys outside a team that has limits."""
BOUNDS = (*LIMITS, *AMOUNTS, *TOKEN_BUDGETS)


class TeamHandler(AdminHandler):
    """A page about teams. Access is checked for each team, because administrators of a team are members of the gateway."""

    access = "member"

    @property
    def is_administrator(self) -> bool:
        """Return whether the visitor administrates the gateway, and so all teams."""
        return self.user.role == "administrator"

    def check_administrator(self) -> None:
        """Check that the visitor administrates the gateway. Raises NotAllowed."""
        if not self.is_administrator:
            raise NotAllowed(translate("Only an administrator of the gateway may do this."))

    async def list_teams(self) -> list[Team]:
        """Return the teams that the visitor manages. Raises NotAllowed for a member who manages none."""
        if self.is_administrator:
            teams: list[Team] = await self.run_database(self.services.accounts.teams.list_all)
            return teams
        memberships: list[Membership] = await self.run_database(
            self.services.accounts.members.list_of_user, self.user.id
        )
        managed = [membership.team for membership in memberships if membership.role == "administrator"]
        if not managed:
            raise NotAllowed(translate("This page is for administrators of teams. Ask one of them for access."))
        return managed

    async def find_team(self, identity: str) -> Team:
        """Return a team that the visitor manages. Raises NotFound, even for teams of others."""
        managed_team = next((team for team in await self.list_teams() if team.id == identity), None)
        if managed_team is None:
            raise NotFound(translate("There is no such team, or you do not manage it."))
        return managed_team

    async def show_team(self, team: Team, form: Form | None = None, *, status: int = 200) -> None:
        """Send the page of a team. `form` has the typed values of one form of the page; the others show the stored
        values.
        """
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
            roles=translate_labels(ROLES),
            personal_keys=translate_labels(PERSONAL_KEYS),
            is_administrator=self.is_administrator,
            bounds=list_bounds(team),
            bars=await read_bars(self.gate, self.services.database, [team]),
            bars_are_named=False,
        )


def describe_shown(team: Team) -> str:
    """Return a digest of the shown form of a team. It reveals a change by another person while the form was open."""
    shown = [team.name, dict(team.budget), dict(team.limits), list(team.models), team.personal_keys]
    values = json.dumps(shown, sort_keys=True)
    return hashlib.sha256(values.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def list_bounds(team: Team) -> list[str]:
    """Return budget and limits in words."""
    bounds = {**team.limits, **team.budget}
    return [f"{value:,.15g} {name_word(name)}" for name, value in bounds.items()]


def fill_team_form(team: Team) -> dict[str, str]:
    """Return the texts of all forms on the page of a team."""
    stored_bounds = {**team.limits, **team.budget}
    bounds = {name: f"{stored_bounds[name]:.15g}" if name in stored_bounds else "" for name in BOUNDS}
    others = {"role": "member", "email": "", "confirm": "", "personal_keys": _CHOICES[team.personal_keys]}
    return {"name": team.name, "models": "\n".join(team.models), **bounds, **others}


def parse_team_form(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the changes of a team that a form requests. Raises AccountError with every faulty field."""
    bounds = partial(parse_form, {**dict.fromkeys(FIELDS, ""), **values})
    parsed = check_all({"name": partial(check_name, values["name"]), "bounds": bounds})["bounds"]
    chosen = next((choice for choice, text in _CHOICES.items() if text == values.get("personal_keys", "")), None)
    return {name: parsed[name] for name in ("name", "budget", "limits", "models")} | {"personal_keys": chosen}
