"""A bounded pool of worker processes for blocking work: `await POOL.run(function, *arguments)`.

The processes are new interpreters (the gateway is not forked and its `__main__` is not imported again), started when
first needed and kept. A worker ends when its standard input closes, so none outlives the gateway, however it ends.
After a fork the child's pool has no processes; the parent keeps its own.
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
from tornado_gate_local.worker import receive_value, send

MAX_WORKERS = 4
MAX_WAITING = 64
DEADLINE_SECONDS = 120.0

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tornado_gate_local.worker import main; main()"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Progress = Callable[[float], None]
Job = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]  # function, positional and keyword arguments


class WorkerDied(Exception):
    """The worker process ended before it returned a result."""


class WorkerPool:
    """At most `size` jobs run at a time and `most_waiting` wait. For one event loop at a time; not thread-safe."""

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
        """The number of live worker processes."""
        return sum(worker.alive for worker in self._all)

    async def run(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """The result of `function`, which must be importable from a module and have arguments that can be pickled.

        Cancelling the caller frees the slot at once: the process is killed and replaced. Raises InvalidArgument as the
        function did, UpstreamOverloaded when too many jobs wait, UpstreamTimeout after the deadline, and PluginError
        when the function failed otherwise or the process died.
        """
        return cast(Result, await self._run((function, args, named), None))

    async def run_reporting(self, progress: Progress, function: Callable[..., Result], *args: Any) -> Result:
        """As `run`; `progress` gets, in the event loop, what the function passes to `worker.report_progress`."""
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
                raise PluginError("local", f"the function in a worker process raised an exception: {value}")

    async def _ask(self, job: Job, progress: Progress | None) -> tuple[str, Any]:
        worker = self._get_ready_worker()
        try:
            async with asyncio.timeout(self.deadline_seconds):
                answer = await worker.ask(job, progress)
        except TimeoutError:
            self._discard(worker)
            message = f"The local provider did not finish within {self.deadline_seconds:g} s. Request a smaller result."
            raise UpstreamTimeout(message) from None
        except WorkerDied as error:
            self._discard(worker)
            raise PluginError("local", str(error)) from error
        except BaseException:
            self._discard(worker)
            raise
        self._idle.append(worker)
        return answer

    def _get_ready_worker(self) -> _Worker:
        """An idle live worker, else a new one."""
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
        # Waiting for the exit would block the event loop.
        threading.Thread(target=worker.wait_for_exit, daemon=True).start()

    async def _take_slot(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        if len(self._waiting) >= self.most_waiting:
            raise UpstreamOverloaded(
                f"The local provider is busy: {self.most_waiting} jobs wait already. Retry after 5 s.",
                headers={"Retry-After": "5"},
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self._free_slot()  # the slot was assigned at the moment of the cancellation
            raise

    def _free_slot(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """End all processes; running jobs fail. The pool can be used again."""
        workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait_for_exit()

    def forget(self) -> None:
        """For the child of a fork: drop the processes, which belong to the parent."""
        for worker in self._all:
            worker.forget()
        self._clear()


class _Worker:
    """One worker process. Only the thread of its current job reads and writes its pipes, under `_busy`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._busy = threading.Lock()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def ask(self, job: Job, progress: Progress | None) -> tuple[str, Any]:
        """The result of a job; starts the process when needed. Raises WorkerDied."""
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
            # Its own process group: Ctrl-C in the terminal must not end it. Unbuffered: a fork copies no partial frame.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0
            )
        if self._killed:
            self._process.kill()
        return self._process

    def _make_death_error(self, error: Exception) -> WorkerDied:
        if self._process is None:
            return WorkerDied(f"a worker process could not be started: {error}")
        self._process.kill()  # it may have closed its pipes and still run
        return WorkerDied(f"a worker process ended with status {self._process.wait()} before it returned a result")

    def kill(self) -> None:
        """Kill the process without waiting; a process that is about to start is killed too."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def wait_for_exit(self) -> None:
        """Wait until a killed process has ended and close its pipes. Blocks briefly."""
        with self._busy:
            if self._process is not None:
                self._process.wait()
                _close_pipes(self._process)

    def forget(self) -> None:
        if self._process is not None:
            _close_pipes(self._process)  # else the worker would not notice that the parent has ended
            self._process.returncode = 0  # not a child of this process: it cannot be waited for


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
