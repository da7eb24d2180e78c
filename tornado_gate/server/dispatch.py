"""The dispatch of a request to the part that serves it: the pipeline, video tasks, client secrets, or the model list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from tornado_gate.errors import AuthenticationFailed
from tornado_gate.guards.decisions import Review
from tornado_gate.pipeline import pipeline
from tornado_gate.pipeline.auth import HOW_TO_SEND_KEY
from tornado_gate.pipeline.other_models import check_other_models
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.reviews import answer_with_review, begin_review
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.realtime import connect
from tornado_gate.server.services import Services
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams.events import iterate_events
from tornado_gate.streams.pausable import complete
from tornado_gate.types import (
    Call,
    ClientSecret,
    ClientSecretRequest,
    ModelList,
    ModelsRequest,
    Reply,
    Request,
    StoredObjectRequest,
    TaskRequest,
    WireRequest,
)

MANY_MODELS: Final = 1000
"""The number of models above which they are listed in a thread: 10,000 take 25 ms."""


def dispatch(
    services: Services, snapshot: Snapshot, call: Call, wire: WireRequest, *, is_reviewed: bool = False
) -> Awaitable[PreparedAnswer | MediaFile]:
    """Serve one request. Return the prepared response, or the file of a finished video when the caller requests its content.

    Raises GateError, which the handler renders as the error body of the caller's format.
    """
    if snapshot.guards.lanes and not is_reviewed:
        return _answer_with_guards(services, snapshot, call, wire)
    if wire.route.model == "none":
        return _answer_without_model(services, snapshot, call, wire)
    if wire.route.operation == "videos":
        return _begin_video(services, snapshot, call, wire)
    return pipeline.answer(services.gate, snapshot, call, wire)


async def _answer_with_guards(
    services: Services, snapshot: Snapshot, call: Call, wire: WireRequest
) -> PreparedAnswer | MediaFile:
    """Serve a request with the texts that the guards have left of it, and return the response as the guards have left it."""
    review = begin_review(services.gate, snapshot, call, wire)
    if review is None:
        return await dispatch(services, snapshot, call, wire, is_reviewed=True)
    if wire.route.model != "none" and review.reads("request"):
        await services.gate.admission.begin(review.call)
    making = _review_and_answer(services, snapshot, call, wire, review)
    return await answer_with_review(services.gate, review, snapshot.formats[call.format], making)


async def _review_and_answer(
    services: Services, snapshot: Snapshot, call: Call, wire: WireRequest, review: Review
) -> PreparedAnswer | MediaFile:
    wire = await complete(review.review_request(wire))
    return await dispatch(services, snapshot, call, wire, is_reviewed=True)


async def _begin_video(services: Services, snapshot: Snapshot, call: Call, wire: WireRequest) -> PreparedAnswer:
    """Create a video task and return its first state as the response."""
    return PreparedAnswer(*await services.tasks.create(snapshot, call, wire, snapshot.formats[call.format]))


async def _answer_without_model(
    services: Services, snapshot: Snapshot, call: Call, wire: WireRequest
) -> PreparedAnswer | MediaFile:
    """Serve a request that needs no provider. The format returns its type, or the reply itself."""
    wire_format = snapshot.formats[call.format]
    if call.caller.models and wire.route.other_models:
        check_other_models(call.caller, wire.route.other_models, wire.json)
    request = await wire_format.translate_modelless_request(call, wire)
    if wire.route.key != "required" and not call.caller.id and not isinstance(request, Reply):
        if wire.route.key == "optional":
            raise AuthenticationFailed(f"This request needs an API key. {HOW_TO_SEND_KEY}", code="missing_api_key")
        raise wire_format.contract_error(
            f"translate_request of {wire.route.path}, a route without keys, returned {type(request).__name__}; allowed: Reply"
        )
    if isinstance(request, Reply):
        return await pipeline.begin_answer(call, wire_format, request)
    if isinstance(request, StoredObjectRequest):
        return await pipeline.answer_stored_object(services.gate, snapshot, call, wire_format, request)
    if isinstance(request, TaskRequest):
        call, answer = await services.tasks.answer(snapshot, call, request, wire_format)
        if isinstance(answer, MediaFile):
            return answer
        return await pipeline.begin_answer(call, wire_format, answer)
    if isinstance(request, ClientSecretRequest):
        made = await connect.make_client_secret(services.secrets, snapshot, call, request)
        return await _answer_with(call, wire_format, request, made)
    return await _answer_with(call, wire_format, request, await _find_models(snapshot, call, request))


async def _answer_with(
    call: Call, wire_format: FormatLane, request: Request, result: ClientSecret | ModelList
) -> PreparedAnswer:
    reply = wire_format.translate_response(call, request, iterate_events(iter([result])))
    return await pipeline.begin_answer(call, wire_format, reply)


async def _find_models(snapshot: Snapshot, call: Call, request: ModelsRequest) -> ModelList:
    if request.model is not None:
        return ModelList(models=(snapshot.targets.get_model(request.model, call.caller),), single=True)
    if len(snapshot.config.models) > MANY_MODELS:
        return ModelList(models=await asyncio.to_thread(snapshot.targets.list_models, call.caller))
    return ModelList(models=snapshot.targets.list_models(call.caller))
