"""The webhook of a task that has ended: one signed POST, repeated until the receiver accepts it.

Headers and signature follow the Standard Webhooks specification (github.com/standard-webhooks/standard-webhooks), bodies follow
OpenAI's events ``video.completed`` and ``video.failed``, which are signed in the same way: the SDKs of both verify them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from tornado_gate.http.fetch import Fetcher, PostFailed
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.view import build_video_task
from tornado_gate.tasks.webhook_secrets import PREFIX, WebhookSecretError, WebhookSecrets
from tornado_gate.types import VideoTask

log = logging.getLogger(__name__)

MIN_SECRET_BYTES = 24
"""The minimum of the specification, which allows 24 to 64."""

ATTEMPT_SECONDS = 20.0
"""The time that a receiver may take to respond; the specification recommends 15 to 30."""
ATTEMPTS = 8
FIRST_PAUSE = 10.0
MAX_PAUSE = 1200.0
"""The maximum pause. The pauses are 10, 30, 90, 270, 810, 1200 and 1200 seconds: eight attempts in one hour."""
JITTER = 0.1
GONE = 410


class WebhookSender:
    """A sender of the webhooks of tasks, signed with the secrets of their account."""

    def __init__(self, fetcher: Fetcher, secrets: WebhookSecrets) -> None:
        self._fetcher = fetcher
        self._secrets = secrets

    def close(self) -> None:
        """Close the file of the secrets, which the next webhook opens again. Blocks on the disk."""
        self._secrets.close()

    async def send(self, record: TaskRecord) -> float | None:
        """Make one attempt. Return the seconds until the next one; None when it was delivered, or no attempt is left."""
        webhook, task = record.webhook or {}, build_video_task(record)
        body, event = build_payload(task), make_event_id(task)
        url = str(webhook.get("url"))
        try:
            secrets = await asyncio.to_thread(self._secrets.get, record.account)
        except WebhookSecretError as error:
            log.error("webhook %s cannot be signed now, will retry: %s", event, error)
        else:
            if not secrets:
                log.info("webhook %s is not sent: the webhooks of the account '%s' are off", event, record.account)
                return None
            if await deliver(self._fetcher, secrets, url, event, body, time.time, account=record.account):
                return None
        return compute_pause(int(webhook.get("attempts", 0)) + 1)

    async def is_off(self, account: str) -> bool:
        """Return whether the webhooks of this account are off; False when that cannot be read now."""
        try:
            return not await asyncio.to_thread(self._secrets.get, account)
        except WebhookSecretError as error:
            log.error("the secret of webhooks cannot be read: %s", error)
            return False


def make_event_id(task: VideoTask) -> str:
    """Return the id of the event, the same for every attempt, so that a receiver can recognise repetitions.

    It holds no full stop, which separates the parts of the signed text.
    """
    return "evt_" + hashlib.sha256(f"{task.id}\n{task.status}".encode()).hexdigest()[:32]


def build_payload(task: VideoTask) -> bytes:
    """Return the body for a task that has ended, the same bytes for every attempt. Raises ValueError for a running task.

    It contains neither the prompt nor addresses of files: the receiver requests the task by its id.
    """
    if task.status not in ("completed", "failed"):
        raise ValueError(f"{task.id} is {task.status}: it has not ended")
    data: dict[str, Any] = {
        "id": task.id,
        "object": "video",
        "status": task.status,
        "model": task.model,
        "created_at": task.created_at,
        "completed_at": task.completed_at,
        "expires_at": task.expires_at,
    }
    if task.status == "failed":
        data["error"] = {"code": task.error_code, "message": task.error_message}
    event = {
        "id": make_event_id(task),
        "object": "event",
        "type": f"video.{task.status}",
        "created_at": task.created_at if task.completed_at is None else task.completed_at,
        "data": data,
    }
    return orjson.dumps(event)


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``: a signature with each secret, between spaces.

    Raises ValueError for an invalid one.
    """
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    digests = [hmac.digest(_decode_secret(secret), signed, "sha256") for secret in secrets]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _decode_secret(secret: str) -> bytes:
    """Return the key in ``whsec_`` and base64. Raises ValueError, with a message that contains no part of the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or len(key) < MIN_SECRET_BYTES:
        raise ValueError(f"it does not contain {PREFIX} and the base64 of at least {MIN_SECRET_BYTES} bytes")
    return key


def compute_pause(attempts: int, chance: Callable[[], float] = random.random) -> float | None:
    """Return the seconds to wait after `attempts` attempts; None after the last one.

    `chance` (0 to 1) changes it by up to a tenth, so that webhooks that failed together are not repeated together.
    """
    if attempts >= ATTEMPTS:
        return None
    if attempts <= 0:
        return 0.0
    pause = min(MAX_PAUSE, FIRST_PAUSE * 3.0 ** (attempts - 1))
    return pause * (1 - JITTER + 2 * JITTER * chance())


async def deliver(
    fetcher: Fetcher,
    secrets: Sequence[str],
    url: str,
    message_id: str,
    body: bytes,
    clock: Callable[[], float],
    *,
    account: str = "",
) -> bool:
    """Make one attempt. Return True when it was the last: the receiver responded 2xx, or 410, which declines webhooks.

    `clock` returns Unix seconds. Each attempt is signed again, because receivers reject signatures that are minutes old.
    """
    timestamp = int(clock())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secrets, message_id, timestamp, body),
    }
    try:
        status = await fetcher.post(url, body, headers, seconds=ATTEMPT_SECONDS, account=account)
    except PostFailed as failed:
        log.info("webhook %s was not delivered: %s", message_id, failed)
        return False
    if status == GONE:
        log.info("webhook %s was declined: its receiver answered %d", message_id, status)
        return True
    if not 200 <= status < 300:
        log.info("webhook %s was not delivered: its receiver answered %d", message_id, status)
        return False
    return True
