"""The fields of a key in a form. They are parsed to arguments of the key store, and filled from a stored key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from tornado_gate.accounts.errors import AccountError, check_all
from tornado_gate.accounts.key_checks import check_budget, check_fields, check_limits
from tornado_gate.accounts.keys import StoredKey
from tornado_gate.codec.durations import parse_moment
from tornado_gate.server.console.languages.catalogues import mark, translate

ROLES: Final = (("member", mark("member")), ("administrator", mark("administrator: may use /admin/v1")))
LIMITS: Final = ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
AMOUNTS: Final = ("usd_per_day", "usd_per_month")
TOKEN_BUDGETS: Final = ("tokens_per_day", "tokens_per_month")
LISTS: Final = ("models", "addresses", "tags")
TEXTS: Final = ("name", "expires", "team", "role", *LISTS, *LIMITS, *AMOUNTS, *TOKEN_BUDGETS)
FIELDS: Final = (*TEXTS, "operations")
"""The fields of the form."""
OPTIONAL: Final = tuple(name for name in FIELDS if name != "name")
LONGEST_TEXT: Final = 10_000
_SEPARATORS = re.compile(r"[\s,;]+")
_INTEGER = re.compile(r"[0-9]{1,18}")


def read_form(get: Callable[[str], str], get_all: Callable[[str], list[str]]) -> dict[str, str]:
    """Return the typed texts of a request by field. `get` and `get_all` return the values of a field."""
    return {**{name: get(name)[:LONGEST_TEXT] for name in TEXTS}, "operations": " ".join(get_all("operations"))}


def parse_key_form(values: Mapping[str, str], known_expiry: float | None = None) -> dict[str, Any]:
    """Return the fields as `parse_form` does. Raises AccountError with every faulty field, also those that the store checks."""
    checks = {"parsed": partial(parse_form, values, known_expiry), "texts": partial(check_fields, _read_texts(values))}
    parsed: dict[str, Any] = check_all(checks)["parsed"]
    return parsed


def parse_form(values: Mapping[str, str], known_expiry: float | None = None) -> dict[str, Any]:
    """Return the fields of a key, as `KeyStore.create` takes them. Raises AccountError with the fields.

    If the typed expiry equals the shown text of `known_expiry`, the expiry stays the same to the second.
    """
    integers = {name: partial(_parse_integer, values, name) for name in (*LIMITS, *TOKEN_BUDGETS)}
    amounts = {name: partial(_parse_amount, values, name) for name in AMOUNTS}
    expires = partial(_parse_expiry, values["expires"], known_expiry)
    parsed = check_all({**integers, **amounts, "expires": expires})
    return {
        **_read_texts(values),
        "expires": parsed["expires"],
        "limits": {name: parsed[name] for name in LIMITS if parsed[name] is not None},
        "budget": {name: parsed[name] for name in (*AMOUNTS, *TOKEN_BUDGETS) if parsed[name] is not None},
    }


def _read_texts(values: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": values["name"],
        "team": values["team"] or None,
        "role": values["role"] or "member",
        "operations": _split_words(values["operations"]),
        **{name: _split_words(values[name]) for name in LISTS},
    }


def fill_form(key: StoredKey) -> dict[str, str]:
    """Return the texts of the form for a stored key."""
    bounds = {**key.limits, **key.budget}
    return {
        "name": key.name,
        "expires": format_expiry(key.expires),
        "team": key.team or "",
        "role": key.role,
        "operations": " ".join(key.operations),
        **{name: "\n".join(getattr(key, name)) for name in LISTS},
        **{name: f"{bounds[name]:.15g}" if name in bounds else "" for name in (*LIMITS, *AMOUNTS, *TOKEN_BUDGETS)},
    }


def format_expiry(expires: float | None) -> str:
    """Return an expiry in the form's format: a date and time in UTC, "" for none."""
    return "" if expires is None else datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M")


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word for word in _SEPARATORS.split(text) if word)


def _parse_expiry(text: str, known: float | None) -> float | None:
    if not text:
        return None
    if known is not None and text == format_expiry(known):
        return known
    try:
        return parse_moment(text)
    except ValueError as error:
        raise AccountError(translate("The expiry {error}.").format(error=error), field="expires") from None


def _parse_integer(values: Mapping[str, str], name: str) -> int | None:
    text = values[name].replace(" ", "").replace(",", "")
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise AccountError(translate("Enter a whole number, or nothing for no limit."), field=name)
    check = check_limits if name in LIMITS else check_budget
    return int(check({name: int(text)})[name])


def _parse_amount(values: Mapping[str, str], name: str) -> float | None:
    text = values[name].replace(" ", "").replace("$", "").replace(",", "")
    if not text:
        return None
    try:
        amount = float(text)
    except ValueError:
        raise AccountError(translate("Enter an amount in US dollars, such as 12.50, or nothing."), field=name) from None
    return check_budget({name: amount})[name]
