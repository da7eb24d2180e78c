"""The certificate of ``server.tls``: read at the start, and again after a change of its files or SIGHUP.

Only new connections use a new certificate, so none is dropped. Imported only if conf has ``server.tls``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

from cryptography import x509

from tornado_gate.config import Config, FileFaults
from tornado_gate.config.model import TlsConfig

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
"""The interval of looks at the files. A changed file is read when two looks see no difference, because it may be written."""
WARNING_TIME: Final = timedelta(days=7)
"""The time before the end of a certificate's validity from which each load logs a warning."""
_MINIMUM: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

Renew = Callable[[ssl.SSLContext], None]


class _TlsFault(Exception):
    """An error: a file cannot be used. `key` is the key of ``server.tls`` that names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def load_certificate(config: Config) -> ssl.SSLContext:
    """Return a context with the certificate that conf names. Raises FileFaults."""
    tls = config.server.tls
    assert tls is not None
    try:
        _check_expiry(_read_certificate(tls), tls.certificate)
        return _make_context(tls)
    except _TlsFault as fault:
        raise FileFaults([(("server", "tls", fault.key), str(fault))], config.path, config.lines) from None


def _read_certificate(tls: TlsConfig) -> x509.Certificate:
    data = _read("certificate", tls.certificate)
    _read("key", tls.key)
    try:
        return x509.load_pem_x509_certificates(data)[0]
    except ValueError:
        message = f"{tls.certificate} has no certificate in PEM; it must contain the certificate, then its chain"
        raise _TlsFault("certificate", message) from None


def _read(key: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}; name a file that the user of the gateway may read"
        raise _TlsFault(key, message) from error


def _check_expiry(certificate: x509.Certificate, path: Path) -> None:
    """Log a warning if the certificate is not valid, or not for long."""
    now = datetime.now(UTC)
    if now < certificate.not_valid_before_utc:
        log.warning("the certificate %s is not valid before %s", path, certificate.not_valid_before_utc)
    elif certificate.not_valid_after_utc - now < WARNING_TIME:
        log.warning("the certificate %s is valid until %s only; renew it", path, certificate.not_valid_after_utc)


def _make_context(tls: TlsConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _MINIMUM[tls.minimum]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_refuse_encrypted_key)
    except ssl.SSLError as error:
        raise _describe(error, tls) from error
    except OSError as error:
        raise _TlsFault(
            "certificate", f"{tls.certificate} or {tls.key} cannot be read: {error.strerror}; try again"
        ) from error
    return context


def _refuse_encrypted_key() -> NoReturn:
    """Refuse to decrypt the key. Without a function, OpenSSL would ask for the passphrase on the terminal."""
    message = (
        "is encrypted; use a key without a passphrase, such as the output of `openssl pkey -in KEY -out PLAIN_KEY`"
    )
    raise _TlsFault("key", message)


def _describe(error: ssl.SSLError, tls: TlsConfig) -> _TlsFault:
    reason = error.reason or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        return _TlsFault("key", f"{tls.key} is not the key of {tls.certificate}; name the two files of one certificate")
    if "TOO_SMALL" in reason or "TOO_WEAK" in reason:
        return _TlsFault(
            "certificate", f"{tls.certificate} is not secure ({reason}); use one with a stronger key or hash"
        )
    return _TlsFault("key", f"{tls.key} has no private key in PEM ({reason}); name the key of {tls.certificate}")


class CertificateWatch:
    """A watch of the files. If they are faulty, the faults are logged and the old certificate stays in force.

    `renew` is called with each new context.
    """

    def __init__(self, config: Config, renew: Renew) -> None:
        self._config = config
        self._renew = renew
        self._asked = asyncio.Event()
        self._seen = self._get_state()

    def request_reload(self) -> None:
        """Read the files soon, as after SIGHUP."""
        self._asked.set()

    async def watch(self) -> None:
        """Read the files after `request_reload`, and when they have changed."""
        looked = self._seen
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._asked.wait()
            state = await asyncio.to_thread(self._get_state)
            is_settled, looked = state == looked, state
            if self._asked.is_set() or (is_settled and state != self._seen):
                self._asked.clear()
                self._seen = state
                await self._reload()

    async def _reload(self) -> None:
        try:
            context = await asyncio.to_thread(load_certificate, self._config)
        except FileFaults as error:
            for line in error.report():
                log.error("certificate not reloaded, the old one stays in force: %s", line)
            return
        self._renew(context)
        log.info("the certificate was reloaded; new connections use it")

    def _get_state(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that changes when a file changes, appears or disappears. A symbolic link counts as its target."""
        tls = self._config.server.tls
        assert tls is not None
        return tuple(map(_get_file_state, (tls.certificate, tls.key)))


def _get_file_state(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
