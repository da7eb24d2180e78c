"""Begins the reviews of requests by guards, when it is known which model they name."""

from __future__ import annotations

from collections.abc import Sequence

from tornado_gate.guards import decisions
from tornado_gate.guards.decisions import OPERATIONS_WITHOUT_TEXTS, Review
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.types import Call, WireRequest
from tornado_gate.types.value import replace


def begin_review(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> Review | None:
    """Return the review of a request by the guards that cover it; None if there is none.

    Raises the errors of a request that names no model, or one that the key may not use, before a guard is asked.
    """
    route = wire.route
    if route.operation in OPERATIONS_WITHOUT_TEXTS:
        return None
    if route.model != "none":
        call = replace(call, model=resolve_model_name(snapshot.config.defaults, wire, call.caller))
        snapshot.targets.find_model(call.model, call.caller)
    return decisions.begin_review(gate.guarding, snapshot.guards, call, wire)


async def review_alone(
    gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest
) -> tuple[WireRequest, Sequence[str]]:
    """Return the reviewed request, for one that is explained or checked and gets no response of a model; and its losses.

    Raises as `Review`.
    """
    review = begin_review(gate, snapshot, call, wire)
    if review is None:
        return wire, ()
    return await review.review_request(wire), review.losses
