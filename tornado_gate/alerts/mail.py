"""One mail by SMTP, with the standard library, in a thread of its own. The connection goes to a checked address only."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

from tornado_gate.alerts.values import SendFailed
from tornado_gate.config.alerting import SinkConfig

STEP_SECONDS: Final = 10.0
MAIL_SECONDS: Final = 30.0
"""The time for a whole mail. Then the connection is closed, whatever the server does."""


class _Client(smtplib.SMTP):
    """A client that connects to `addresses`. `host` is the name that certificates must have."""

    def __init__(self, host: str, addresses: Sequence[str]) -> None:
        self.addresses = addresses
        super().__init__(timeout=STEP_SECONDS)
        self._host = host

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        for number, address in enumerate(self.addresses, 1):
            try:
                return socket.create_connection((address, port), timeout)
            except OSError:
                if number == len(self.addresses):
                    raise
        raise OSError("the mail server has no address")


class _TlsClient(smtplib.SMTP_SSL, _Client):
    """The same over TLS from the first byte."""

    def __init__(self, host: str, addresses: Sequence[str], context: ssl.SSLContext) -> None:
        self.addresses = addresses
        smtplib.SMTP_SSL.__init__(self, timeout=STEP_SECONDS, context=context)
        self._host = host


async def send_mail(sink: SinkConfig, addresses: Sequence[str], subject: str, text: str, identity: str) -> None:
    """Send a mail. `addresses` are the checked addresses of ``sink.host``. Raises SendFailed."""
    message = make_message(sink, subject, text, identity)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    mail = _Mail(sink, addresses, message)
    loop = asyncio.get_running_loop()

    def work() -> None:
        error = mail.send()
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(finish, error)

    def finish(error: SendFailed | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    threading.Thread(target=work, name="mail", daemon=True).start()
    try:
        async with asyncio.timeout(MAIL_SECONDS):
            await done
    except TimeoutError:
        raise SendFailed(f"The mail server did not accept the mail within {MAIL_SECONDS:g} s.") from None
    finally:
        mail.abort()


def make_message(sink: SinkConfig, subject: str, text: str, identity: str) -> EmailMessage:
    """Return a mail. Its id is the same for each attempt, so mail servers recognise repetitions."""
    message = EmailMessage()
    message["Subject"] = " ".join(subject.split())
    message["From"] = sink.sender
    message["To"] = ", ".join(sink.recipients)
    message["Date"] = formatdate()
    message["Message-ID"] = f"<{identity}@{sink.sender.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    return message


class _Mail:
    """One mail and its connection, which `abort` closes from another thread."""

    def __init__(self, sink: SinkConfig, addresses: Sequence[str], message: EmailMessage) -> None:
        self._sink = sink
        self._addresses = addresses
        self._message = message
        self._client: smtplib.SMTP | None = None

    def abort(self) -> None:
        client = self._client
        sock = client.sock if client is not None else None
        if sock is not None:
            with suppress(OSError):  # it is closed already
                sock.shutdown(socket.SHUT_RDWR)

    def send(self) -> SendFailed | None:
        """Send the mail. Return the error, if there is one. Blocks."""
        try:
            self._exchange()
        except smtplib.SMTPAuthenticationError:
            return SendFailed("The mail server refuses the login: check username and password of the sink.")
        except smtplib.SMTPNotSupportedError:
            return SendFailed("The mail server offers no STARTTLS, or no login: check `security` of the sink.")
        except smtplib.SMTPResponseException as error:
            return SendFailed(f"The mail server answered {error.smtp_code}.")
        except smtplib.SMTPRecipientsRefused:
            return SendFailed("The mail server refuses all recipients: check `to` and `from` of the sink.")
        except ssl.SSLCertVerificationError:
            return SendFailed("The certificate of the mail server is not valid for its name.")
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return SendFailed(f"The mail server cannot be used: {type(error).__name__}. Check host, port and security.")
        return None

    def _exchange(self) -> None:
        sink, context = self._sink, ssl.create_default_context()
        is_tls = sink.security == "tls"
        client = _TlsClient(sink.host, self._addresses, context) if is_tls else _Client(sink.host, self._addresses)
        self._client = client
        code, _ = client.connect(sink.host, sink.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, "")
        with client:
            if sink.security == "starttls":
                client.starttls(context=context)
            if sink.username:
                client.login(sink.username, sink.password)
            client.send_message(self._message)
