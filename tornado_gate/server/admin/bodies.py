"""Schemas of bodies of the administration API. Unknown members are refused, because a misspelled member would be
ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import RAISE, Schema

from tornado_gate.accounts.key_checks import BUDGETS, LARGEST_AMOUNT, LIMITS, LONGEST_NAME, LONGEST_WORD, MOST_WORDS
from tornado_gate.accounts.limit_overrides import BOUNDS, SUBJECT_KINDS
from tornado_gate.codec.fields import Array, Boolean, Integer, Number, Object, OneOf, String, first_fault
from tornado_gate.errors import InvalidField

_ROLES = ("administrator", "member")
_LONGEST_ADDRESS = 320


class AdminSchema(Schema):
    """A body with known members only."""

    class Meta:
        unknown = RAISE


def check_body(schema: type[Schema], body: Mapping[str, Any]) -> None:
    """Check a body. Raises InvalidField for the first fault."""
    errors = schema().validate(body)
    if not errors:
        return
    path, message = first_fault(errors)
    name = ".".join(map(str, path))
    if message == "Unknown field.":
        listed = ", ".join(schema().fields) or "none"
        message = (
            "is not a member of this body" if len(path) > 1 else f"is not a member of this body, which has: {listed}"
        )
        raise InvalidField(name[:200], f"'{name[:200]}' {message}.", code="unsupported_parameter")
    code = "missing_required_parameter" if message == "is missing" else "invalid_value"
    raise InvalidField(name, f"'{name}' {message}.", code=code)


def _make_words_field() -> Array:
    return Array(String(filled=True, longest=LONGEST_WORD), most=MOST_WORDS)


def _make_moment_field() -> OneOf:
    moment = Number(least=0)
    return OneOf(by_type={int: moment, float: moment, str: String(filled=True, longest=60)}, allow_none=True)


LimitsSchema = AdminSchema.from_dict({name: Integer(least=1, allow_none=True) for name in LIMITS}, name="LimitsSchema")
BudgetSchema = AdminSchema.from_dict(
    {
        name: Number(least=0, most=LARGEST_AMOUNT, allow_none=True)
        if name.startswith("usd")
        else Integer(least=1, allow_none=True)
        for name in BUDGETS
    },
    name="BudgetSchema",
)
LimitsSchema.__module__ = BudgetSchema.__module__ = __name__


class KeyChangeSchema(AdminSchema):
    """Changes of a key. `expires`: Unix seconds, a date, a duration from now such as `30d`, or null for never."""

    name = String(filled=True, longest=LONGEST_NAME)
    team = String(filled=True, longest=LONGEST_WORD, allow_none=True)
    role = String(choices=_ROLES)
    models = _make_words_field()
    operations = _make_words_field()
    addresses = _make_words_field()
    tags = _make_words_field()
    limits = Object(LimitsSchema)
    budget = Object(BudgetSchema)
    expires = _make_moment_field()


class NewKeySchema(KeyChangeSchema):
    """A new key. Empty or missing lists allow all. `account` owns its tasks and stored data; default: the user, else the key."""

    name = String(required=True, filled=True, longest=LONGEST_NAME)
    user = String(filled=True, longest=LONGEST_WORD, allow_none=True)
    account = String(filled=True, longest=LONGEST_NAME, allow_none=True)


class RotationSchema(AdminSchema):
    """`overlap`: how long the old key stays valid, in seconds or as a duration such as `1h`. Default: 0."""

    overlap = OneOf(by_type={int: Integer(least=0), float: Number(least=0), str: String(filled=True, longest=60)})


class LimitOverrideSchema(AdminSchema):
    """A temporary limit: the new `value` (US dollars for money), or a `factor`.

    `subject` is the id of a key, user or team, or the name of a model or provider entry in conf; empty for the gateway.
    `until`: Unix seconds, a date, or a duration from now such as `2h`.
    """

    kind = String(required=True, choices=SUBJECT_KINDS)
    subject = String(longest=300)
    bound = String(required=True, choices=BOUNDS)
    value = Number(least=0, most=LARGEST_AMOUNT, allow_none=True)
    factor = Number(least=0, most=LARGEST_AMOUNT, allow_none=True)
    until = OneOf(
        by_type={int: Number(least=0), float: Number(least=0), str: String(filled=True, longest=60)}, required=True
    )


class UserChangeSchema(AdminSchema):
    """Changes of a user. The last administrator cannot be demoted or disabled. All keys of a user share its bounds."""

    limits = Object(LimitsSchema)
    budget = Object(BudgetSchema)

    role = String(choices=_ROLES)
    state = String(choices=("active", "disabled"))
    name = String(longest=LONGEST_WORD)


class InvitationSchema(AdminSchema):
    """A new invitation. `email`: only this address may use it. `seconds`: how long it is valid; default: a week."""

    email = String(longest=_LONGEST_ADDRESS)
    role = String(choices=_ROLES)
    team = String(filled=True, longest=LONGEST_WORD, allow_none=True)
    seconds = Integer(least=1)


class NameSchema(AdminSchema):
    """A name."""

    name = String(required=True, filled=True, longest=LONGEST_WORD)


class TeamChangeSchema(AdminSchema):
    """Changes of a team. Empty `models` allow all.

    `personal_keys`: whether members may make keys outside a team with a budget or limits; null: the default of conf.
    """

    name = String(filled=True, longest=LONGEST_WORD)
    budget = Object(BudgetSchema)
    limits = Object(LimitsSchema)
    models = _make_words_field()
    personal_keys = Boolean(allow_none=True)


class NewTeamSchema(TeamChangeSchema):
    """A new team of an organisation."""

    organisation = String(required=True, filled=True, longest=LONGEST_WORD)
    name = String(required=True, filled=True, longest=LONGEST_WORD)


class MemberSchema(AdminSchema):
    """The role of a member in the team."""

    role = String(required=True, choices=_ROLES)
