"""One attempt to send a message to a sink."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from tornado_gate.alerts import texts
from tornado_gate.alerts.values import Notice, SendFailed
from tornado_gate.config.alerting import SinkConfig
from tornado_gate.http.fetch import Fetcher, PostFailed
from tornado_gate.tasks.webhook_sender import sign

POST_SECONDS: Final = 15.0


async def send(fetcher: Fetcher, sink: SinkConfig, notice: Notice, public_url: str) -> None:
    """Send a message. Raises SendFailed.

    The sink's host is from conf, so it may be in a private network; the metadata services of clouds stay blocked.
    """
    if sink.type == "email":
        await _send_mail(fetcher, sink, notice, public_url)
    else:
        await _post(fetcher, sink, notice, public_url)


async def send_test(fetcher: Fetcher, sinks: Iterable[SinkConfig], public_url: str) -> Mapping[str, str]:
    """Send a test to each sink. Return the error of each, "" for success."""
    notice = texts.make_test_notice(secrets.token_hex(6), time.time())

    async def send_one(sink: SinkConfig) -> tuple[str, str]:
        try:
            await send(fetcher, sink, notice, public_url)
        except SendFailed as failed:
            return sink.name, str(failed)
        return sink.name, ""

    return dict(await asyncio.gather(*(send_one(sink) for sink in sinks)))


async def _send_mail(fetcher: Fetcher, sink: SinkConfig, notice: Notice, public_url: str) -> None:
    from tornado_gate.alerts.mail import send_mail

    try:
        addresses = await fetcher.resolve_own_host(sink.host, sink.port)
    except PostFailed as failed:
        raise SendFailed(str(failed)) from None
    subject, text = texts.make_subject(notice), texts.make_text(notice, public_url)
    await send_mail(sink, [str(address) for address in addresses], subject, text, notice.id)


async def _post(fetcher: Fetcher, sink: SinkConfig, notice: Notice, public_url: str) -> None:
    headers = {"Content-Type": "application/json"}
    if sink.type == "slack":
        body = texts.render_slack(notice, public_url)
    elif sink.type == "teams":
        body = texts.render_teams(notice, public_url)
    else:
        body, timestamp = texts.render_webhook(notice), int(time.time())
        headers |= {"webhook-id": notice.id, "webhook-timestamp": str(timestamp)}
        if sink.secret:
            headers["webhook-signature"] = sign([sink.secret], notice.id, timestamp, body)
    own_host = urlsplit(sink.url).netloc
    try:
        status = await fetcher.post(sink.url, body, headers, seconds=POST_SECONDS, own_host=own_host)
    except PostFailed as failed:
        raise SendFailed(str(failed)) from None
    if not 200 <= status < 300:
        raise SendFailed(f"The receiver answered {status}.")
