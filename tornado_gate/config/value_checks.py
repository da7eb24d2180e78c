"""The checks of single values of conf/gate.yaml: names, addresses, hosts, headers. Each raises marshmallow's ValidationError."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from marshmallow import ValidationError

from tornado_gate.codec.networks import parse_network
from tornado_gate.codec.valkey_addresses import is_valkey_address

LONGEST_NAME = 200

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_NAME = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_BUCKET = re.compile(r"(?:s3|gs|az)://[a-z0-9][a-z0-9._-]{1,62}(?:/[A-Za-z0-9._=-]{1,100}){0,8}/?")
_OPTION = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OPERATION = re.compile(r"[a-z][a-z0-9_]{0,49}")
_PREFIX = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
_RESERVED_PREFIXES = frozenset({"v1", "v1beta", "media", "admin", "console", "docs", "healthz", "readyz", "metrics"})
_CONNECTION_HEADERS = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})


def check_name(name: str) -> None:
    """Check the name of a provider, a plugin, a model or a key."""
    if not name or len(name) > LONGEST_NAME:
        raise ValidationError(f"a name must have from 1 to {LONGEST_NAME} characters")
    if not name.isprintable() or any(character.isspace() for character in name):
        raise ValidationError("a name must not contain spaces or control characters")


def check_model_name(name: str) -> None:
    check_name(name)
    if name.count("*") > 1:
        raise ValidationError(f"a model's name may contain one *, not {name.count('*')}")


def check_operation(name: str) -> None:
    if not _OPERATION.fullmatch(name):
        raise ValidationError("must be the name of an operation, such as chat: lower-case letters, digits and _")


def check_upstream_model(name: str) -> None:
    if name.count("*") > 1:
        raise ValidationError(
            f"may contain one *, which is replaced by the match of the model name's *, not {name.count('*')}"
        )


def check_url(url: str) -> None:
    """Check a base URL, to which paths can be appended. Messages do not show it, because it may contain a password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValidationError("must be a URL such as https://host.example/v1")
    if "@" in parts.netloc:
        raise ValidationError("must not contain a user name or password; put the key into api_key")
    if "?" in url or "#" in url:
        raise ValidationError("must not contain a query or a fragment, only scheme, host, port and path")


def check_origin(origin: str) -> None:
    if origin != "*" and (_ORIGIN.fullmatch(origin) is None):
        raise ValidationError(
            "must be an origin without a path, such as https://app.example or http://localhost:3000, or *"
        )


def check_optional_url(url: str) -> None:
    if url:
        check_url(url)


def check_host(host: str) -> None:
    if _HOST_NAME.fullmatch(host):
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        message = "must be an IP address or host name without port; 0.0.0.0 listens on all interfaces"
        raise ValidationError(message) from None


def check_key(key: str) -> None:
    """Check an API key, which is sent in a header."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValidationError("must be printable ASCII without spaces and line breaks, because it is sent in a header")


def check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValidationError("must be the name of a header: letters, digits and -")
    if name.lower() in _CONNECTION_HEADERS:
        raise ValidationError("is a connection header, which the gateway sets itself; remove it")


def check_header_value(value: str) -> None:
    if not value.isascii() or not value.isprintable():
        raise ValidationError("must be printable ASCII without line breaks")


def check_bounds(bounds: list[int]) -> None:
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise ValidationError("must be [minimum, maximum], such as [1, 60]")


def check_network(network: str) -> None:
    try:
        ipaddress.ip_network(network)
    except ValueError:
        raise ValidationError("must be a network such as 10.1.0.0/16 or fd00::/8") from None


def check_address(address: str) -> None:
    """Check an address from which a key may be used."""
    try:
        parse_network(address)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def check_database(address: str) -> None:
    """Check the address of a PostgreSQL database; empty: the SQLite file. Messages do not show it: it may have a password."""
    if address and not address.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        raise ValidationError(
            "must be an address such as postgresql://user:password@host:5432/name; leave it out for the SQLite file in data_dir"
        )


def check_limits_store(address: str) -> None:
    """Check the address of a Redis or Valkey; empty: the counters of this machine. Messages do not show it."""
    if address and not is_valkey_address(address):
        raise ValidationError(
            "must be an address such as redis://host:6379/0 or valkey://host:6379; leave it out to count on this machine"
        )


def check_media_store(address: str) -> None:
    """Check the address of a bucket; empty: folders below data_dir."""
    if address and not _BUCKET.fullmatch(address):
        raise ValidationError(
            "must be the address of a bucket such as s3://bucket/prefix, gs://bucket or az://container, without a user, a query "
            "or a fragment; leave it out to keep files below data_dir"
        )


def check_option_name(name: str) -> None:
    if not _OPTION.fullmatch(name):
        raise ValidationError("an option must be lower-case letters, digits and _, such as region")


def check_media_secret(secret: str) -> None:
    if secret and len(secret) < 32:
        raise ValidationError(
            "must have 32 characters or more, equal at all nodes; leave it out for a key in the bucket"
        )


def check_prefix(word: str) -> None:
    if not _PREFIX.fullmatch(word) or word in _RESERVED_PREFIXES:
        raise ValidationError(
            "must be one path segment of lower-case letters, digits and -, such as vendor, "
            f"and none of {', '.join(sorted(_RESERVED_PREFIXES))}"
        )
