"""Values of accounts: users, sessions, organisations, teams, members, invitations. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.config.model import Role
from tornado_gate.types.value import Value, field

UserState = Literal["active", "disabled"]
Source = Literal["console", "oidc"]
"""The source of a membership: a person in the console or API, or a group of the identity provider."""


class Actor(Value, frozen=True, kw_only=True):
    """The subject of an action, for permissions and for the audit log. `id` is the id of a user or a key, or "command"."""

    id: str
    name: str
    role: Role
    address: str = ""
    request_id: str = ""


COMMAND = Actor(id="command", name="command line", role="administrator")


class User(Value, frozen=True, kw_only=True):
    """An account. `subject` is the identity at the OIDC provider, None without one."""

    id: str
    email: str
    name: str
    role: Role
    state: UserState
    has_password: bool
    subject: str | None = None
    created: float
    last_login: float | None = None
    password_changed: float | None = None
    budget: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_administrator(self) -> bool:
        return self.role == "administrator"


class Session(Value, frozen=True, kw_only=True):
    """A signed-in browser. The value of its cookie is stored as a digest only."""

    id: str
    user: User
    created: float
    last_seen: float
    expires: float
    address: str
    agent: str


class Organisation(Value, frozen=True, kw_only=True):
    id: str
    name: str
    created: float


class Team(Value, frozen=True, kw_only=True):
    """A team. `organisation` is an id. `budget` and `limits` have the form of a key's; `models` are globs, empty means
    all.

    `personal_keys`: whether members may make keys outside the team although it has a budget or limits; None: the
    default of conf.
    """

    id: str
    organisation: str
    organisation_name: str
    name: str
    budget: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    created: float
    personal_keys: bool | None = None

    @property
    def is_binding(self) -> bool:
        """Return whether members make keys in a team only, so that its budget and limits apply to them."""
        return bool(self.budget or self.limits) and not self.personal_keys


class Membership(Value, frozen=True, kw_only=True):
    """A team of a user."""

    team: Team
    role: Role
    source: Source


class Member(Value, frozen=True, kw_only=True):
    """A user of a team."""

    user: User
    role: Role
    source: Source


class Invitation(Value, frozen=True, kw_only=True):
    """A link with which one person may sign up. `email_key` None: anybody who has the link; `team` is an id.

    `suspended` is the reason why an open invitation is invalid now, because of its maker; None if it is valid.
    """

    id: str
    email_key: str | None
    role: Role
    team: str | None
    created_by: str
    created: float
    expires: float
    used: float | None = None
    used_by: str | None = None
    suspended: str | None = None

    def is_open(self, now: float) -> bool:
        return self.used is None and self.expires > now
