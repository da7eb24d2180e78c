"""How the gateway connects to others: through an HTTP proxy, with private certificate authorities, with a client certificate."""

from __future__ import annotations

import base64
import hashlib
import ssl
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Final

from tornado_gate.types.value import Value

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a file with certificates; the list of all public authorities has a quarter of a megabyte."""


class Proxy(Value, frozen=True, kw_only=True):
    """An HTTP proxy. `login` is ``user:password`` or "". The other fields are the hosts that are reached without it.

    `direct_hosts` are names in lower case; each stands for its subdomains too, and ``*`` for all hosts.
    """

    host: str
    port: int
    login: str = ""
    direct_hosts: tuple[str, ...] = ()
    direct_networks: tuple[IPv4Network | IPv6Network, ...] = ()

    hidden_fields = frozenset({"login"})

    @property
    def url(self) -> str:
        """Return the proxy's address without the login."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def authorization(self) -> str:
        """Return the value of Proxy-Authorization (RFC 7617), "" without a login."""
        return f"Basic {base64.b64encode(self.login.encode()).decode()}" if self.login else ""

    def covers(self, host: str) -> bool:
        """Return whether connections to `host`, a name or an IP address without brackets, go through the proxy."""
        name = host.lower().rstrip(".")
        if any(each in ("*", name) or name.endswith(f".{each}") for each in self.direct_hosts):
            return False
        if not self.direct_networks:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return True
        return not any(address in network for network in self.direct_networks)


class TrustFault(Exception):
    """An error: a file cannot be used. `key` is the key of the entry that names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Trust(Value, frozen=True, kw_only=True):
    """The PEM files of TLS connections to others. `digest` changes with their content.

    The certificates in `ca_file` are trusted in addition to the system's. The gateway shows `client_certificate` to servers
    that ask for one.
    """

    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    digest: str = ""


class Network(Value, frozen=True, kw_only=True):
    """How the connections to one provider, or all others, are made. None: directly; with the system's authorities only."""

    proxy: Proxy | None = None
    trust: Trust | None = None

    def make_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context for the files of `trust`, None without any. Raises TrustFault."""
        return None if self.trust is None else make_context(self.trust)


DIRECT: Final = Network()


def digest_files(trust: Trust) -> str:
    """Return the digest of the files' contents. Raises TrustFault."""
    digest = hashlib.sha256()
    for key in ("ca_file", "client_certificate", "client_key"):
        path: Path | None = getattr(trust, key)
        if path is None:
            continue
        try:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise TrustFault(
                key, f"{path} cannot be read: {error.strerror}; create it, or name another file"
            ) from error
        if len(data) > MAX_FILE_BYTES:
            raise TrustFault(key, f"{path} is too large for a file of certificates; name another file")
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


@lru_cache(maxsize=256)
def make_context(trust: Trust) -> ssl.SSLContext:
    """Return the TLS context of a client. It reads files, so `config.load` makes it first. Raises TrustFault."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    if trust.ca_file is not None:
        try:
            context.load_verify_locations(trust.ca_file)
        except (ssl.SSLError, OSError) as error:
            message = f"{trust.ca_file} has no certificate in PEM; it must contain the certificates of your authorities"
            raise TrustFault("ca_file", message) from error
    if trust.client_certificate is not None:
        try:
            context.load_cert_chain(trust.client_certificate, trust.client_key, password=_refuse_encrypted_key)
        except (ssl.SSLError, OSError) as error:
            message = f"{trust.client_certificate} and {trust.client_key} are not a certificate in PEM and its key"
            raise TrustFault("client_certificate", f"{message}; name the two files of one certificate") from error
    return context


def _refuse_encrypted_key() -> str:
    raise TrustFault("client_key", "is encrypted; store the key without a passphrase, readable by the gateway only")
