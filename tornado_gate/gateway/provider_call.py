"""What video tasks ask of providers and tell webhooks, on their own behalf, long after their caller has gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tornado_gate.errors import PluginError, Unavailable
from tornado_gate.gateway.attempts import asked, note_failure, note_success
from tornado_gate.gateway.gate import Gate
from tornado_gate.http.fetch import Fetcher
from tornado_gate.plugins.host import ProviderLane
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import single
from tornado_gate.tasks import webhooks
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.view import task_of
from tornado_gate.types import (
    Call,
    Caller,
    Request,
    Timeouts,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.value import replace

QUESTION_SECONDS = 60.0
"""One look at a task, or one cancellation, its answer included."""


class TaskAsker:
    """Asks the provider of a task, as the snapshot in force has it."""

    def __init__(self, gate: Gate, fetcher: Fetcher) -> None:
        self._gate = gate
        self._fetcher = fetcher

    async def begin(self, record: TaskRecord, request: VideoRequest) -> VideoOperation:
        """Have the upstream begin. What comes of it counts for the target's circuit, by which new tasks choose."""
        async with self._call(record) as (call, provider):
            deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=False)
            try:
                events = await asked(call, provider, request, deadlines)
                operation = await single(events, VideoOperation)
            except BaseException as error:
                note_failure(self._gate, call, error)
                raise
            note_success(self._gate, call)
            return operation

    async def poll(self, record: TaskRecord) -> VideoOperation:
        """How far it is; for a task without an operation, whether the upstream has it."""
        request = VideoPoll(model=record.model, task_id=record.id, operation=record.operation)
        return await self._operation(record, request)

    async def cancel(self, record: TaskRecord) -> None:
        """Have it stopped, where the upstream can."""
        if record.operation is not None:
            request = VideoCancel(model=record.model, task_id=record.id, operation=record.operation)
            await self._operation(record, request)

    @asynccontextmanager
    async def download(self, record: TaskRecord, index: int) -> AsyncIterator[UpstreamResponse]:
        """One of its finished videos."""
        request = VideoDownload(model=record.model, task_id=record.id, operation=record.operation or {}, index=index)
        async with self._call(record) as (call, provider):
            deadlines = Deadlines(_patient(call.target.timeouts), call.target.provider, streaming=True)
            outgoing = await provider.translate_request(call, request)
            incoming = await deadlines.first(provider.call_upstream(call, outgoing))
            yield incoming.but(chunks=deadlines.between(incoming.chunks, provider.blame))

    def may_repeat(self, record: TaskRecord) -> bool:
        """Whether beginning it twice harms nobody."""
        provider = self._gate.snapshot.providers.get(record.provider)
        return provider is not None and provider.capabilities.videos_may_repeat

    async def _operation(self, record: TaskRecord, request: Request) -> VideoOperation:
        async with self._call(record) as (call, provider):
            timeouts = replace(call.target.timeouts, total=QUESTION_SECONDS)
            deadlines = Deadlines(timeouts, call.target.provider, streaming=False)
            return await single(await asked(call, provider, request, deadlines), VideoOperation)

    @asynccontextmanager
    async def _call(self, record: TaskRecord) -> AsyncIterator[tuple[Call, ProviderLane]]:
        """A call on the task's behalf. Raises Unavailable when conf no longer has its provider."""
        snapshot = self._gate.snapshot
        provider = snapshot.providers.get(record.provider)
        if provider is None:
            raise Unavailable(f"The provider '{record.provider}' of this task is no longer in conf.")
        if provider.lane is None:
            raise PluginError(provider.entry.plugin, "it is not usable")
        target = snapshot.target_of(record.model, record.provider, record.upstream_model)
        with self._gate.holding(snapshot):
            async with AsyncExitStack() as closing:
                call = Call(
                    id=record.id,
                    operation="videos",
                    format="",
                    model=record.model,
                    caller=Caller(id=record.caller_id, account=record.account),
                    target=target,
                    pool=self._gate.pool(provider),
                    fetcher=self._fetcher,
                    closing=closing,
                    facts=target.facts,
                )
                yield call, provider.lane


class TaskTeller:
    """Tells the webhook of a task that it has ended."""

    def __init__(self, fetcher: Fetcher, secret: str) -> None:
        self._fetcher = fetcher
        self._secret = secret

    async def tell(self, record: TaskRecord) -> float | None:
        """Try once. Seconds until the next try; None when it was taken, or when it is enough."""
        webhook, task = record.webhook or {}, task_of(record)
        body, event = webhooks.payload(task), webhooks.event_id(task)
        if await webhooks.deliver(self._fetcher, self._secret, str(webhook.get("url")), event, body, time.time):
            return None
        return webhooks.next_attempt(int(webhook.get("attempts", 0)) + 1)


def _patient(timeouts: Timeouts) -> Timeouts:
    """A download has no end but that of the file: only its gaps are limited."""
    return replace(timeouts, total=24 * 3600.0)
