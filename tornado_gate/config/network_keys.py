"""The keys of conf about connections to others: the section `network`, and the same keys of a provider entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from marshmallow import Schema, ValidationError, fields

from tornado_gate.config.faults import Fault, KeyPath
from tornado_gate.config.network import Network, Proxy, Trust, TrustFault, digest_files, make_context
from tornado_gate.config.values import List, SecretString, String, check_file_path
from tornado_gate.types.value import replace

PROXY_PORT = 3128
NETWORK_KEYS = ("proxy", "ca_file", "client_certificate", "client_key")
_FILE_KEYS = NETWORK_KEYS[1:]


def check_proxy(address: str) -> None:
    """Check the address of a proxy; empty: none. Messages do not show it, because it may contain a password."""
    if not address:
        return
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    is_plain = address.isascii() and address.isprintable() and " " not in address and "\\" not in address
    if not is_valid or not is_plain or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValidationError(
            "must be the address of an HTTP proxy such as http://user:password@proxy.example:3128; characters such as @ and / in "
            "the password are written as %40 and %2F"
        )


def check_direct_host(text: str) -> None:
    """Check an entry of no_proxy."""
    if (
        not text.isascii()
        or not text.isprintable()
        or not text.strip()
        or any(sign in text for sign in " @\\")
        or "://" in text
    ):
        raise ValidationError("must be a host such as internal.example, an address, a network such as 10.0.0.0/8, or *")


class HostList(fields.Field[Any]):
    """A list of hosts, or one text with commas, as in the environment variable NO_PROXY."""

    _list = List(String(validate=check_direct_host))

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **rest: Any) -> Any:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        return self._list.deserialize(value)


class EntryNetworkSchema(Schema):
    """The keys that a provider entry and the section `network` have."""

    proxy = SecretString(empty=True, validate=check_proxy)
    ca_file = String(empty=True, validate=check_file_path)
    client_certificate = String(empty=True, validate=check_file_path)
    client_key = String(empty=True, validate=check_file_path)


class NetworkSchema(EntryNetworkSchema):
    no_proxy = HostList()


def build_network(section: Mapping[str, Any], entry: Mapping[str, Any], folder: Path) -> Network:
    """Return the network of a provider entry: its own keys, else those of the section. Files are relative to `folder`.

    Raises TrustFault.
    """
    values = {**section, **{key: entry[key] for key in NETWORK_KEYS if key in entry}}
    direct = () if entry.get("proxy") else section.get("no_proxy", ())
    paths = {key: folder / values[key] for key in _FILE_KEYS if values.get(key)}
    trust = Trust(**paths) if paths else None
    if trust is not None:
        trust = replace(trust, digest=digest_files(trust))
        make_context(trust)
    return Network(proxy=build_proxy(values.get("proxy", ""), direct), trust=trust)


def build_proxy(address: str, direct: tuple[str, ...] | list[str] = ()) -> Proxy | None:
    """Return a proxy, None for an empty address. `direct` are the entries of no_proxy."""
    if not address:
        return None
    parts = urlsplit(address)
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if parts.username else ""
    names, networks = [], []
    for text in direct:
        try:
            networks.append(ip_network(text, strict=False))
        except ValueError:
            names.append(text.lower().lstrip(".").removeprefix("*.").rstrip("."))
    return Proxy(
        host=parts.hostname or "",
        port=parts.port or PROXY_PORT,
        login=login,
        direct_hosts=tuple(names),
        direct_networks=tuple(networks),
    )


def find_network_faults(data: Mapping[str, Any], folder: Path, off: Mapping[KeyPath, str]) -> Iterator[Fault]:
    """Yield the faults of files, and of certificates without their keys. Entries in `off` are skipped."""
    section = data.get("network") or {}
    places: list[tuple[KeyPath, Mapping[str, Any]]] = [(("network",), section)]
    places += [
        (("providers", name), entry or {})
        for name, entry in (data.get("providers") or {}).items()
        if ("providers", name) not in off
    ]
    for path, entry in places:
        if bool(entry.get("client_certificate")) != bool(entry.get("client_key")):
            present, missing = ("client_certificate", "client_key")[:: 1 if entry.get("client_certificate") else -1]
            yield (*path, present), f"needs {missing}: a client certificate and its key are two PEM files"
            continue
        try:
            build_network({}, {key: entry[key] for key in _FILE_KEYS if entry.get(key)}, folder)
        except TrustFault as fault:
            yield (*path, fault.key), str(fault)
