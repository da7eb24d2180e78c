"""The secret names and values of a configuration: the one definition for logs, responses of upstreams, faults and diffs.

A name can show that its value is secret (`api_key`, `authorization`). A value can show it too: an address with a password, a
header or a query with a secret name, a text that begins like a key. No pattern looks further than 300 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MASK: Final = "***"

_WORDS: Final = (
    r"auth(?!or(?!i[sz]))|key|token|secret|passw|passphrase|pwd|credential|cookie|bearer|dsn|private|signature"
)
_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_VALUE: Final = re.compile(
    r"://[^\s\"'<>]{0,300}@"
    r"|\b(?:bearer|basic)\s{1,4}\S"
    rf"|(?:{_WORDS})[\w.\-]{{0,40}}[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?[^\s\"']"
    r"|\b(?:sk-|tg-|xai-|gsk_)[A-Za-z0-9_\-]{8}",
    re.IGNORECASE,
)
_KEY_PREFIX: Final = re.compile(r"(?:sk-|xai-|gsk_|AIza|Bearer |Basic )")
_RANDOM: Final = re.compile(r"(?=[A-Za-z]{0,15}[0-9])(?=[0-9]{0,15}[A-Za-z])[A-Za-z0-9]{16}")
"""A token such as a key, in a header of any name. Names and versions, such as `context-1m-2025-08-07`, have shorter words."""
_REFERENCE: Final = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]{0,99}|file:[^{}]{1,200}|secret:[\w.-]{1,100})\}")
"""A reference without a default: it names the location of a secret."""
_PASSWORD: Final = re.compile(r"://([^\s\"'<>]{0,300})@")
_LOGIN: Final = re.compile(r"(://)[^\s/?#\"'<>]{1,300}@")
_PLAIN: Final = frozenset({"", "null", "~", "true", "false", "yes", "no", "on", "off"})


def is_secret_name(name: str) -> bool:
    """Return whether the name of a field, a setting, a header or a parameter marks its value as secret."""
    return _NAME.search(name) is not None


def is_secret_value(text: str) -> bool:
    """Return whether a text contains a secret, independent of its name. References without a default contain none."""
    text = _REFERENCE.sub("", text) if "${" in text else text
    return any(pattern.search(text) is not None for pattern in (_VALUE, _RANDOM)) or _KEY_PREFIX.match(text) is not None


def is_harmless(text: str) -> bool:
    """Return whether a value with a secret name is harmless: it is empty, a switch, or only a reference to a secret."""
    return _REFERENCE.sub("", text).strip().strip("\"'").lower() in _PLAIN


def quote_value(text: str) -> str:
    """Return the beginning of a wrong value in quotes, for a fault."""
    return MASK if is_secret_value(text) else f"'{text[:50]}'"


def mask_logins(text: str) -> str:
    """Return a text in which addresses have no user and no password; `text` itself if they have none."""
    return _LOGIN.sub(rf"\1{MASK}@", text) if "@" in text else text


def mask_address(address: str) -> str:
    """Return an address without user, password, and values of parameters with secret names."""
    path, mark, query = mask_logins(address).partition("?")
    pairs = (pair.partition("=") for pair in query.split("&"))
    shown = (name + is_set + (MASK if is_set and is_secret_name(name) else value) for name, is_set, value in pairs)
    return path + mark + "&".join(shown)


def list_secrets(value: Any, name: str = "") -> Iterator[str]:
    """Yield the secret texts in `value`, which is a setting `name` as JSON types; for addresses also the password alone."""
    is_secret = is_secret_name(name)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from list_secrets(item, name if is_secret else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from list_secrets(item, name)
    elif isinstance(value, str) and value and (is_secret or is_secret_value(value)):
        yield value
        for login in _PASSWORD.findall(value):
            yield login.partition(":")[2] or login
