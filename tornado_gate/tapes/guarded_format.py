"""The format of a taped request: it shows the request that guards have left, and whether they have changed the response."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import stages
from tornado_gate.tapes.recorder import Recorder
from tornado_gate.types import (
    BufferedBody,
    Call,
    Reply,
    Request,
    StoredObjectRequest,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
)


class Digest(stages.Step[bytes, bytes]):
    """A step that passes chunks on unchanged and keeps a digest of their bytes."""

    __slots__ = ("_hash",)

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        for item in items:
            self._hash.update(item)
        out += items

    @property
    def value(self) -> bytes:
        return self._hash.digest()


def digest_reply(reply: Reply) -> tuple[Reply, Digest]:
    """Return the reply and the digest of its chunks, which is complete when they were read."""
    digest = Digest()
    if isinstance(reply.chunks, BufferedBody):
        digest.take([reply.chunks.data], [])
        return reply, digest
    return reply.replace(chunks=stages.add_step(reply.chunks, digest)), digest


class RecordingFormat(FormatLane):
    """A lane of a format with the state of another one. `digest` is that of the last reply, before guards review it."""

    def __init__(self, lane: FormatLane, recorder: Recorder) -> None:
        self.__dict__.update(lane.__dict__)
        self._recorder = recorder
        self.digest: Digest | None = None

    def invoke(self, hook: str, kind: type | tuple[type, ...], **arguments: Any) -> Any:
        """Call a hook as `Lane.invoke`, and record the request that it gets."""
        if "wire" in arguments:
            self._recorder.note_request(arguments["wire"])
        return super().invoke(hook, kind, **arguments)

    def translate_response(self, call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
        reply, self.digest = digest_reply(super().translate_response(call, request, events))
        return reply

    def forward_response(
        self, call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse
    ) -> Reply:
        reply, self.digest = digest_reply(super().forward_response(call, request, incoming))
        return reply
