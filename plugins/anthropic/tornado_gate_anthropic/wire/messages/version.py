"""The header ``anthropic-version``, which the vendor requires on every request.

Source: the vendor's page "Versions"; anthropic-python 2.11, _client.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from tornado_gate.errors import InvalidField

VERSION_HEADER: Final = "anthropic-version"
EARLIEST_VERSION: Final = date(2023, 1, 1)
DEFAULT_VERSION: Final = "2023-06-01"
"""The value that the vendor's SDKs send."""

_DATE_PATTERN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def check_version(headers: Mapping[str, str]) -> None:
    """Raise InvalidField unless the header is a valid calendar date, 2023-01-01 or later."""
    version = headers.get(VERSION_HEADER)
    if version is None:
        message = f"The header '{VERSION_HEADER}' is missing. Send a date such as 2023-06-01."
        raise InvalidField(VERSION_HEADER, message, code="missing_required_parameter")
    if version != DEFAULT_VERSION and not _is_version(version.strip()):
        shown = version[:50]
        raise InvalidField(
            VERSION_HEADER, f"The header '{VERSION_HEADER}' must be a date, {EARLIEST_VERSION} or later, not '{shown}'."
        )


def _is_version(text: str) -> bool:
    if _DATE_PATTERN.fullmatch(text) is None:
        return False
    try:
        return date.fromisoformat(text) >= EARLIEST_VERSION
    except ValueError:
        return False
