"""Mails to a real SMTP server: STARTTLS, TLS from the first byte, a login, and what it refuses."""

from __future__ import annotations

import asyncio
import email
import socket
import ssl
from collections.abc import Iterator
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.tls import CertificateFiles
from tornado_gate.alerts import mail
from tornado_gate.alerts.sending import send
from tornado_gate.alerts.values import Notice, SendFailed
from tornado_gate.config.alerting import SinkConfig
from tornado_gate.config.model import FetchRules
from tornado_gate.http.fetch import Fetcher

NOTICE = Notice(
    id="alert_1_raised", phase="raised", kind="spool", severity="critical", title="Plátanos", message="why", moment=0.0
)
PASSWORD = "a long password"


class Mailbox:
    """The mails that a server has received. `replies` are its answers to the end of a mail, 250 when none is left."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.replies: list[str] = []

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        if self.replies:
            return self.replies.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.append((envelope.mail_from, envelope.rcpt_tos, email.message_from_bytes(content, policy=default)))
        return "250 taken"


def check_login(_server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    assert mechanism in ("LOGIN", "PLAIN")
    assert isinstance(data, LoginPassword)
    return AuthResult(success=data == LoginPassword(b"gate", PASSWORD.encode()), handled=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles.write(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusted(certificate: CertificateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))


@pytest.fixture
def box() -> Mailbox:
    return Mailbox()


class MailServer(Controller):
    """A server on a free port. Its base class connects once to the port that it was given, which is 0."""

    @property
    def address(self) -> tuple[str, int]:
        assert self.server is not None
        host, port = self.server.sockets[0].getsockname()
        return host, port

    def _trigger_server(self) -> None:
        with socket.create_connection(self.address) as client:
            if self.ssl_context is None:
                client.recv(1024)
                return
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(client) as wrapped:
                wrapped.recv(1024)


def serve(box: Mailbox, **settings: Any) -> Iterator[int]:
    controller = MailServer(box, hostname="127.0.0.1", port=0, ready_timeout=30, **settings)
    controller.start()
    yield controller.address[1]
    controller.stop()


@pytest.fixture
def starttls_port(box: Mailbox, certificate: CertificateFiles) -> Iterator[int]:
    context = certificate.make_server_context()
    login = {"auth_required": True, "authenticator": check_login}
    yield from serve(box, tls_context=context, require_starttls=True, **login)


@pytest.fixture
def plain_port(box: Mailbox) -> Iterator[int]:
    yield from serve(box)


def make_sink(port: int, **changes: Any) -> SinkConfig:
    values = {
        "host": "localhost",
        "port": port,
        "sender": "gate@example.org",
        "recipients": ("a@example.org", "b@example.org"),
    }
    return SinkConfig(**{"name": "mail", "type": "email", **values, **changes})


async def send_notice(sink: SinkConfig) -> None:
    fetcher = Fetcher(FetchRules(), resolve=lambda _name, _port: ["127.0.0.1"])
    try:
        await send(fetcher, sink, NOTICE, "https://gate.example")
    finally:
        await fetcher.close()


@pytest.mark.usefixtures("trusted")
def test_a_mail_arrives_over_starttls_with_a_login(starttls_port: int, box: Mailbox) -> None:
    asyncio.run(send_notice(make_sink(starttls_port, username="gate", password=PASSWORD)))
    ((sender, recipients, message),) = box.mails
    assert (sender, recipients) == ("gate@example.org", ["a@example.org", "b@example.org"])
    assert message["Subject"] == "[Critical] Plátanos"
    assert message["Message-ID"] == "<alert_1_raised@example.org>"
    assert message.get_content().splitlines()[0] == "why"
    assert "https://gate.example/console/alerts" in message.get_content()


@pytest.mark.usefixtures("trusted")
def test_a_mail_arrives_over_tls_from_the_first_byte(certificate: CertificateFiles, box: Mailbox) -> None:
    for port in serve(box, ssl_context=certificate.make_server_context()):
        asyncio.run(send_notice(make_sink(port, security="tls")))
    assert len(box.mails) == 1


def test_a_mail_without_encryption_arrives_if_conf_says_so(plain_port: int, box: Mailbox) -> None:
    asyncio.run(send_notice(make_sink(plain_port, security="none")))
    assert len(box.mails) == 1


@pytest.mark.usefixtures("trusted")
def test_a_wrong_password_says_what_to_check_and_does_not_show_it(starttls_port: int, box: Mailbox) -> None:
    with pytest.raises(SendFailed, match="refuses the login: check username and password") as raised:
        asyncio.run(send_notice(make_sink(starttls_port, username="gate", password="wrong password")))
    assert "wrong password" not in str(raised.value)
    assert box.mails == []


def test_an_untrusted_certificate_and_a_server_without_starttls_are_refused(
    starttls_port: int, plain_port: int, box: Mailbox
) -> None:
    with pytest.raises(SendFailed, match="certificate of the mail server"):
        asyncio.run(send_notice(make_sink(starttls_port)))
    with pytest.raises(SendFailed, match="offers no STARTTLS"):
        asyncio.run(send_notice(make_sink(plain_port)))
    assert box.mails == []


def test_a_refusal_names_its_code_and_a_closed_port_its_settings(plain_port: int, box: Mailbox) -> None:
    box.replies = ["451 later"]
    with pytest.raises(SendFailed, match="The mail server answered 451"):
        asyncio.run(send_notice(make_sink(plain_port, security="none")))
    with pytest.raises(SendFailed, match="Check host, port and security"):
        asyncio.run(send_notice(make_sink(9, security="none")))


def test_a_server_that_never_answers_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "MAIL_SECONDS", 0.3)

    async def run() -> None:
        server = await asyncio.start_server(lambda reader, _writer: reader.read(), "127.0.0.1", 0)
        async with server:
            with pytest.raises(SendFailed, match=r"within 0\.3 s"):
                await send_notice(make_sink(server.sockets[0].getsockname()[1]))

    asyncio.run(run())


def test_the_metadata_service_of_a_cloud_is_no_mail_server() -> None:
    async def run() -> None:
        fetcher = Fetcher(FetchRules(), resolve=lambda _name, _port: ["169.254.169.254"])
        with pytest.raises(SendFailed, match="not on the public internet"):
            await send(fetcher, make_sink(25), NOTICE, "")
        await fetcher.close()

    asyncio.run(run())


def test_a_title_with_line_breaks_adds_no_header(tmp_path: Path) -> None:
    message = mail.make_message(make_sink(25), "a\r\nBcc: victim@example.org", "text", "alert_1")
    assert message["Subject"] == "a Bcc: victim@example.org"
    assert message["Bcc"] is None
