"""Addresses of a Redis or Valkey in conf."""

from __future__ import annotations

from typing import Final

VALKEY_SCHEMES: Final = ("redis://", "rediss://", "valkey://", "valkeys://", "unix://")
_NAMES_OF_LIBRARY: Final = {"valkey": "redis", "valkeys": "rediss"}


def is_valkey_address(address: str) -> bool:
    return address.startswith(VALKEY_SCHEMES)


def make_library_address(address: str) -> str:
    """Return the address as the library `redis` accepts it."""
    scheme, colon, rest = str(address).partition("://")
    return _NAMES_OF_LIBRARY.get(scheme, scheme) + colon + rest
