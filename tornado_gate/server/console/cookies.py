"""Names and readers of the console's cookies.

Over https the names have the prefix ``__Host-``: a browser accepts such a cookie only from this host itself, over https
and for the path ``/``. A sibling domain, or an attacker who serves plain http for this host, cannot set one. A cookie
with the name of the other scheme is never read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PREFIX = "__Host-"
_SPACES = " \t"
"""The characters that surround a name (RFC 6265 5.2). `strip` removes more, and would accept an attacker's name as the
gateway's.
"""


def make_cookie_name(name: str, *, secure: bool) -> str:
    """Return the name under which the browser keeps the cookie `name`."""
    return PREFIX + name if secure else name


def make_protection(*, secure: bool) -> dict[str, Any]:
    """Return the attributes of every cookie of the console. Browsers demand the path ``/`` for the prefix ``__Host-``."""
    return {"path": "/" if secure else "/console", "httponly": True, "samesite": "Lax", "secure": secure}


def find_cookie(headers: Iterable[str], name: str) -> str | None:
    """Return the value of the cookie `name` in the headers `Cookie`; None if it is missing or occurs more than once.

    If there are two, the gateway cannot find out which one it has set: another host of the domain may have set the
    other one.
    """
    values = [value for header in headers for cookie_name, value in _split_cookies(header) if cookie_name == name]
    if len(values) != 1:
        return None
    value = values[0]
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _split_cookies(header: str) -> Iterable[tuple[str, str]]:
    for pair in header.split(";"):
        name, separator, value = pair.partition("=")
        if separator:
            yield name.strip(_SPACES), value.strip(_SPACES)
