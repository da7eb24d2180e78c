"""Sends the webhook of a task that has ended: one signed POST, repeated until the receiver accepts it.

Headers and signature follow the Standard Webhooks specification (github.com/standard-webhooks/standard-webhooks), bodies follow
OpenAI's events ``video.completed`` and ``video.failed``, which are signed in the same way: the SDKs of both verify them.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import logging
import os
import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tornado_gate.http.fetch import Fetcher, PostFailed
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.view import build_video_task
from tornado_gate.types import VideoTask

log = logging.getLogger(__name__)

SECRET_FILE = "webhook.secret"
SECRET_BYTES = 32
MIN_SECRET_BYTES = 24
"""Of the specification, which allows 24 to 64."""
PREFIX = "whsec_"

ATTEMPT_SECONDS = 20.0
"""How long a receiver may take to answer; the specification recommends 15 to 30."""
ATTEMPTS = 8
FIRST_PAUSE = 10.0
MAX_PAUSE = 1200.0
"""Pauses of 10, 30, 90, 270, 810, 1200 and 1200 seconds: eight attempts in one hour."""
JITTER = 0.1
GONE = 410


class WebhookSender:
    """Sends the webhooks of tasks, signed with `secret`."""

    def __init__(self, fetcher: Fetcher, secret: str) -> None:
        self._fetcher = fetcher
        self._secret = secret

    async def send(self, record: TaskRecord) -> float | None:
        """Make one attempt. Returns the seconds until the next one; None when it was delivered or given up."""
        webhook, task = record.webhook or {}, build_video_task(record)
        body, event = build_payload(task), make_event_id(task)
        if await deliver(self._fetcher, self._secret, str(webhook.get("url")), event, body, time.time):
            return None
        return compute_pause(int(webhook.get("attempts", 0)) + 1)


def make_event_id(task: VideoTask) -> str:
    """The id of the event, the same for every attempt, so that a receiver can recognise repetitions.

    It holds no full stop, which separates the parts of what is signed.
    """
    return "evt_" + hashlib.sha256(f"{task.id}\n{task.status}".encode()).hexdigest()[:32]


def build_payload(task: VideoTask) -> bytes:
    """The body for a task that has ended; the same bytes for every attempt. Raises ValueError for one that has not ended.

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


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``. Raises ValueError for an invalid secret."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(_decode_secret(secret), signed, hashlib.sha256).digest()).decode()


def _decode_secret(secret: str) -> bytes:
    """The key in ``whsec_`` and base64. Raises ValueError, with a message that contains no part of the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or len(key) < MIN_SECRET_BYTES:
        raise ValueError(f"it does not contain {PREFIX} and the base64 of at least {MIN_SECRET_BYTES} bytes")
    return key


def compute_pause(attempts: int, chance: Callable[[], float] = random.random) -> float | None:
    """Seconds to wait after `attempts` attempts; None when no more are made.

    `chance` (0 to 1) changes it by up to a tenth, so that webhooks that failed together are not repeated together.
    """
    if attempts >= ATTEMPTS:
        return None
    if attempts <= 0:
        return 0.0
    pause = min(MAX_PAUSE, FIRST_PAUSE * 3.0 ** (attempts - 1))
    return pause * (1 - JITTER + 2 * JITTER * chance())


async def deliver(
    fetcher: Fetcher, secret: str, url: str, message_id: str, body: bytes, clock: Callable[[], float]
) -> bool:
    """Make one attempt. Returns True when no other is needed: the receiver answered 2xx, or 410, which declines them.

    `clock` returns Unix seconds. Each attempt is signed anew, because receivers reject signatures that are minutes old.
    """
    timestamp = int(clock())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }
    try:
        status = await fetcher.post(url, body, headers, seconds=ATTEMPT_SECONDS)
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


def load_webhook_secret(data_dir: Path) -> str:
    """The secret that webhooks are signed with: created once, shared by processes, readable by its owner only.

    An operator may put another one in the file. If the file cannot be read or written, the secret is valid for this process
    only, and the log says so. Blocks on the disk.
    """
    path = data_dir / SECRET_FILE
    try:
        with suppress(FileNotFoundError):
            if found := path.read_text("ascii").strip():
                return _check_secret(found)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600), "r+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may write it at the same time
            found = file.read().strip()
            if not found:
                found = _make_secret()
                file.seek(0)
                file.write(found + "\n")
            return _check_secret(found)
    except (OSError, ValueError) as error:
        log.error("%s cannot be used: %s. Receivers cannot verify the webhooks of this process.", path, error)
        return _make_secret()


def _check_secret(secret: str) -> str:
    _decode_secret(secret)
    return secret


def _make_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
