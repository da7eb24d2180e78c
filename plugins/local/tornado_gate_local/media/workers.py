"""A bounded pool of worker processes for what would hold up the event loop: `await POOL.run(function, *arguments)`.

The processes are fresh interpreters (nothing of the gateway is forked, its `__main__` is not imported again), started
when first needed and kept. A worker ends when its input does, so none outlives the gateway, however that died. After a
fork the child has a pool without processes; the parent keeps its own.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from io import FileIO
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

from tornado_gate.errors import PluginError, UpstreamOverloaded, UpstreamTimeout
from tornado_gate_local.media.worker import receive_value, send

MAX_WORKERS = 4
MAX_WAITING = 64
DEADLINE_SECONDS = 120.0

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tornado_gate_local.media.worker import main; main()"
)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Progress = Callable[[float], None]
Job = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # a function, its arguments, and those with a name


class WorkerDied(Exception):
    """The process ended before it answered."""


class WorkerPool:
    """At most `size` jobs at a time, `most_waiting` more in line. For one event loop at a time; no thread but its own."""

    def __init__(
        self,
        size: int | None = None,
        most_waiting: int = MAX_WAITING,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.size = size or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self.most_waiting = most_waiting
        self.deadline_seconds = deadline_seconds
        self._clear()
        _pools.add(self)

    def _clear(self) -> None:
        self._free = self.size
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def processes(self) -> int:
        """How many worker processes there are now."""
        return sum(worker.alive for worker in self._all)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """What `function` returns, a function of an importable module with arguments that can be pickled.

        A caller who is cancelled frees the slot at once: the process is killed and another takes its place. Raises
        MediaError as the function did, UpstreamOverloaded when too many wait, UpstreamTimeout after the deadline, and
        PluginError when the function failed otherwise or the process died.
        """
        return cast(Result, await self._run((function, args, named), None))

    async def run_reporting(self, progress: Progress, function: Callable[..., Result], *args: Any) -> Result:
        """As `run`; `progress` is called, on the event loop, with what the function gives `worker.report`."""
        return cast(Result, await self._run((function, args, {}), progress))

    async def _run(self, job: Job, progress: Progress | None) -> Any:
        await self._take_slot()
        try:
            kind, value = await self._ask(job, progress)
        finally:
            self._free_slot()
        match kind:
            case "done":
                return value
            case "refused":
                raise value
            case _:
                raise PluginError("local", f"a worker failed: {value}")

    async def _ask(self, job: Job, progress: Progress | None) -> tuple[str, Any]:
        worker = self._get_ready_worker()
        try:
            async with asyncio.timeout(self.deadline_seconds):
                answer = await worker.ask(job, progress)
        except TimeoutError:
            self._discard(worker)
            raise UpstreamTimeout(f"The work took more than {self.deadline_seconds:g} seconds.") from None
        except WorkerDied as error:
            self._discard(worker)
            raise PluginError("local", str(error)) from error
        except BaseException:
            self._discard(worker)
            raise
        self._idle.append(worker)
        return answer

    def _get_ready_worker(self) -> _Worker:
        """One that lives, else a new one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._discard(worker)
        worker = _Worker()
        self._all.add(worker)
        return worker

    def _discard(self, worker: _Worker) -> None:
        self._all.discard(worker)
        worker.kill()
        threading.Thread(
            target=worker.wait_for_exit, daemon=True
        ).start()  # waiting for its end is not for the event loop

    async def _take_slot(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        if len(self._waiting) >= self.most_waiting:
            raise UpstreamOverloaded(
                "Too much is being made at the moment. Try again shortly.", headers={"Retry-After": "5"}
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self._free_slot()  # it came in the same moment
            raise

    def _free_slot(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """End all processes; jobs that run fail. The pool may be used again."""
        workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait_for_exit()

    def forget(self) -> None:
        """In the child of a fork: the processes are the parent's."""
        for worker in self._all:
            worker.forget()
        self._clear()


class _Worker:
    """One process. Its pipes are read and written by the thread of the one job that it has, under `_busy`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._busy = threading.Lock()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def ask(self, job: Job, progress: Progress | None) -> tuple[str, Any]:
        """The answer to a job; starts the process if need be. Raises WorkerDied."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, Any]] = loop.create_future()

        def tell(function: Callable[..., None], *args: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(function, *args)

        def advance(value: float) -> None:
            if progress is not None:
                tell(progress, value)

        def converse() -> None:
            try:
                with self._busy:
                    heard = self._exchange(job, advance)
            except (EOFError, OSError) as error:
                tell(_set_result, answer, None, self._make_death_error(error))
            except Exception as error:
                tell(_set_result, answer, None, error)
            else:
                tell(_set_result, answer, heard, None)

        threading.Thread(target=converse, name="tornado-gate-local-worker", daemon=True).start()
        return await answer

    def _exchange(self, job: Job, progress: Progress) -> tuple[str, Any]:
        content = pickle.dumps(job, protocol=5)
        process = self._start_process()
        send(cast(FileIO, process.stdin), content)
        while True:
            kind, value = receive_value(cast(FileIO, process.stdout))
            if kind != "progress":
                return kind, value
            progress(value)

    def _start_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path)]
            # In a group of its own: Ctrl-C at the terminal is for the gateway. Unbuffered: a fork copies no half frame.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0
            )
        if self._killed:
            self._process.kill()
        return self._process

    def _make_death_error(self, error: Exception) -> WorkerDied:
        if self._process is None:
            return WorkerDied(f"a worker process did not start: {error}")
        self._process.kill()  # it may have closed its pipes and live on
        return WorkerDied(f"a worker process ended with {self._process.wait()}")

    def kill(self) -> None:
        """At once, without waiting; also one that is about to start."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def wait_for_exit(self) -> None:
        """Wait for the end of a killed process, and close its pipes. Blocks for a moment."""
        with self._busy:
            if self._process is not None:
                self._process.wait()
                _close_pipes(self._process)

    def forget(self) -> None:
        if self._process is not None:
            _close_pipes(self._process)  # else the worker would not see the parent's end
            self._process.returncode = 0  # not a child of this process: nothing to wait for


def _set_result(
    answer: asyncio.Future[tuple[str, Any]], heard: tuple[str, Any] | None, error: Exception | None
) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    elif heard is not None:
        answer.set_result(heard)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


_pools: WeakSet[WorkerPool] = WeakSet()


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _forget_all() -> None:
    for pool in list(_pools):
        pool.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)

POOL = WorkerPool()
