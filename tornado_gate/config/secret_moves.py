"""Changes of entries that would give a secret of conf to another place than before.

An administrator may add and change entries, but does not know the secrets of conf, its environment and its files. Without these
checks he could read them: at an address of his own, or as the name of a model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tornado_gate.codec.secret_words import list_secrets
from tornado_gate.config.network_keys import NETWORK_KEYS
from tornado_gate.errors import RequestError

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{")
_PLACELESS: Final = frozenset(
    {
        *("on", "api_key", "api_keys", "headers", "timeouts", "shared_objects", "prices", "price_provider", "limits"),
        *("health_check", "concurrency", *NETWORK_KEYS),
    }
)
"""Members of a provider entry that do not choose its address: `base_url`, `plugin` and the settings of the plugin do."""
_KEY_MEMBERS: Final = ("api_key", "api_keys", "headers")


def check_secrets(
    section: str, before: Mapping[str, Any], after: Mapping[str, Any], new_secrets: Collection[str]
) -> None:
    """Check the change of an entry of `providers`, `plugins` or `models` by an administrator; `before` is {} for a new one.

    `new_secrets` are references to secrets that were stored for this change. Raises RequestError.
    """
    known = frozenset(new_secrets) | list_references(before)
    kept = () if section == "models" else tuple(_list_kept(section, before, after, frozenset(new_secrets)))
    if kept and _has_moved(section, before, after):
        changed = (name for name in {**before, **after} if name not in kept and before.get(name) != after.get(name))
        message = (
            f"After this change of {', '.join(name[:100] for name in changed)} the stored keys could be sent to another "
            f"address. Send the keys for it in the same change, not as references: {', '.join(kept)}."
        )
        raise RequestError(message, param="api_key", code="provider_key_required", status=400)
    for member, value in after.items():
        if any(_REFERENCE.search(text) and text not in known for text in _list_texts(value)):
            message = (
                f"'{member[:100]}' has a reference such as ${{NAME}}. Only the file and commands on the machine may add one. "
                "Send the value itself: a secret goes to the encrypted store. Write $${ for the text ${."
            )
            raise RequestError(message, code="invalid_configuration", status=400)


def list_references(value: Any) -> frozenset[str]:
    """Return the texts of a value, such as the members of an entry, that refer to a secret, a variable or a file."""
    return frozenset(text for text in _list_texts(value) if _REFERENCE.search(text))


def read_origin(address: str) -> str:
    """Return scheme, host and port of an address, because a path or a password may be secret; "" if it has none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def _list_kept(
    section: str, before: Mapping[str, Any], after: Mapping[str, Any], new_secrets: Collection[str]
) -> Iterator[str]:
    """Yield the members of an entry with secrets of conf that stay."""
    for member, value in after.items():
        if member not in before:
            continue
        is_key = section == "providers" and member in _KEY_MEMBERS
        secrets = _list_texts(value) if is_key else list_secrets(value, member)
        texts = frozenset(_list_texts(before[member]))
        if any(text in texts and text not in new_secrets for text in secrets if text):
            yield member


def _has_moved(section: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether an entry may have another address, or may reach it in another way that shows the keys."""
    if section == "plugins":
        return not frozenset(_list_places(after)) <= frozenset(_list_places(before))
    old, new = before.get("base_url"), after.get("base_url")
    if before.get("plugin") != after.get("plugin") or before.get("ca_file") != after.get("ca_file"):
        return True
    if old != new and (
        not old or not new or not read_origin(str(old)) or read_origin(str(old)) != read_origin(str(new))
    ):
        return True
    if before.get("proxy") != after.get("proxy") and not str(new or "https:").lower().startswith("https:"):
        return True  # without TLS a proxy reads the keys
    settings = [{name: entry[name] for name in entry.keys() - _PLACELESS} for entry in (before, after)]
    if not new:  # the plugin's settings choose the address
        return settings[0] != settings[1]
    return not frozenset(_list_places(settings[1])) <= frozenset(_list_places(settings[0]))


def _list_places(value: Any) -> Iterator[str]:
    """Yield the origins of the addresses in a value, outside of headers."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name != "headers":
                yield from _list_places(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_places(item)
    elif isinstance(value, str) and _is_address(value):
        yield read_origin(value) or value


def _is_address(text: str) -> bool:
    """Return whether a text is a URL, or a host with a port."""
    host, _, port = text.partition("/")[0].rpartition(":")
    return "://" in text or (bool(host) and port.isdigit() and " " not in host)


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item)
    elif isinstance(value, str):
        yield value
