"""Token counts for models whose upstreams cannot count tokens. The gateway estimates them and marks this in a header."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tornado_gate.errors import UnsupportedOperation
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.targets.table import TargetTable
from tornado_gate.types import Call, Reply, Request, TokenCount
from tornado_gate.types.value import replace

ESTIMATE_HEADERS: Final = {"X-Gate-Estimate": "input_tokens"}
"""The header that tells the caller which value of the response is an estimate."""


def must_estimate(targets: TargetTable, call: Call) -> bool:
    """Return whether `call` requests a token count that no target of its model offers, although a target answers chats.

    Raises the errors of `TargetTable.select_targets`: UnsupportedOperation for a model without chat.
    """
    if call.operation != "count_tokens":
        return False
    try:
        targets.select_targets(call, ("count_tokens",))
    except UnsupportedOperation:
        targets.select_targets(call, ("chat",))
        return True
    return False


def reply_with_estimate(call: Call, wire_format: FormatLane, request: Request, tokens: int) -> Reply:
    """Return the reply to `request`, a token count, with the estimate `tokens`, which is at least 1."""
    reply = wire_format.translate_response(call, request, _iterate_count(max(1, tokens)))
    return replace(reply, headers={**reply.headers, **ESTIMATE_HEADERS})


async def _iterate_count(tokens: int) -> AsyncIterator[TokenCount]:
    yield TokenCount(input_tokens=tokens)
