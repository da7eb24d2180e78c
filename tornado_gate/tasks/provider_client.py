"""The calls to the provider of a task, long after the request that created the task has ended.

Every call goes through the provider's usual three hooks, with the configuration at the time of the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from tornado_gate.errors import PluginError, Unavailable
from tornado_gate.http.fetch import Fetcher
from tornado_gate.http.upstream import Pool
from tornado_gate.pipeline.attempts import call_provider
from tornado_gate.pipeline.calls import make_target_call
from tornado_gate.pipeline.gate import Gate
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.storage.files import MediaFull, MediaUnavailable
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import read_single_event
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.outcomes import note_failure, note_success
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.translation import TranslatedRequest
from tornado_gate.tasks.usage import make_caller
from tornado_gate.types import (
    Call,
    Request,
    Target,
    Timeouts,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.value import replace

STATUS_SECONDS = 60.0
"""Time limit of one poll or one cancellation, including its response."""


class CallRecording(Protocol):
    """A recording of the calls of one task: it gives their pool and their fetcher."""

    def get_pool(self, provider: ConfiguredProvider, target: Target) -> Pool: ...
    def wrap_fetcher(self, fetcher: Any) -> Any: ...


class ProviderClient:
    """A client of the provider of a task.

    The start of a task's work and the download of its videos count for the circuit of its target. New tasks choose their target
    by this circuit.
    """

    def __init__(self, gate: Gate, fetcher: Fetcher) -> None:
        self._gate = gate
        self._fetcher = fetcher
        self.recorded: dict[str, CallRecording] = {}
        """The recordings of tasks, by their ids."""

    async def begin(
        self, record: TaskRecord, request: VideoRequest, translated: TranslatedRequest | None = None
    ) -> VideoOperation:
        """Start the upstream's work. `translated` saves the translation, unless the configuration has changed since."""
        async with self._open_call(record) as (call, provider):
            deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=False, slow_start=True)
            is_current = translated is not None and translated.provider is provider
            outgoing = translated.outgoing if translated is not None and is_current else None
            try:
                operation = await read_single_event(
                    await call_provider(call, provider, request, deadlines, outgoing), VideoOperation
                )
            except BaseException as error:
                note_failure(self._gate.health, call, error)
                raise
            note_success(self._gate.health, call)
            return operation

    async def poll(self, record: TaskRecord) -> VideoOperation:
        """Return the state of the upstream's work.

        For a task without an operation, find out whether the upstream has the task.
        """
        request = VideoPoll(model=record.model, task_id=record.id, operation=record.operation)
        return await self._request_status(record, request)

    async def cancel(self, record: TaskRecord) -> None:
        """Cancel the upstream's work, if the upstream supports it."""
        if record.operation is not None:
            request = VideoCancel(model=record.model, task_id=record.id, operation=record.operation)
            await self._request_status(record, request)

    @asynccontextmanager
    async def download(self, record: TaskRecord, index: int) -> AsyncIterator[UpstreamResponse]:
        """Download video number `index` of finished work, within ``videos.download_seconds``.

        Gaps are limited as in every stream.
        """
        request = VideoDownload(model=record.model, task_id=record.id, operation=record.operation or {}, index=index)
        async with self._open_call(record) as (call, provider):
            timeouts = replace(call.target.timeouts, total=self._gate.snapshot.config.videos.download_seconds)
            deadlines = Deadlines(timeouts, call.target.provider, streaming=True)
            try:
                outgoing = await provider.translate_request(call, request)
                incoming = await deadlines.wait_for_first_event(provider.call_upstream(call, outgoing))
                yield incoming.replace(chunks=deadlines.limit_gaps(incoming.chunks, provider.as_plugin_error))
            except (MediaFull, MediaUnavailable):
                raise  # the error comes from the reader: the gateway's own storage
            except BaseException as error:
                note_failure(self._gate.health, call, error)
                raise
            note_success(self._gate.health, call)

    def may_repeat(self, record: TaskRecord) -> bool:
        """Return whether the task's provider allows to begin its work twice."""
        provider = self._gate.snapshot.targets.providers.get(record.provider)
        return provider is not None and provider.capabilities.videos_may_repeat

    def find_other_key(self, record: TaskRecord) -> str:
        """Return the fingerprint of another key of the task's provider that is not suspended, or ""."""
        provider = self._gate.snapshot.targets.providers.get(record.provider)
        if provider is None or not provider.keys:
            return ""
        target = self._gate.snapshot.targets.make_task_target(record.model, record.provider, record.upstream_model)
        now, rests = self._gate.health.circuits.clock(), self._gate.health.keys
        others = (key.fingerprint for key in provider.keys if key.fingerprint != record.provider_key)
        return next((key for key in others if not rests.get_wait(target, key, now)), "")

    async def _request_status(self, record: TaskRecord, request: Request) -> VideoOperation:
        async with self._open_call(record) as (call, provider):
            timeouts: Timeouts = replace(call.target.timeouts, total=STATUS_SECONDS)
            deadlines = Deadlines(timeouts, call.target.provider, streaming=False, slow_start=True)
            return await read_single_event(await call_provider(call, provider, request, deadlines), VideoOperation)

    @asynccontextmanager
    async def _open_call(self, record: TaskRecord) -> AsyncIterator[tuple[Call, ProviderLane]]:
        """Open a call for the task, and close it at the end. Raises Unavailable when its provider is no longer configured."""
        snapshot = self._gate.snapshot
        provider = snapshot.targets.providers.get(record.provider)
        if provider is None:
            raise Unavailable(
                f"The provider '{record.provider}' of this task is no longer configured. Add it to conf again."
            )
        if provider.lane is None:
            raise PluginError(provider.entry.plugin, "the plugin failed earlier")
        target = snapshot.targets.make_task_target(
            record.model, record.provider, record.upstream_model, record.provider_key
        )
        recording = self.recorded.get(record.id)
        with self._gate.requests.hold_in_background(snapshot):
            async with AsyncExitStack() as closing:
                fetcher = self._fetcher.for_request(record.account, closing)
                call = make_target_call(
                    record.id,
                    "videos",
                    record.model,
                    make_caller(record),
                    target,
                    recording.get_pool(provider, target) if recording else self._gate.pools.get_pool(provider),
                    closing,
                    fetcher=recording.wrap_fetcher(fetcher) if recording else fetcher,
                    facts=target.facts,
                )
                yield call, provider.lane
