"""The recording of realtime sessions: both sides of the relay, which writes and reads as without a tape."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tornado_gate.tapes.recorder import Recorder
from tornado_gate.telemetry.redaction import SecretMask
from tornado_gate.types import RealtimeDialect, Socket


class RecordedSocket:
    """A `Socket` to an upstream that tells a recorder its messages."""

    def __init__(self, socket: Socket, recorder: Recorder, mask: SecretMask | None) -> None:
        self._socket = socket
        self._recorder = recorder
        self._mask = mask

    @property
    def dialect(self) -> RealtimeDialect:
        return self._socket.dialect

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    @property
    def close_reason(self) -> str:
        return self._socket.close_reason

    async def send(self, text: str) -> None:
        self._recorder.note_data("upstream_sent", text.encode(), self._mask)
        await self._socket.send(text)

    async def receive(self) -> str | None:
        text = await self._socket.receive()
        if text is None:
            self._recorder.note("upstream_close", code=self.close_code)
        else:
            self._recorder.note_data("upstream_message", text.encode(), self._mask)
        return text

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._socket.close(code, reason)


class RecordedCaller:
    """The connection of a caller that tells a recorder the messages that it gets. Everything else is that of the connection."""

    def __init__(self, connection: Any, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def write(self, text: str) -> Awaitable[object] | None:
        self._recorder.note_data("answer_message", text.encode())
        written: Awaitable[object] | None = self._connection.write(text)
        return written

    def close(self, code: int, reason: str = "") -> None:
        self._recorder.note("answer_close", code=code)
        self._connection.close(code, reason)
