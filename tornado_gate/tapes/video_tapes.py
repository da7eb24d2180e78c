"""The recordings of video tasks, which go on after the request that creates a task, until the task ends in this process."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Final

from tornado_gate.config.tapes import TapesConfig
from tornado_gate.http.upstream import Pool
from tornado_gate.pipeline.provider_pools import ProviderPools
from tornado_gate.tapes.exchanges import RecordingPool, RecordingPools
from tornado_gate.tapes.recorder import Recorder, redact_url
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.provider_client import ProviderClient
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.service import TaskService
from tornado_gate.types import Progress, Target
from tornado_gate.types.value import State

MOST_TASKS: Final = 4
"""The number of tasks that are recorded at the same time. The tape of the oldest one ends when another task begins."""


class VideoTape(State):
    """The open tape of a task. It ends when the task has ended and its creation is answered."""

    recorder: Recorder
    rules: TapesConfig
    is_answered: bool = False
    end: TaskRecord | None = None


class VideoTapes:
    """The open tapes of the tasks that this process runs. `write` is `Tapes.end`."""

    def __init__(self, write: Callable[..., None], engine: TaskEngine) -> None:
        assert isinstance(engine.provider, ProviderClient)
        self._write = write
        self._client = engine.provider
        self._open: dict[str, VideoTape] = {}
        self._count_end = engine.on_end
        engine.on_end = self._note_end

    def watch(self, service: TaskService, pools: ProviderPools, recorder: Recorder, rules: TapesConfig) -> TaskService:
        """Return the service for one request: it records the task that it creates."""
        watching, engine = (
            copy(service),
            _SubmittingEngine(service.engine, partial(self._begin, pools, recorder, rules)),
        )
        watching.engine = engine  # type: ignore[assignment]  # has everything of the engine
        return watching

    def note_answered(self, recorder: Recorder) -> bool:
        """Note that the creation of a task is answered. Return False if the recorder is of no task."""
        for identity, tape in list(self._open.items()):
            if tape.recorder is recorder:
                tape.is_answered = True
                self._end_if_complete(identity)
                return True
        return False

    def close(self) -> None:
        """End all tapes, because the process ends."""
        for identity in list(self._open):
            self._end(identity)

    def _begin(self, pools: ProviderPools, recorder: Recorder, rules: TapesConfig, identity: str) -> None:
        if len(self._open) >= MOST_TASKS:
            self._end(next(iter(self._open)))
        recorder.note("task", id=identity)
        self._open[identity] = VideoTape(recorder=recorder, rules=rules)
        self._client.recorded[identity] = _TaskCalls(pools, recorder)

    def _note_end(self, record: TaskRecord) -> None:
        self._count_end(record)
        if (tape := self._open.get(record.id)) is not None:
            tape.end = record
            self._end_if_complete(record.id)

    def _end_if_complete(self, identity: str) -> None:
        tape = self._open[identity]
        if tape.is_answered and tape.end is not None:
            self._end(identity)

    def _end(self, identity: str) -> None:
        """Write the tape of a task. Without the task's end, it is `left`: another process may go on with the task."""
        tape = self._open.pop(identity)
        self._client.recorded.pop(identity, None)
        end = tape.end
        self._write(
            tape.recorder, tape.rules, is_withheld=False, status=200, outcome="left" if end is None else "complete",
            error_code=end.error_code if end else "", guarded=False, task_status=end.status if end else "",
        )  # fmt: skip


class _TaskCalls:
    """A `CallRecording`."""

    def __init__(self, pools: ProviderPools, recorder: Recorder) -> None:
        self._pools = pools
        self._recorder = recorder
        self._has_target = False

    def get_pool(self, provider: ConfiguredProvider, target: Target) -> Pool:
        progress = Progress(target=target)
        pool: Any = RecordingPool(self._pools.get_pool(provider), self._recorder, progress)
        if not self._has_target:
            self._has_target = True
            pool = RecordingPools(self._pools, self._recorder, progress).get_pool(provider)
        return pool  # type: ignore[no-any-return]  # has everything of a pool

    def wrap_fetcher(self, fetcher: Any) -> Any:
        return _RecordingFetcher(fetcher, self._recorder)


class _RecordingFetcher:
    """A fetcher that records the addresses of files at other hosts, not the files."""

    def __init__(self, fetcher: Any, recorder: Recorder) -> None:
        self._fetcher = fetcher
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fetcher, name)

    def open(self, url: str, **rest: Any) -> Any:
        self._recorder.note("fetched", url=redact_url(url, None))
        return self._fetcher.open(url, **rest)


class _SubmittingEngine:
    """An engine that reports the id of a task before it runs. Everything else is that of the engine."""

    def __init__(self, engine: TaskEngine, begin: Any) -> None:
        self._engine = engine
        self._begin = begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, identity: str, translated: Any) -> None:
        self._begin(identity)
        self._engine.submit(identity, translated)
