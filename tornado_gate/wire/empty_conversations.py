"""The error for a conversation without content for an upstream: every vendor rejects an empty conversation."""

from __future__ import annotations

from typing import Final

from tornado_gate.errors import InvalidField

CODE: Final = "empty_conversation"


def empty_conversation_error(field: str) -> InvalidField:
    """Return the error; `field` is the caller's name of the messages."""
    return InvalidField(
        field,
        f"'{field}' has no content that this model can read: no text, no file, and thinking only of other models. Send at least "
        "one message with text or a file.",
        code=CODE,
    )
