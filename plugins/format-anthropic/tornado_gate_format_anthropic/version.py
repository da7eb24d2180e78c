"""The header ``anthropic-version``, which the vendor demands of every request.

Source: the vendor's page "Versions"; anthropic-python 2.11, _client.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from tornado_gate.errors import InvalidField

HEADER: Final = "anthropic-version"
EARLIEST: Final = date(2023, 1, 1)
USUAL: Final = "2023-06-01"
"""What the vendor's SDKs send."""

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def check_version(headers: Mapping[str, str]) -> None:
    """Raises InvalidField unless the header is a date of the calendar from 2023-01-01 on."""
    given = headers.get(HEADER)
    if given is None:
        message = f"The header '{HEADER}' is missing; send a date such as 2023-06-01."
        raise InvalidField(HEADER, message, code="missing_required_parameter")
    if given != USUAL and not _is_version(given.strip()):
        shown = given[:50]
        raise InvalidField(HEADER, f"The header '{HEADER}' must be a date from {EARLIEST} on, not '{shown}'.")


def _is_version(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        return date.fromisoformat(text) >= EARLIEST
    except ValueError:
        return False
