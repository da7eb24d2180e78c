"""/admin/v1/organisations and /teams."""

from __future__ import annotations

from tornado_gate.accounts.people import Member, Organisation, Team
from tornado_gate.server.admin.bodies import MemberSchema, NameSchema, NewTeamSchema, TeamChangeSchema
from tornado_gate.server.admin.parameters import text_parameter
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted, Page
from tornado_gate.server.admin.scope import ADMINISTRATION, TEAM_ADMINISTRATION, check_bounds

_ORGANISATIONS, _TEAMS = "admin: organisations", "admin: teams"


async def list_organisations(request: AdminRequest) -> Page[Organisation]:
    organisations = await request.run(request.services.accounts.organisations.list_all)
    return Page(data=tuple(organisations), total=len(organisations))


async def create_organisation(request: AdminRequest) -> Organisation:
    return await request.run(request.services.accounts.organisations.create, request.body["name"], request.actor)


async def rename_organisation(request: AdminRequest) -> Organisation:
    name = request.body["name"]
    return await request.run(request.services.accounts.organisations.rename, request.id, name, request.actor)


async def delete_organisation(request: AdminRequest) -> Deleted:
    await request.run(request.services.accounts.organisations.delete, request.id, request.actor)
    return Deleted(id=request.id)


async def list_teams(request: AdminRequest) -> Page[Team]:
    accounts = request.services.accounts
    teams = await request.run(accounts.teams.list_all, organisation=request.query["organisation"])
    teams = [team for team in teams if request.scope.team in ("", team.id)]
    return Page(data=tuple(teams), total=len(teams))


async def get_team(request: AdminRequest) -> Team:
    request.scope.check_team(request.id)
    return await request.run(request.services.accounts.teams.get, request.id)


async def create_team(request: AdminRequest) -> Team:
    check_bounds(request.key, request.body)
    fields = dict(request.body)
    organisation, name = fields.pop("organisation"), fields.pop("name")
    accounts = request.services.accounts
    return await request.run(accounts.teams.create, organisation, name, request.actor, **fields)


async def change_team(request: AdminRequest) -> Team:
    check_bounds(request.key, request.body)
    accounts = request.services.accounts
    team = await request.run(accounts.teams.update, request.id, request.actor, **request.body)
    await request.services.gate.keys.check()
    return team


async def delete_team(request: AdminRequest) -> Deleted:
    await request.run(request.services.accounts.teams.delete, request.id, request.actor)
    await request.services.gate.keys.check()
    return Deleted(id=request.id)


async def list_members(request: AdminRequest) -> Page[Member]:
    request.scope.check_team(request.id)
    members = await request.run(request.services.accounts.members.list_of_team, request.id)
    return Page(data=tuple(members), total=len(members))


async def set_member(request: AdminRequest) -> Member:
    request.scope.check_team(request.id)
    accounts, user = request.services.accounts, request.arguments["user"]
    member = await request.run(accounts.members.set_role, request.id, user, request.body["role"], request.actor)
    await request.services.gate.keys.check()
    return member


async def remove_member(request: AdminRequest) -> Deleted:
    request.scope.check_team(request.id)
    user = request.arguments["user"]
    await request.run(request.services.accounts.members.remove, request.id, user, request.actor)
    await request.services.gate.keys.check()
    return Deleted(id=user)


_BOUNDS = {"limits": {"requests_per_minute": 600}, "budget": {"usd_per_month": 500}}

ROUTES = [
    AdminRoute(
        method="GET", path="/organisations", limited=ADMINISTRATION, function=list_organisations, tag=_ORGANISATIONS,
        answer=Page[Organisation], summary="List the organisations",
    ),
    AdminRoute(
        method="POST", path="/organisations", function=create_organisation, tag=_ORGANISATIONS, answer=Organisation,
        limited=ADMINISTRATION,
        summary="Create an organisation", body=NameSchema, example={"name": "Example Ltd"},
    ),
    AdminRoute(
        method="PATCH", path="/organisations/{id}", limited=ADMINISTRATION, function=rename_organisation, tag=_ORGANISATIONS,
        answer=Organisation, summary="Rename an organisation", body=NameSchema, example={"name": "Example plc"},
    ),
    AdminRoute(
        method="DELETE", path="/organisations/{id}", function=delete_organisation, tag=_ORGANISATIONS, answer=Deleted,
        limited=ADMINISTRATION,
        summary="Delete an organisation without teams",
    ),
    AdminRoute(
        method="GET", path="/teams", function=list_teams, tag=_TEAMS, answer=Page[Team], summary="List the teams",
        limited=TEAM_ADMINISTRATION,
        parameters=(text_parameter("organisation", "Only teams of this organisation."),),
    ),
    AdminRoute(
        method="POST", path="/teams", function=create_team, tag=_TEAMS, answer=Team, summary="Create a team",
        limited=ADMINISTRATION,
        body=NewTeamSchema, example={"organisation": "ORGANISATION", "name": "research", **_BOUNDS},
    ),
    AdminRoute(
        method="GET", path="/teams/{id}", function=get_team, tag=_TEAMS, answer=Team, summary="Show a team",
        limited=TEAM_ADMINISTRATION,
    ),
    AdminRoute(
        method="PATCH", path="/teams/{id}", function=change_team, tag=_TEAMS, answer=Team, summary="Change a team",
        limited=ADMINISTRATION,
        description="Its limits apply in all processes within a second.", body=TeamChangeSchema, example=_BOUNDS,
    ),
    AdminRoute(
        method="DELETE", path="/teams/{id}", function=delete_team, tag=_TEAMS, answer=Deleted, summary="Delete a team",
        limited=ADMINISTRATION,
        description="Its keys are revoked: without the team they would lose its bounds.",
    ),
    AdminRoute(
        method="GET", path="/teams/{id}/members", function=list_members, tag=_TEAMS, answer=Page[Member],
        limited=TEAM_ADMINISTRATION,
        summary="List the members of a team",
    ),
    AdminRoute(
        method="PUT", path="/teams/{id}/members/{user}", function=set_member, tag=_TEAMS, answer=Member,
        limited=TEAM_ADMINISTRATION,
        summary="Add a member to a team, or change the role of one", body=MemberSchema, example={"role": "member"},
    ),
    AdminRoute(
        method="DELETE", path="/teams/{id}/members/{user}", function=remove_member, tag=_TEAMS, answer=Deleted,
        limited=TEAM_ADMINISTRATION,
        summary="Remove a member from a team", description="The member's keys for the team are revoked.",
    ),
]  # fmt: skip
