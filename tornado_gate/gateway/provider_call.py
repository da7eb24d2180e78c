"""Stops 4 and 5 of a request's way: a provider is asked, and its events come back in order and in time.

For the pipeline, and for video tasks, which ask on their own behalf long after their caller has gone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager

from tornado_gate.errors import PluginError, Unavailable
from tornado_gate.gateway.snapshot import ProviderInUse, Snapshot
from tornado_gate.http.fetch import Fetcher
from tornado_gate.http.upstream import Pool
from tornado_gate.plugins.host import ProviderLane
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import checked, single
from tornado_gate.tasks import webhooks
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.view import task_of
from tornado_gate.types import (
    Call,
    Caller,
    Request,
    StreamEvent,
    Timeouts,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
    Whole,
)
from tornado_gate.types.value import replace

QUESTION_SECONDS = 60.0
"""One look at a task, or one cancellation, its answer included."""


async def asked(
    call: Call, provider: ProviderLane, request: Request, deadlines: Deadlines
) -> AsyncIterator[StreamEvent]:
    """One request to the upstream; the events of its answer."""
    outgoing = await provider.translate_request(call, request)
    incoming = await deadlines.first(provider.call_upstream(call, outgoing))
    if not isinstance(incoming.chunks, Whole):
        incoming = incoming.but(chunks=deadlines.alive(incoming.chunks))
    events = deadlines.between(provider.translate_response(call, request, incoming), provider.blame)
    return checked(events, provider.fault)


class TaskAsker:
    """Asks the provider of a task. `snapshot` gives the one in force, `using` holds its connections open meanwhile."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        using: Callable[[Snapshot], AbstractContextManager[None]],
        pool: Callable[[ProviderInUse], Pool],
        fetcher: Fetcher,
    ) -> None:
        self._snapshot = snapshot
        self._using = using
        self._pool = pool
        self._fetcher = fetcher

    async def begin(self, record: TaskRecord, request: VideoRequest) -> VideoOperation:
        """Have the upstream begin."""
        return await self._operation(record, request, None)

    async def poll(self, record: TaskRecord) -> VideoOperation:
        """How far it is; for a task without an operation, whether the upstream has it."""
        request = VideoPoll(model=record.model, task_id=record.id, operation=record.operation)
        return await self._operation(record, request, QUESTION_SECONDS)

    async def cancel(self, record: TaskRecord) -> None:
        """Have it stopped, where the upstream can."""
        if record.operation is not None:
            request = VideoCancel(model=record.model, task_id=record.id, operation=record.operation)
            await self._operation(record, request, QUESTION_SECONDS)

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
        provider = self._snapshot().providers.get(record.provider)
        return provider is not None and provider.capabilities.videos_may_repeat

    async def _operation(self, record: TaskRecord, request: Request, seconds: float | None) -> VideoOperation:
        async with self._call(record) as (call, provider):
            timeouts = call.target.timeouts if seconds is None else replace(call.target.timeouts, total=seconds)
            deadlines = Deadlines(timeouts, call.target.provider, streaming=False)
            return await single(await asked(call, provider, request, deadlines), VideoOperation)

    @asynccontextmanager
    async def _call(self, record: TaskRecord) -> AsyncIterator[tuple[Call, ProviderLane]]:
        """A call on the task's behalf. Raises Unavailable when conf no longer has its provider."""
        snapshot = self._snapshot()
        provider = snapshot.providers.get(record.provider)
        if provider is None:
            raise Unavailable(f"The provider '{record.provider}' of this task is no longer in conf.")
        if provider.lane is None:
            raise PluginError(provider.entry.plugin, "it is not usable")
        target = snapshot.target_of(record.model, record.provider, record.upstream_model)
        with self._using(snapshot):
            async with AsyncExitStack() as closing:
                call = Call(
                    id=record.id,
                    operation="videos",
                    format="",
                    model=record.model,
                    caller=Caller(id=record.caller_id, account=record.account),
                    target=target,
                    pool=self._pool(provider),
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
