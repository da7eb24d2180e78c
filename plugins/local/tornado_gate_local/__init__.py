"""local: the embedded provider, a demonstration and a test bed. It answers without a network, an account or model weights.

It is not a language model: the rules in `phrases`, `tools` and `schema` build an answer from the words of the
request, and the same request always gets the same answer. Vectors and moderation results are real numbers. Images, videos,
speech and voice sessions are the work of another distribution, see `media`. The README says what is done with each field.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

from marshmallow import Schema

from tornado_gate import Capabilities, ProviderEntry, lazy_import, provider_impl
from tornado_gate.codec.fields import Number
from tornado_gate.config import load_settings
from tornado_gate.errors import PluginError, UnsupportedOperation
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    CountTokensRequest,
    RealtimeRequest,
    Request,
    Socket,
    StreamEvent,
    TokenCount,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate.types.value import Value
from tornado_gate.types.vendors import ListedModel, Vendor
from tornado_gate.wire.part_texts import write_texts
from tornado_gate_local import media, operations, pieces
from tornado_gate_local.answer import count_usage, estimate_size, make_choices
from tornado_gate_local.catalog import (
    INPUTS_AT_ONCE,
    MODELS,
    list_available_operations,
    list_missing_operations,
    list_model_names,
)
from tornado_gate_local.losses import report_drops
from tornado_gate_local.operations.work import DownloadWork, OperationWork

__version__ = "0.1.0"
SHORT_PROMPT = 100_000  # characters; the tokens of so many are counted within a millisecond

lazy_import(__name__, "pattern", "operations.moderation")  # these take a tenth of a start
if media.is_installed():
    lazy_import(media.PACKAGE, "operations", "realtime")


class LocalSettings(Value, frozen=True, kw_only=True):
    """The settings of a provider entry in conf. `pace_seconds` is the pause between the pieces of a stream."""

    pace_seconds: float = 0.0


class LocalSettingsSchema(Schema):
    pace_seconds = Number(least=0, most=5, load_default=0.0)


DESCRIPTION = "A demonstration, which answers by fixed rules without a network; it is not a trained model."


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    """Return what a provider entry supports. Raises ConfigError for a setting that is unknown or out of range."""
    loaded = load_settings(LocalSettingsSchema, entry.settings)
    settings = LocalSettings(pace_seconds=loaded["pace_seconds"])
    return Capabilities(
        operations=list_available_operations(),
        missing_operations=list_missing_operations(),
        models=MODELS,
        inputs_at_once=INPUTS_AT_ONCE,
        costs_nothing=True,
        settings=settings,
        videos_may_repeat=True,
        description=DESCRIPTION,
    )


@provider_impl
def list_vendors() -> list[Vendor]:
    """Return the demonstration itself: it needs no account."""
    return [Vendor(name="local", title="Local demonstration", needs_key=False)]


@provider_impl
async def list_models(call: Call) -> list[ListedModel]:
    """List the models that work with the installed packages."""
    return [ListedModel(name=name) for name in list_model_names()]


@provider_impl
async def translate_request(call: Call, request: Request) -> UpstreamRequest:
    """Make the complete answer of a chat; no upstream exists. For other operations prepare the work, which runs later.

    Raises UnsupportedOperation for an operation that is not served, and InvalidField.
    """
    match request:
        case CountTokensRequest(chat=chat):
            counted = await asyncio.to_thread(count_usage, write_texts(chat), ())
            return UpstreamRequest(context=TokenCount(input_tokens=counted.input_tokens or 0))
        case ChatRequest():
            request = write_texts(request)
            report_drops(call, request)
            # A schema or a long prompt can take long, so a thread processes them and the event loop is not blocked.
            heavy = request.tools or request.response_format or estimate_size(request) > SHORT_PROMPT
            result = await asyncio.to_thread(_make_result, call, request) if heavy else _make_result(call, request)
            settings = call.target.settings if isinstance(call.target.settings, LocalSettings) else LocalSettings()
            return UpstreamRequest(context=pieces.AnswerPlan(result, request.stream, settings.pace_seconds))
        case RealtimeRequest():
            for name in request.extra:
                call.drop_field(name)
            return UpstreamRequest(context=request)
    return UpstreamRequest(context=await _prepare_work(call, request))


async def _prepare_work(call: Call, request: Request) -> OperationWork | DownloadWork:
    work = operations.prepare(call, request) or (
        await media.load().prepare(call, request) if media.is_installed() else None
    )
    if work is None:
        raise UnsupportedOperation(
            f"The model '{call.model}' does not support '{call.operation}'. Choose a model that does."
        )
    return work


def _make_result(call: Call, request: ChatRequest) -> ChatResult:
    choices = make_choices(request, salt=secrets.token_hex(16))
    return ChatResult(
        model=call.target.upstream_model,
        id=f"local-{secrets.token_hex(12)}",
        created=int(time.time()),
        choices=choices,
        usage=count_usage(request, choices),
    )


@provider_impl
async def call_upstream(call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
    """Return the prepared answer; nothing is sent over a network. Raises UpstreamError when the file of a video is missing."""
    plan = outgoing.context
    if isinstance(plan, DownloadWork):
        return await plan.make_response()
    return UpstreamResponse(
        chunks=pieces.stream_lines(plan) if isinstance(plan, pieces.AnswerPlan) else iterate_nothing(), context=plan
    )


@provider_impl
async def open_socket(call: Call, outgoing: UpstreamRequest) -> Socket:
    """Return a voice session. Raises InvalidField when a field that a client secret fixes is not supported."""
    if not isinstance(outgoing.context, RealtimeRequest):
        raise PluginError(
            "local",
            "the upstream request has no realtime context; a wrapper plugin must return the request with its `context`",
        )
    settings = call.target.settings if isinstance(call.target.settings, LocalSettings) else LocalSettings()
    return media.load().open_session(call, outgoing.context, settings.pace_seconds)


async def iterate_nothing() -> AsyncIterator[bytes]:
    """The chunks of a response without a body."""
    empty: tuple[bytes, ...] = ()
    for chunk in empty:
        yield chunk


@provider_impl
async def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """The events of the answer. Raises PluginError when a wrapper plugin has dropped the response's `context`."""
    if isinstance(incoming.context, OperationWork):
        async for event in incoming.context.events():
            yield event
        return
    if isinstance(incoming.context, TokenCount):
        yield incoming.context
        return
    if not isinstance(incoming.context, pieces.AnswerPlan):
        raise PluginError(
            "local",
            "the upstream response has no context; a wrapper plugin must return the response with its `context`",
        )
    async for event in pieces.parse_events(incoming.context, incoming.chunks):
        yield event
