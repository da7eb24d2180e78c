"""The relay between a caller and a provider, without a network: what it does when the caller reads slowly."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
import pytest

from tornado_gate.config.model import RealtimeConfig
from tornado_gate.errors import GateError, InvalidField
from tornado_gate.realtime.relay import Relay


class SlowCaller:
    """A connection whose peer does not read: each write returns the future that ends when it does."""

    def __init__(self) -> None:
        self.room = asyncio.get_running_loop().create_future()
        self.written: list[str] = []
        self.closed: tuple[int, str] | None = None

    def write(self, text: str) -> asyncio.Future[None]:
        self.written.append(text)
        return self.room

    def close(self, code: int, reason: str = "") -> None:
        self.closed = code, reason


class Side:
    """The caller's side of a session: it refuses every message."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def translate_client_message(self, text: str) -> list[str]:
        raise self.error

    def render_error(self, error: GateError, event_id: str) -> str:
        return orjson.dumps({"code": error.code, "event_id": event_id}).decode()


def make_relay(error: Exception, **rules: Any) -> tuple[Relay, SlowCaller]:
    caller = SlowCaller()
    side, socket = cast(Any, Side(error)), cast(Any, None)
    return Relay(side, cast(Any, caller), socket, RealtimeConfig(**rules), "request", None), caller


MESSAGES = [("{", InvalidField("", "no")), (b"x", InvalidField("", "no")), ("x" * 2000, InvalidField("", "no"))]
MESSAGES += [("{}", ValueError("unexpected"))]


@pytest.mark.qa
@pytest.mark.gen_test
@pytest.mark.parametrize(("message", "error"), MESSAGES, ids=["refused", "binary", "too long", "unexpected"])
@pytest.mark.parametrize("messages_per_second", [1000, 1])
async def test_the_next_message_waits_until_the_error_event_has_been_read(
    message: str | bytes, error: Exception, messages_per_second: int
) -> None:
    relay, caller = make_relay(error, message_bytes=1024, messages_per_second=messages_per_second)
    rest = [relay.receive(message) for _ in range(3 if messages_per_second == 1 else 1)][-1]
    assert rest is not None
    waiting = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert caller.written
    caller.room.set_result(None)
    await waiting


@pytest.mark.gen_test
async def test_an_event_id_of_any_length_is_not_sent_back_whole() -> None:
    relay, caller = make_relay(InvalidField("", "no"))
    relay.receive(orjson.dumps({"event_id": "e" * 100_000}).decode())
    assert len(caller.written[0]) < 1000


@pytest.mark.gen_test
async def test_a_session_that_is_revoked_gets_the_reason_and_1008() -> None:
    relay, caller = make_relay(InvalidField("", "no"))
    relay.revoke(GateError("The key was revoked."))
    assert caller.closed == (1008, "The key was revoked.")
    assert len(caller.written) == 1
