"""Certificates of the gateway, signed by themselves, and clients that trust them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The two PEM files of a certificate for 127.0.0.1 and localhost. `name` is the name of its subject."""

    certificate: Path
    key: Path

    @classmethod
    def write(cls, folder: Path, name: str = "first", *, days: int = 90, passphrase: bytes = b"") -> CertificateFiles:
        """Write a new certificate with a new key over the files in `folder`."""
        files = cls(folder / "certificate.pem", folder / "key.pem")
        files.renew(name, days=days, passphrase=passphrase)
        return files

    def renew(self, name: str, *, days: int = 90, passphrase: bytes = b"") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(key, hashes.SHA256())
        )
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase)
        formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        self.key.write_bytes(key.private_bytes(*formats, encryption))
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def trust(self) -> ssl.SSLContext:
        """Return the context of a client that trusts this certificate only."""
        return ssl.create_default_context(cafile=self.certificate)

    def make_server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context
