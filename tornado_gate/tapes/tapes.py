"""The tapes of a process, and the thread that writes their files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from tornado_gate.config.tapes import TapesConfig
from tornado_gate.tapes.recorder import Recorder
from tornado_gate.tapes.store import TapeStore, make_tape_id
from tornado_gate.tapes.video_tapes import VideoTapes
from tornado_gate.telemetry.metrics.tapes import TapeMetrics

log = logging.getLogger(__name__)

MAX_RECORDING: Final = 16
"""The number of requests of a process that are recorded at the same time: each holds up to `tape_bytes` in memory."""
SWEEP_SECONDS: Final = 600.0


class Tapes:
    """The recordings of a process. Call its methods from the event loop."""

    sweep_seconds = SWEEP_SECONDS

    def __init__(self, data_dir: Path, metrics: TapeMetrics) -> None:
        self.store = TapeStore(data_dir, TapesConfig().keep_seconds)
        self._metrics = metrics
        self.videos: VideoTapes | None = None
        self._recording = 0
        self._is_closed = False
        self._threads: ThreadPoolExecutor | None = None

    def apply(self, rules: TapesConfig | None) -> None:
        """Use the section of a new configuration."""
        self.store.keep_seconds = (rules or TapesConfig()).keep_seconds

    def begin(self, rules: TapesConfig, head: Mapping[str, Any], started: float) -> Recorder | None:
        """Return a recorder for a request; None if `MAX_RECORDING` requests are being recorded."""
        if self._recording >= MAX_RECORDING:
            self._metrics.count("skipped")
            return None
        self._recording += 1
        return Recorder(make_tape_id(), head, started, rules.tape_bytes)

    def end(self, recorder: Recorder, rules: TapesConfig, **members: Any) -> None:
        """Write the tape of a request that has ended, in the thread. `members` are those of `Recorder.end`.

        A request that ends after the process has closed its tapes has none.
        """
        if self._is_closed:
            self._recording -= 1
            self._metrics.count("failed")
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "tapes")
        writing = asyncio.get_running_loop().run_in_executor(
            self._threads, partial(self._write, recorder, rules, **members)
        )
        writing.add_done_callback(partial(self._note_written, recorder.id))

    def _write(self, recorder: Recorder, rules: TapesConfig, **members: Any) -> int:
        return self.store.write(recorder.id, recorder.end(**members), rules)

    def _note_written(self, identity: str, writing: asyncio.Future[int]) -> None:
        self._recording -= 1
        error = None if writing.cancelled() else writing.exception()
        if error is not None or writing.cancelled():
            self._metrics.count("failed")
            log.warning("a tape could not be written: %s. Check the disk of server.data_dir.", error)
            return
        log.info("a request was recorded", extra={"fields": {"tape": identity}})
        self._metrics.count("kept")
        self._metrics.count("evicted", writing.result())

    async def sweep(self) -> None:
        """Delete expired tapes."""
        await asyncio.to_thread(self.store.sweep)

    async def close(self) -> None:
        """Wait until all tapes are written. Those of video tasks end."""
        if self.videos is not None:
            self.videos.close()
        self._is_closed = True
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown)
