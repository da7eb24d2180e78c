"""The responses in a Redis or Valkey that several nodes share: the setting `store`.

Each response expires after `keep_seconds`, and the server removes older ones when its memory is full. While the server is away
or slow, every request is a miss. It waits at most `TIMEOUT_SECONDS`, and within `PAUSE_SECONDS` after a failure not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from typing import Any, Final

import orjson

from tornado_gate.codec.valkey_addresses import make_library_address
from tornado_gate.errors import ConfigError
from tornado_gate.streams.fair_timeouts import limit_running_time
from tornado_gate_cache.metrics import get_store_failures
from tornado_gate_cache.store import Answer

try:
    from redis import asyncio as client
    from redis.exceptions import RedisError
except ImportError as error:
    message = "needs the package 'redis': install tornado-gate-cache[redis]"
    raise ConfigError([(("store",), message)]) from error

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 0.25
PAUSE_SECONDS: Final = 2.0
CONNECTIONS: Final = 8
PREFIX: Final = "tornado-gate:cache:1:"
"""The beginning of all keys. Its number is that of the encoding."""
_FAILURES: Final = (RedisError, OSError, TimeoutError)


class SharedAnswerStore:
    """The responses of all nodes. The clock is that of the node: its time is stored for the header `Age` only.

    Responses that are being written have at most `max_bytes`. Further ones are not stored.
    """

    def __init__(self, address: str, keep_seconds: float, max_bytes: int) -> None:
        self._redis = client.Redis.from_url(
            make_library_address(address),
            # Last resorts, which count the time in which this process did not run: each command has a shorter limit.
            socket_timeout=TIMEOUT_SECONDS * 40,
            socket_connect_timeout=TIMEOUT_SECONDS * 40,
            max_connections=CONNECTIONS,
        )
        self._keep_milliseconds = max(1, int(keep_seconds * 1000))
        self._max_bytes = max_bytes
        self._pending_bytes = 0
        self._retry_at = 0.0
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> float:
        return time.time()

    async def find(self, account: str, key: bytes) -> Answer | None:
        """Return the response; None if the server has none, or cannot be used now."""
        if time.monotonic() < self._retry_at:
            get_store_failures().inc()
            return None
        value: Any
        try:
            async with limit_running_time(TIMEOUT_SECONDS):
                value = await self._redis.get(_make_name(account, key))
        except _FAILURES as error:
            self._note_failure(error)
            return None
        return None if value is None else _decode(value)

    def add(self, account: str, key: bytes, answer: Answer) -> None:
        """Store a response in the background, or drop it while the server is away or has too many to write."""
        if time.monotonic() < self._retry_at or self._pending_bytes + answer.size > self._max_bytes:
            get_store_failures().inc()
            return
        self._pending_bytes += answer.size
        task = asyncio.get_running_loop().create_task(self._write(_make_name(account, key), answer))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _write(self, name: str, answer: Answer) -> None:
        try:
            async with limit_running_time(TIMEOUT_SECONDS * 2):
                await self._redis.set(name, _encode(answer), px=self._keep_milliseconds)
        except _FAILURES as error:
            self._note_failure(error)
        finally:
            self._pending_bytes -= answer.size

    def _note_failure(self, error: Exception) -> None:
        get_store_failures().inc()
        now = time.monotonic()
        if now >= self._retry_at:
            log.warning("the store of the cache cannot be used, requests are misses: %s", type(error).__name__)
        self._retry_at = now + PAUSE_SECONDS


def _make_name(account: str, key: bytes) -> str:
    owner = hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{PREFIX}{owner}:{key.hex()}"


def _encode(answer: Answer) -> bytes:
    """Return a line of JSON with the headers and the time, then the body. Headers that are not UTF-8 are left out."""
    headers = {name: value for name, value in answer.headers.items() if _is_text(name) and _is_text(value)}
    return orjson.dumps({"headers": headers, "stored": answer.stored}) + b"\n" + answer.body


def _is_text(value: Any) -> bool:
    """Return whether a value is a text without lone surrogates, which stand for bytes that are not UTF-8."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _decode(value: bytes) -> Answer | None:
    """Return the response of `_encode`; None for other values."""
    line, newline, body = value.partition(b"\n")
    try:
        head: Any = orjson.loads(line)
        headers, stored = head["headers"], head["stored"]
    except (ValueError, TypeError, KeyError):
        return None
    is_valid = newline and isinstance(headers, dict) and isinstance(stored, int | float)
    is_valid = is_valid and all(isinstance(header, str) for header in headers.values())
    return Answer(body, headers, float(stored)) if is_valid else None
