"""The reviews of requests by guards, after the model of the request is known, and of their responses."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from tornado_gate.errors import BlockedByGuard, GateError
from tornado_gate.guards import decisions
from tornado_gate.guards.decisions import OPERATIONS_WITHOUT_TEXTS, Review
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.guarded_replies import review_reply
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams.pausable import complete
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


async def answer_with_review(
    gate: Gate, review: Review, wire_format: FormatLane, making: Awaitable[PreparedAnswer | MediaFile]
) -> PreparedAnswer | MediaFile:
    """Return the result of `making`, which reviews the request and gets the response, after the review of the response.

    Raises the errors of `making` and of `review_reply`.
    """
    try:
        answer = await making
    except GateError as error:
        if not isinstance(error, BlockedByGuard):
            gate.admission.cancel_begun(review.call.charge)
        raise
    if isinstance(answer, MediaFile):
        return answer
    reply = await complete(review_reply(review, wire_format, answer.call, answer.reply, gate.pools.large_responses))
    review.report_losses(answer.call)
    return PreparedAnswer(answer.call, reply)


async def review_alone(
    gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest
) -> tuple[WireRequest, Sequence[str]]:
    """Return the reviewed request and its losses. The request is only explained or checked, so no model responds.

    Raises the errors of `Review`.
    """
    review = begin_review(gate, snapshot, call, wire)
    if review is None:
        return wire, ()
    return await complete(review.review_request(wire)), review.losses
