"""Which rows of the ledger count as requests: those that made something, or that were refused or failed instead.

Polls of a video, lists of models, explanations, token counts and reads of stored objects are rows too. Reports count them apart,
because they would dilute error rates. A video counts once, by the row of its task.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Table, and_, or_

MAKING: Final = (
    *("chat", "embeddings", "moderation", "images", "image_edits", "speech", "transcription", "realtime"),
    "video_tasks",
)
"""The operations of requests that make something."""
STARTING: Final = "videos"
"""The operation of requests that start, read or list videos. One that fails for a model has started none."""
_FAILED: Final = 400
_MISSING: Final = 404


def counts_as_request(operation: str, model: str, status: int) -> bool:
    """Return whether a row counts as a request. `model` is the requested name, "" for a route without a model."""
    if operation == STARTING:
        return bool(model) and status >= _FAILED
    return operation in MAKING and (bool(model) or (status >= _FAILED and status != _MISSING))


def select_counted(table: Table) -> ColumnElement[bool]:
    """Return the condition of `counts_as_request` for a table with these columns."""
    operation, status = table.c.operation, table.c.status
    has_model = table.c.model != ""
    failed = and_(status >= _FAILED, status != _MISSING)
    return or_(
        and_(operation.in_(MAKING), or_(has_model, failed)),
        and_(operation == STARTING, has_model, status >= _FAILED),
    )
