"""Checks of the fields of a key: its name, globs, operations, addresses, tags, limits, budget and expiry.

The values may come from anybody. Every fault is an AccountError with the name of the field and a message for people.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from tornado_gate.accounts.errors import AccountError, check_all
from tornado_gate.accounts.texts import is_printable
from tornado_gate.codec.durations import LATEST_MOMENT
from tornado_gate.codec.fields import MAX_INTEGER
from tornado_gate.codec.networks import format_network, parse_network
from tornado_gate.types import Budget

LONGEST_NAME: Final = 100
LONGEST_WORD: Final = 200
MOST_WORDS: Final = 100
"""The maximum number of entries in a list of a key."""
LARGEST_AMOUNT: Final = 1e12
"""The largest budget in US dollars."""
LIMITS: Final = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
BUDGETS: Final = Budget.__struct_fields__
_ROLES: Final = ("member", "administrator")
_OPERATION = re.compile(r"[a-z][a-z0-9_]{0,49}")


def check_name(name: Any, field: str = "name") -> str:
    """Return the name, or account, of a key without spaces around it."""
    if not isinstance(name, str) or not name.strip() or len(name.strip()) > LONGEST_NAME:
        raise AccountError(f"The {field} must have 1 to {LONGEST_NAME} characters, not only spaces.", field=field)
    if not is_printable(name.strip()):
        message = f"The {field} must not contain control characters, invisible characters or text that is not UTF-8."
        raise AccountError(message, field=field)
    return name.strip()


def check_globs(globs: Any, field: str = "models") -> tuple[str, ...]:
    return _check_list(globs, field, _check_word)


def check_operations(operations: Any, known: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the operations. `known` are the operations of the formats and providers in use; any other operation is a
    fault.
    """

    def check(word: str, field: str) -> str:
        if not _OPERATION.fullmatch(word):
            message = f"'{_shorten_text(word)}' is not the name of an operation, such as chat: lower-case letters, digits and _."
            raise AccountError(message, field=field)
        if known is not None and word not in known:
            raise AccountError(f"The operation '{word}' is unknown. Use: {', '.join(sorted(known))}.", field=field)
        return word

    return _check_list(operations, "operations", check)


def check_addresses(addresses: Any) -> tuple[str, ...]:
    """Return networks and single addresses in their shortest spelling."""

    def check(word: str, field: str) -> str:
        try:
            return format_network(parse_network(word))
        except ValueError as error:
            raise AccountError(f"An address {error}.", field=field) from None

    return _check_list(addresses, "addresses", check)


def check_tags(tags: Any) -> tuple[str, ...]:
    return _check_list(tags, "tags", _check_word)


def check_limits(limits: Any) -> dict[str, int]:
    """Return the limits that are not None."""
    members = _check_members(limits, LIMITS, "limits")
    return {name: _check_integer(value, name, least=1) for name, value in members.items()}


def check_budget(budget: Any) -> dict[str, float | int]:
    """Return the bounds of a budget that are not None. A budget of 0 dollars allows only free requests."""
    members = _check_members(budget, BUDGETS, "budget")
    return {
        name: _check_amount(value, name) if name.startswith("usd") else _check_integer(value, name, least=1)
        for name, value in members.items()
    }


def check_expiry(expires: Any, now: float | None = None) -> float | None:
    """Return the Unix time of an expiry; None: never."""
    if expires is None:
        return None
    if not _is_number(expires):
        raise AccountError("The expiry must be a time in seconds since 1970, or nothing.", field="expires")
    if not (time.time() if now is None else now) < expires <= LATEST_MOMENT:
        message = "The expiry must be in the future, and before the year 10000. Use a later time."
        raise AccountError(
            message if expires <= LATEST_MOMENT else message.replace("later", "earlier"), field="expires"
        )
    return float(expires)


def check_role(role: Any) -> str:
    if role not in _ROLES:
        raise AccountError(f"The role must be {' or '.join(_ROLES)}.", field="role")
    return str(role)


CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": check_name,
    "models": check_globs,
    "operations": check_operations,
    "addresses": check_addresses,
    "tags": check_tags,
    "limits": check_limits,
    "budget": check_budget,
    "expires": check_expiry,
    "role": check_role,
}


def check_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a key, each checked and in its stored form. Fields without a check are returned unchanged."""
    checked = check_all({name: partial(CHECKS[name], value) for name, value in fields.items() if name in CHECKS})
    return {name: checked.get(name, value) for name, value in fields.items()}


def _check_list(words: Any, field: str, check: Callable[[str, str], str]) -> tuple[str, ...]:
    if words is None:
        return ()
    if isinstance(words, str) or not isinstance(words, Collection) or not all(isinstance(word, str) for word in words):
        raise AccountError(f"'{field}' must be a list of texts.", field=field)
    if len(words) > MOST_WORDS:
        raise AccountError(f"'{field}' has {len(words)} entries; at most {MOST_WORDS} are allowed.", field=field)
    return tuple(dict.fromkeys(check(word.strip(), field) for word in words))


def _check_word(word: str, field: str) -> str:
    if not word:
        raise AccountError(f"'{field}' has an empty entry. Leave the list empty for all.", field=field)
    if len(word) > LONGEST_WORD:
        raise AccountError(f"An entry of '{field}' has {len(word)} characters; at most {LONGEST_WORD}.", field=field)
    if not word.isprintable() or any(character.isspace() for character in word):
        message = f"An entry of '{field}' must not contain spaces, control characters or text that is not UTF-8."
        raise AccountError(message, field=field)
    return word


def _check_members(members: Any, known: Collection[str], field: str) -> dict[str, Any]:
    if members is None:
        return {}
    if not isinstance(members, Mapping):
        raise AccountError(f"'{field}' must have the members {', '.join(known)}, each optional.", field=field)
    for name in members:
        if name not in known:
            message = f"'{field}' has no member '{_shorten_text(str(name))}'. Use: {', '.join(known)}."
            raise AccountError(message, field=field)
    return {name: value for name, value in members.items() if value is not None}


def _check_integer(value: Any, field: str, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise AccountError(f"'{field}' must be an integer.", field=field)
    if not least <= value <= MAX_INTEGER:
        raise AccountError(f"'{field}' must be {least} or more, and fit into 64 bits.", field=field)
    return value


def _check_amount(value: Any, field: str) -> float:
    if not _is_number(value) or not 0 <= value <= LARGEST_AMOUNT:
        raise AccountError(f"'{field}' must be a number of US dollars from 0 to {LARGEST_AMOUNT:.0f}.", field=field)
    return float(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _shorten_text(text: str) -> str:
    """Return a text for a message: printable and short."""
    shown = text if len(text) <= 60 else text[:60] + "…"
    return shown if shown.isprintable() else ascii(shown)
