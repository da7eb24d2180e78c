"""Limits the memory of all large whole answers of upstreams that are being read. One budget for each process."""

from __future__ import annotations

from tornado_gate.errors import Unavailable

DEFAULT_ANSWERS_BYTES = 1024 * 1024 * 1024
RETRY_SECONDS = 5


class _Budget:
    most = DEFAULT_ANSWERS_BYTES
    held = 0


def set_answers_bytes(most: int) -> None:
    """Set conf's ``limits.answers_bytes``, at the start and after a reload."""
    _Budget.most = most


class AnswerClaim:
    """What one answer holds of the budget, in bytes."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = 0

    def grow(self, size: int) -> None:
        """Hold `size` bytes more. Raises Unavailable when all answers together would hold too much."""
        if _Budget.held + size > _Budget.most:
            raise Unavailable(
                "The gateway's limit for the answers of all requests together (limits.answers_bytes) is reached. "
                f"Retry after {RETRY_SECONDS} s.",
                code="overloaded",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        _Budget.held += size
        self._held += size

    def release(self) -> None:
        """Give everything back."""
        _Budget.held -= self._held
        self._held = 0
