"""The operations of the embedded provider beyond chat: one module each, from the common request to its stream events.

Each has a ``prepare(call, request)``, which makes the cheap checks, reports unsupported fields and returns an
`OperationWork`: the work runs while its events are read, so that timeouts apply and a closed connection stops it.
Media are another distribution's operations, see `tornado_gate_local.media`.
"""

from __future__ import annotations

from tornado_gate.types import Call, EmbeddingRequest, ModerationRequest, Request
from tornado_gate_local.operations import embeddings
from tornado_gate_local.operations.work import OperationWork


def prepare(call: Call, request: Request) -> OperationWork | None:
    """The prepared work of a request; None for an operation that is not served. Raises InvalidField."""
    match request:
        case EmbeddingRequest():
            return embeddings.prepare(call, request)
        case ModerationRequest():
            from tornado_gate_local.operations import moderation  # compiles a hundred patterns

            return moderation.prepare(call, request)
    return None
