"""The recording of a response while it passes. It is stored when its request has ended completely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tornado_gate.streams.stages import Step
from tornado_gate.types import Call, RequestEnd
from tornado_gate_cache.metrics import get_metrics
from tornado_gate_cache.store import Answer, AnswerStore

if TYPE_CHECKING:
    from tornado_gate_cache.shared_store import SharedAnswerStore


class Recording:
    """The body of one response. The memory of all recordings is bounded; a recording that exceeds a bound is dropped.

    A complete response goes to `shared_store` if there is one, else to `store`, which also counts the memory.
    """

    def __init__(
        self,
        store: AnswerStore,
        call: Call,
        key: bytes,
        headers: Mapping[str, str],
        answer_bytes: int,
        shared_store: SharedAnswerStore | None = None,
    ) -> None:
        self._store = store
        self._shared_store = shared_store
        self._account = call.caller.account
        self._key = key
        self._headers = headers
        self._answer_bytes = answer_bytes
        self._attempt = call.progress.attempts
        self._body: bytearray | None = bytearray()
        self._reserved = 0

    def add(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            if self._body is None:
                return
            if len(self._body) + len(piece) > self._answer_bytes or not self._store.reserve(len(piece)):
                self._give_up()
                return
            self._reserved += len(piece)
            self._body += piece

    def end(self, ended: RequestEnd) -> None:
        """Store the response if its attempt has completely served the caller."""
        body = self._body
        self._give_up()
        if body is None or ended.outcome != "complete" or ended.call.progress.attempts != self._attempt:
            return
        if self._shared_store is not None:
            answer = Answer(bytes(body), self._headers, self._shared_store.now)
            self._shared_store.add(self._account, self._key, answer)
            return
        self._store.add(self._account, self._key, Answer(bytes(body), self._headers, self._store.now))
        metrics = get_metrics()
        metrics.size.set(self._store.total_bytes)
        metrics.entries.set(self._store.entries)

    def _give_up(self) -> None:
        self._body = None
        self._store.release(self._reserved)
        self._reserved = 0


class RecordStep(Step[bytes, bytes]):
    """A step that passes on the chunks of a response and records them."""

    __slots__ = ("_recording",)

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        self._recording.add(items)
        out += items
