"""The maximum size of one event of an upstream's stream. One bound for each process: parsers of plugins know no conf."""

from __future__ import annotations

from tornado_gate.errors import UpstreamError

DEFAULT_EVENT_BYTES = 16 * 1024 * 1024


class _Bound:
    most = DEFAULT_EVENT_BYTES


def set_event_bytes(most: int) -> None:
    """Set conf's ``limits.event_bytes``, at the start and after a reload."""
    _Bound.most = most


def check_event_size(size: int) -> None:
    """Raise UpstreamError for an event, or the beginning of one, that is too large."""
    if size > _Bound.most:
        raise UpstreamError(
            f"The upstream sent a stream event above the limit of {_Bound.most} bytes (limits.event_bytes).",
            code="upstream_event_too_large",
        )
