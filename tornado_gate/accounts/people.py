"""Users, sessions and teams as values. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tornado_gate.types.value import Value, field

Role = Literal["administrator", "member"]


class Actor(Value, frozen=True, kw_only=True):
    """Who does something, for the audit log. `id` is that of a user or a key, or "command"."""

    id: str
    name: str
    role: Role = "member"
    address: str = ""
    request_id: str = ""


class User(Value, frozen=True, kw_only=True):
    """`subject` is the issuer and subject of an identity provider, None without one."""

    id: str
    email: str
    name: str
    role: Role
    state: Literal["active", "disabled"]
    has_password: bool
    subject: str | None
    created: float
    last_login: float | None
    password_changed: float | None


class Session(Value, frozen=True, kw_only=True):
    id: str
    user: User
    created: float
    last_seen: float
    expires: float
    address: str
    agent: str


class Team(Value, frozen=True, kw_only=True):
    """`organisation` is an id; `models` are globs, empty for all."""

    id: str
    organisation: str
    organisation_name: str
    name: str
    budget: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    created: float


class Membership(Value, frozen=True, kw_only=True):
    team: Team
    role: Role
    source: str


class Member(Value, frozen=True, kw_only=True):
    user: User
    role: Role
    source: str


class Invitation(Value, frozen=True, kw_only=True):
    """`email_key` None: anybody who has the link may use it."""

    id: str
    email_key: str | None
    role: Role
    team: str | None
    created_by: str
    created: float
    expires: float
    used: float | None
    used_by: str | None
