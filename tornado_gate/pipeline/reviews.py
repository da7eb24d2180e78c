"""The start of guards' reviews of requests, after the model of the request is known."""

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
    """Return the review of a request by the guards that cover it, or None if no guard does.

    Before a guard runs, raises the error for a missing model or for a model that the key may not use.
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
    """Return the reviewed request and its losses. The request is only explained or checked, so no model responds.

    Raises the errors of `Review`.
    """
    review = begin_review(gate, snapshot, call, wire)
    if review is None:
        return wire, ()
    return await review.review_request(wire), review.losses
