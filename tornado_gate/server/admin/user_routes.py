"""/admin/v1/users, /sessions, /invitations and /audit."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tornado_gate.accounts.audit import AuditEvent, list_events
from tornado_gate.accounts.errors import Denied
from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.people import Invitation, Session, User
from tornado_gate.errors import InvalidField
from tornado_gate.server.admin.bodies import InvitationSchema, UserChangeSchema
from tornado_gate.server.admin.parameters import AFTER, LIMIT, PAGE, next_offset, parse_offset, text_parameter
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Deleted, Page
from tornado_gate.server.admin.scope import ADMINISTRATION, TEAM, TEAM_ADMINISTRATION, check_bounds
from tornado_gate.types.value import Value

_USERS, _INVITATIONS, _AUDIT = "admin: users", "admin: invitations", "admin: audit log"


class SessionView(Value, frozen=True, kw_only=True):
    """A signed-in browser. Times are Unix seconds."""

    id: str
    user: str
    created: float
    last_seen: float
    expires: float
    address: str
    agent: str


class NewInvitationView(Value, frozen=True, kw_only=True):
    """A new invitation: `link` leads to the sign-up page and is shown once."""

    link: str
    invitation: Invitation


class ResetLinkView(Value, frozen=True, kw_only=True):
    """A link that sets a new password. It is valid once, within a day. It is shown once, and ends earlier links of the
    user.
    """

    user: str
    link: str


def describe_session(session: Session) -> SessionView:
    names = [name for name in SessionView.__struct_fields__ if name != "user"]
    return SessionView(user=session.user.id, **{name: getattr(session, name) for name in names})


async def list_users(request: AdminRequest) -> Page[User]:
    query = request.query
    offset = parse_offset(query["after"])
    accounts = request.services.accounts
    if request.scope.team:
        return await _list_team_users(request, offset)
    users, total = await request.run(
        accounts.users.list_page, search=query["search"], offset=offset, limit=query["limit"]
    )
    return Page(data=tuple(users), next=next_offset(offset, len(users), total), total=total)


async def _list_team_users(request: AdminRequest, offset: int) -> Page[User]:
    """Return the users of the team to which the key is limited."""
    limit, search = request.query["limit"], request.query["search"].lower()
    members = await request.run(request.services.accounts.members.list_of_team, request.scope.team)
    users = [member.user for member in members]
    matches = [user for user in users if search in user.email.lower() or search in user.name.lower()]
    shown = tuple(matches[offset : offset + limit])
    return Page(data=shown, next=next_offset(offset, len(shown), len(matches)), total=len(matches))


async def get_user(request: AdminRequest) -> User:
    if request.scope.team:
        members = await request.run(request.services.accounts.members.list_of_team, request.scope.team)
        if all(member.user.id != request.id for member in members):
            raise AccountNotFound("There is no such user.", code="unknown_user")
    return await request.run(request.services.accounts.users.get, request.id)


async def change_user(request: AdminRequest) -> User:
    """Apply the changes. Changes that are refused most often come first: state, role, name, bounds."""
    accounts, actor = request.services.accounts, request.actor
    user = await request.run(accounts.users.get, request.id)
    check_bounds(request.key, request.body)
    changes = {"state": accounts.users.set_state, "role": accounts.users.set_role, "name": accounts.users.set_name}
    for name, change in changes.items():
        if name in request.body:
            function: Any = change
            user = await request.run(function, request.id, request.body[name], actor)
    bounds = {name: request.body[name] for name in ("limits", "budget") if name in request.body}
    if bounds:
        user = await request.run(accounts.users.set_bounds, request.id, actor, **bounds)
    await request.services.gate.keys.check()
    return user


async def delete_user(request: AdminRequest) -> Deleted:
    await request.run(request.services.accounts.users.delete, request.id, request.actor)
    await request.services.gate.keys.check()
    return Deleted(id=request.id)


async def create_reset_link(request: AdminRequest) -> ResetLinkView:
    token = await request.run(request.services.accounts.reset_links.create, request.id, request.actor)
    return ResetLinkView(user=request.id, link=f"{request.public_url}/console/reset?token={quote(token)}")


async def list_sessions(request: AdminRequest) -> Page[SessionView]:
    accounts = request.services.accounts
    await request.run(accounts.users.get, request.id)
    sessions = await request.run(accounts.sessions.list_open, request.id)
    return Page(data=tuple(describe_session(session) for session in sessions), total=len(sessions))


async def end_session(request: AdminRequest) -> Deleted:
    session = request.arguments["session"]
    await request.run(request.services.accounts.sessions.end, request.id, session, request.actor)
    return Deleted(id=session)


async def end_sessions(request: AdminRequest) -> Deleted:
    await request.run(request.services.accounts.sessions.end_others, request.id, actor=request.actor)
    return Deleted(id=request.id)


async def list_invitations(request: AdminRequest) -> Page[Invitation]:
    invitations = await request.run(request.services.accounts.invitations.list_newest)
    invitations = [invitation for invitation in invitations if request.scope.team in ("", invitation.team)]
    return Page(data=tuple(invitations), total=len(invitations))


async def create_invitation(request: AdminRequest) -> NewInvitationView:
    team = request.scope.team
    if team and (request.body.get("team") != team or request.body.get("role", "member") != "member"):
        message = "This key is limited to a team: it invites members of this team only."
        raise Denied(message, code="outranks_maker", field="team" if request.body.get("team") != team else "role")
    token, made = await request.run(request.services.accounts.invitations.create, request.actor, **request.body)
    return NewInvitationView(link=f"{request.public_url}/console/signup?invitation={quote(token)}", invitation=made)


async def revoke_invitation(request: AdminRequest) -> Deleted:
    if request.scope.team:
        invitations = await request.run(request.services.accounts.invitations.list_newest)
        if all((invitation.id, invitation.team) != (request.id, request.scope.team) for invitation in invitations):
            raise AccountNotFound("There is no such invitation.", code="unknown_invitation")
    await request.run(request.services.accounts.invitations.revoke, request.id, request.actor)
    return Deleted(id=request.id)


async def list_audit(request: AdminRequest) -> Page[AuditEvent]:
    query = request.query
    after, limit = query["after"], query["limit"]
    if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
        raise InvalidField("after", "'after' must be 'next' of the previous page.")
    before = int(after) if after else None
    database = request.services.database
    filters = {"action": query["action"], "actor": query["actor"]}
    events = await request.run(list_events, database, before=before, limit=limit + 1, **filters)
    shown = tuple(events[:limit])
    return Page(data=shown, next=str(shown[-1].id) if len(events) > limit else None)


ROUTES = [
    AdminRoute(
        method="GET", path="/users", function=list_users, tag=_USERS, answer=Page[User], summary="List the users",
        limited=TEAM_ADMINISTRATION,
        parameters=(text_parameter("search", "A part of the e-mail or the name."), *PAGE),
    ),
    AdminRoute(
        method="GET", path="/users/{id}", function=get_user, tag=_USERS, answer=User, summary="Show a user",
        limited=TEAM_ADMINISTRATION,
    ),
    AdminRoute(
        method="PATCH", path="/users/{id}", function=change_user, tag=_USERS, answer=User, summary="Change a user",
        description="A disabled user's sessions end and keys stop working within a second.", body=UserChangeSchema,
        example={"name": "Ada"},
    ),
    AdminRoute(
        method="DELETE", path="/users/{id}", function=delete_user, tag=_USERS, answer=Deleted, summary="Delete a user",
        description="With sessions, memberships and keys. The last administrator cannot be deleted.",
    ),
    AdminRoute(
        method="POST", path="/users/{id}/reset-link", function=create_reset_link, tag=_USERS, answer=ResetLinkView,
        summary="Create a link that sets a new password",
    ),
    AdminRoute(
        method="GET", path="/users/{id}/sessions", function=list_sessions, tag=_USERS, answer=Page[SessionView],
        limited=ADMINISTRATION,
        summary="List the sessions of a user",
    ),
    AdminRoute(
        method="DELETE", path="/users/{id}/sessions", function=end_sessions, tag=_USERS, answer=Deleted,
        summary="End all sessions of a user",
    ),
    AdminRoute(
        method="DELETE", path="/users/{id}/sessions/{session}", function=end_session, tag=_USERS, answer=Deleted,
        summary="End a session of a user",
    ),
    AdminRoute(
        method="GET", path="/invitations", function=list_invitations, tag=_INVITATIONS, answer=Page[Invitation],
        limited=TEAM_ADMINISTRATION,
        summary="List the invitations", description="The newest, also used and expired ones.",
    ),
    AdminRoute(
        method="POST", path="/invitations", limited=TEAM, function=create_invitation, tag=_INVITATIONS, answer=NewInvitationView,
        summary="Invite somebody", body=InvitationSchema, example={"email": "grace@example.org", "role": "member"},
    ),
    AdminRoute(
        method="DELETE", path="/invitations/{id}", limited=TEAM, function=revoke_invitation, tag=_INVITATIONS, answer=Deleted,
        summary="Revoke an invitation",
    ),
    AdminRoute(
        method="GET", path="/audit", limited=ADMINISTRATION, function=list_audit, tag=_AUDIT, answer=Page[AuditEvent],
        summary="List changes of accounts, keys and teams", description="Newest first.",
        parameters=(
            text_parameter("action", "Only this action, such as `key.create`; `key.` for all that begin so."),
            text_parameter("actor", "Only changes by this user or key."), LIMIT, AFTER,
        ),
    ),
]  # fmt: skip
