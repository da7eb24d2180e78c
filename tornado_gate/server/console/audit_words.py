"""The actions of the audit log in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.server.console.words import format_time

ACTIONS: Final[Mapping[str, str]] = {
    "user.create": "created an account",
    "user.sign_in": "signed in",
    "user.sign_in_failed": "failed to sign in",
    "user.sign_out": "signed out",
    "user.set_role": "changed the role of a user",
    "user.set_state": "enabled or disabled a user",
    "user.set_bounds": "changed the limits of a user",
    "user.set_name": "renamed a user",
    "user.delete": "deleted a user",
    "user.change_password": "changed the password",
    "user.link_identity": "connected an account with the identity provider",
    "user.create_reset_link": "made a link that sets a password",
    "user.reset_password": "set a password by a link",
    "session.end": "ended a session",
    "session.end_others": "ended sessions",
    "invitation.create": "made an invitation",
    "invitation.revoke": "revoked an invitation",
    "organisation.create": "created an organisation",
    "organisation.rename": "renamed an organisation",
    "organisation.delete": "deleted an organisation",
    "team.create": "created a team",
    "team.update": "changed a team",
    "team.delete": "deleted a team",
    "team.set_member": "added a member, or changed the role of one",
    "team.remove_member": "removed a member",
    "key.create": "created an API key",
    "key.change": "changed an API key",
    "key.rotate": "rotated an API key",
    "key.adopt": "took over an API key",
    "key.revoke": "revoked an API key",
    "limit.override": "changed a limit temporarily",
    "limit.end_override": "ended a temporary limit",
    "alert.test": "sent a test of the alerts",
    "plugin.switch": "switched a plugin on or off",
    "provider.create": "added a provider",
    "provider.change": "changed a provider",
    "provider.delete": "removed a provider",
    "configuration.undo": "undid a change of the configuration",
    "model.create": "added a model",
    "model.change": "changed a model",
    "model.delete": "removed a model",
}
_TIMES: Final = frozenset({"expires", "until", "valid_until"})
_ALL_IF_EMPTY: Final = frozenset({"models", "operations", "addresses"})
KINDS: Final = tuple(dict.fromkeys(action.partition(".")[0] for action in ACTIONS))
"""The kinds of objects that events concern, for the filter of the list."""


def describe_action(action: str) -> str:
    """Return an action in words. An unknown action is returned unchanged."""
    return ACTIONS.get(action, action)


def describe_detail(detail: Mapping[str, Any]) -> str:
    """Return the detail of an event: ``role: member, before: administrator``."""
    return ", ".join(f"{name.replace('_', ' ')}: {_describe_member(name, value)}" for name, value in detail.items())


def _describe_member(name: str, value: Any) -> str:
    """Return a value in words: times are dates, and no models means all models."""
    if name in _TIMES and isinstance(value, int | float) and not isinstance(value, bool):
        return format_time(value)
    if name in _ALL_IF_EMPTY and value in ([], (), None):
        return "all"
    return _describe_value(value)


def _describe_value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name} {_describe_member(name, member)}" for name, member in value.items())
        return f"({inner})" if inner else "none"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None or value == "" else str(value)
