"""The verbatim lane's streams, for formats: whole frames as they came, and one ending, whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import stages


class Watch(Protocol):
    """Notes what frames say in passing."""

    @property
    def finished(self) -> bool:
        """The answer has ended well."""

    @property
    def done(self) -> bool:
        """Nothing may follow: the end itself has passed, or an error."""


class Frames(Protocol):
    """Chooses, of the frames that each chunk of the upstream completes, those that the caller gets."""

    @property
    def watch(self) -> Watch: ...

    def feed(self, chunk: bytes) -> bytes:
        """What the caller gets for `chunk`. Raises the error that the first frame with data may be."""

    def finish(self) -> bytes:
        """What the caller gets at the end."""


def forwarded(
    chunks: AsyncIterator[bytes], frames: Frames, ending: Callable[[GateError | None], bytes]
) -> AsyncIterator[bytes]:
    """The frames of an upstream's stream; after the first of them every failure is a frame, and nothing follows it.

    `ending` gives the frames that end a stream which broke off with an error, or one that ended well without saying so (None).
    """
    return stages.then(chunks, _Forwarded(frames, ending))


class _Forwarded(stages.Step[bytes, bytes]):
    __slots__ = ("_begun", "_ending", "_frames")

    def __init__(self, frames: Frames, ending: Callable[[GateError | None], bytes]) -> None:
        self._frames = frames
        self._ending = ending
        self._begun = False

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        feed = self._frames.feed
        for chunk in items:
            if ready := feed(chunk):
                self._begun = True
                out.append(ready)

    def end(self, out: list[bytes]) -> None:
        watch = self._frames.watch
        if ready := self._frames.finish():
            self._begun = True
            out.append(ready)
        if watch.done:
            return
        if not watch.finished:
            raise UpstreamError("The upstream's stream stopped before its end.")
        if last := self._ending(None):
            out.append(last)

    def fail(self, error: GateError) -> list[bytes] | GateError:
        if not self._begun:
            return error
        return [] if self._frames.watch.done else [self._ending(error)]
