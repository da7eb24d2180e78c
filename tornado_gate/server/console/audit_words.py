"""The actions of the audit log in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.server.console.vocabulary import name_value, name_word
from tornado_gate.server.console.words import format_time

ACTIONS: Final[Mapping[str, str]] = {
    "user.create": mark("created an account"),
    "user.sign_in": mark("signed in"),
    "user.sign_in_failed": mark("failed to sign in"),
    "user.sign_out": mark("signed out"),
    "user.set_role": mark("changed the role of a user"),
    "user.set_state": mark("enabled or disabled a user"),
    "user.set_bounds": mark("changed the limits of a user"),
    "user.set_name": mark("renamed a user"),
    "user.delete": mark("deleted a user"),
    "user.change_password": mark("changed the password"),
    "user.link_identity": mark("connected an account with the identity provider"),
    "user.create_reset_link": mark("made a link that sets a password"),
    "user.reset_password": mark("set a password by a link"),
    "session.end": mark("ended a session"),
    "session.end_others": mark("ended sessions"),
    "invitation.create": mark("made an invitation"),
    "invitation.revoke": mark("revoked an invitation"),
    "organisation.create": mark("created an organisation"),
    "organisation.rename": mark("renamed an organisation"),
    "organisation.delete": mark("deleted an organisation"),
    "team.create": mark("created a team"),
    "team.update": mark("changed a team"),
    "team.delete": mark("deleted a team"),
    "team.set_member": mark("added a member, or changed the role of one"),
    "team.remove_member": mark("removed a member"),
    "key.create": mark("created an API key"),
    "key.change": mark("changed an API key"),
    "key.rotate": mark("rotated an API key"),
    "key.adopt": mark("took over an API key"),
    "key.revoke": mark("revoked an API key"),
    "limit.override": mark("changed a limit temporarily"),
    "limit.end_override": mark("ended a temporary limit"),
    "alert.test": mark("sent a test of the alerts"),
    "plugin.switch": mark("switched a plugin on or off"),
    "plugin.change": mark("changed the settings of a plugin"),
    "provider.create": mark("added a provider"),
    "provider.change": mark("changed a provider"),
    "provider.delete": mark("removed a provider"),
    "configuration.undo": mark("undid a change of the configuration"),
    "model.create": mark("added a model"),
    "model.change": mark("changed a model"),
    "model.delete": mark("removed a model"),
    "tape.read": mark("read a recorded request"),
    "tape.delete": mark("deleted a recorded request"),
}
DIFF: Final = "diff"
"""The member of a detail that has the change of the configuration; the page shows its lines."""
_TIMES: Final = frozenset({"expires", "until", "valid_until"})
_RENAMED: Final[Mapping[str, str]] = {"bound": "limit"}
"""Members that pages call otherwise."""
_ALL_IF_EMPTY: Final = frozenset({"models", "operations", "addresses"})
KINDS: Final = tuple(dict.fromkeys(action.partition(".")[0] for action in ACTIONS))
"""The kinds of objects that events concern, for the filter of the list."""


def describe_action(action: str) -> str:
    """Return an action in words. An unknown action is returned unchanged."""
    return translate(ACTIONS.get(action, action))


def describe_detail(detail: Mapping[str, Any]) -> str:
    """Return the detail of an event without the change of a file: ``role: member, before: administrator``."""
    return ", ".join(
        f"{name_word(_RENAMED.get(name, name))}: {_describe_member(name, value)}"
        for name, value in detail.items()
        if name != DIFF
    )


def _describe_member(name: str, value: Any) -> str:
    """Return a value in words: times are dates, and no models means all models."""
    if name in _TIMES and isinstance(value, int | float) and not isinstance(value, bool):
        return format_time(value)
    if name in _ALL_IF_EMPTY and value in ([], (), None):
        return translate("all")
    return _describe_value(name, value)


def _describe_value(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name_word(inner)} {_describe_member(inner, member)}" for inner, member in value.items())
        return f"({inner})" if inner else translate("none")
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or translate("none")
    if isinstance(value, bool):
        return translate("yes" if value else "no")
    return translate("none") if value is None or value == "" else name_value(name, value)
