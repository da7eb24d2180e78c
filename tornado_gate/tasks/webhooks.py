"""Whoever asked for a video is told when it has ended: one signed POST, repeated until it is taken.

Headers and signature are those of the Standard Webhooks specification (github.com/standard-webhooks/standard-webhooks), bodies
those of OpenAI's events ``video.completed`` and ``video.failed``, which are signed in the same way: the SDKs of both verify them.
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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from tornado_gate.http.fetch import Fetcher, PostFailed
from tornado_gate.types import VideoTask

log = logging.getLogger(__name__)

SECRET_FILE = "webhook.secret"
SECRET_BYTES = 32
LEAST_SECRET_BYTES = 24
"""Of the specification, which allows 24 to 64."""
PREFIX = "whsec_"

ATTEMPT_SECONDS = 20.0
"""How long a receiver may take to answer; the specification recommends 15 to 30."""
ATTEMPTS = 8
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 1200.0
"""Pauses of 10, 30, 90, 270, 810, 1200 and 1200 seconds: eight attempts in one hour."""
JITTER = 0.1
GONE = 410


def event_id(task: VideoTask) -> str:
    """The same for every attempt, so that a receiver can tell what it has seen; without a full stop, which would let one part
    of what is signed pass for another."""
    return "evt_" + hashlib.sha256(f"{task.id}\n{task.status}".encode()).hexdigest()[:32]


def payload(task: VideoTask) -> bytes:
    """What is posted for a task that has ended; the same bytes each time. Raises ValueError for one that has not.

    It is small, and repeats neither the prompt nor addresses of files: who receives it asks for the task by its id.
    """
    if task.status not in ("completed", "failed"):
        raise ValueError(f"{task.id} is {task.status}: there is nothing to tell yet")
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
        "id": event_id(task),
        "object": "event",
        "type": f"video.{task.status}",
        "created_at": task.created_at if task.completed_at is None else task.completed_at,
        "data": data,
    }
    return orjson.dumps(event)


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``. Raises ValueError for a secret that is none."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    """The bytes of ``whsec_`` and base64. Raises ValueError, with a message that holds nothing of the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or len(key) < LEAST_SECRET_BYTES:
        raise ValueError(f"it does not hold {PREFIX} and the base64 of at least {LEAST_SECRET_BYTES} bytes")
    return key


def next_attempt(attempts: int, chance: Callable[[], float] = random.random) -> float | None:
    """How many seconds to wait after so many attempts, None when it is enough. `chance` (0 to 1) moves it by up to a tenth: many
    that failed together do not come back together."""
    if attempts >= ATTEMPTS:
        return None
    if attempts <= 0:
        return 0.0
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 3.0 ** (attempts - 1))
    return pause * (1 - JITTER + 2 * JITTER * chance())


async def deliver(
    fetcher: Fetcher, secret: str, url: str, message_id: str, body: bytes, clock: Callable[[], float]
) -> bool:
    """One attempt; whether it was the last that is needed: the receiver took it (2xx), or wants no more of them (410).

    `clock` gives Unix seconds. Each attempt is signed anew, because receivers refuse what was signed minutes ago.
    """
    timestamp = int(clock())
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message_id, timestamp, body),
    }
    try:
        status = await fetcher.post(url, body, headers, seconds=ATTEMPT_SECONDS)
    except PostFailed as failed:
        log.info("webhook %s was not delivered: %s", message_id, failed)
        return False
    if status == GONE:
        log.info("webhook %s is not wanted: its receiver answered %d", message_id, status)
        return True
    if not 200 <= status < 300:
        log.info("webhook %s was not taken: its receiver answered %d", message_id, status)
        return False
    return True


def webhook_secret(data_dir: Path) -> str:
    """What webhooks are signed with, as receivers are given it: made once, shared by processes, readable by its owner only.

    An operator may put another in the file. Where it cannot be read or kept, it is one that dies with the process, and the
    log says so. Waits for the disk.
    """
    path = data_dir / SECRET_FILE
    try:
        with suppress(FileNotFoundError):
            if found := path.read_text("ascii").strip():
                return _checked(found)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600), "r+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may be here, or was, a moment ago
            found = file.read().strip()
            if not found:
                found = _new_secret()
                file.seek(0)
                file.write(found + "\n")
            return _checked(found)
    except (OSError, ValueError) as error:
        log.error("%s cannot be used: %s. Receivers cannot verify the webhooks of this process.", path, error)
        return _new_secret()


def _checked(secret: str) -> str:
    _key(secret)
    return secret


def _new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
