"""What the vendor answers to a request that it does not accept."""

from __future__ import annotations

from typing import NoReturn


class Refusal(Exception):
    """A 400 ``invalid_request_error``; the text is the vendor's message, as users quote it in public issues."""


def refuse(message: str) -> NoReturn:
    """Raise a `Refusal` with this message."""
    raise Refusal(message)
