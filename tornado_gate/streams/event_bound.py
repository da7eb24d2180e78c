"""The maximum size of one event of an upstream's stream, and the memory of incomplete events.

Each process has one maximum, because parsers of plugins do not read conf.
"""

from __future__ import annotations

from tornado_gate.errors import UpstreamError
from tornado_gate.types.wire import UNCOUNTED_BYTES, ResponseReader

DEFAULT_EVENT_BYTES = 16 * 1024 * 1024


class _Bound:
    most = DEFAULT_EVENT_BYTES


def set_event_bytes(most: int) -> None:
    """Set conf's ``limits.event_bytes``, at the start and after a reload."""
    _Bound.most = most


def check_event_size(size: int) -> None:
    """Raise UpstreamError for an event, or its beginning, that is too large."""
    if size > _Bound.most:
        raise UpstreamError(
            f"The upstream sent a stream event above the limit of {_Bound.most} bytes (limits.event_bytes).",
            code="upstream_event_too_large",
        )


class HeldEvent:
    """The beginning of an event that a parser keeps until it is complete.

    A large one counts as a large response does, in `reader`; without it only its size is limited.
    """

    __slots__ = ("_counted", "reader")

    def __init__(self, reader: ResponseReader | None = None) -> None:
        self.reader = reader
        self._counted = 0

    def check(self, size: int) -> None:
        """Count the `size` bytes that the parser keeps now.

        Raises UpstreamError for too large an event, Unavailable for too many large ones.
        """
        check_event_size(size)
        reader = self.reader
        if reader is None:
            return
        if size < self._counted:
            counted, self._counted = self._counted, 0
            reader.release(counted)
        if size > UNCOUNTED_BYTES:
            reader.hold(size - self._counted)
            self._counted = size
