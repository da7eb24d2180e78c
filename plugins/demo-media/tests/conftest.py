"""What the tests of the media share: calls, and videos through all hooks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

import tornado_gate_local as local
from tests.support.local_provider import call, make_call, refusal, work
from tornado_gate.types import (
    Call,
    Request,
    StreamEvent,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_demo_media.operations.video_jobs import VideoJob, close_all, get_loop_jobs

__all__ = ["call", "make_call", "refusal", "work"]


class Videos:
    """Videos through all hooks, as the keeper of tasks asks for them."""

    def __init__(self, work: Callable[..., Awaitable[list[StreamEvent]]], call: Call) -> None:
        self._work, self._call = work, call
        self.advanced = asyncio.Event()

    async def until(self, reached: Callable[[], Any]) -> None:
        """Wait until it is true; it is looked at whenever a job has gone on."""
        while not reached():
            self.advanced.clear()
            await self.advanced.wait()

    async def running(self, *operations: VideoOperation) -> None:
        """Wait until frames of all of them have been made."""
        await self.until(lambda: all(self.job(operation).progress for operation in operations))

    async def begin(self, **fields: Any) -> VideoOperation:
        """A small one, unless `fields` say otherwise."""
        small = {"width": 128, "height": 96, "seconds": 1, "fps": 6} if "width" not in fields else {}
        return await self._one(VideoRequest(**{"model": "local-video", "prompt": "A red fox", **small, **fields}))

    async def begin_large(self, **fields: Any) -> VideoOperation:
        """One that takes a minute or so."""
        return await self.begin(width=1_920, height=1_080, seconds=60, fps=30, **fields)

    async def poll(self, operation: VideoOperation | None, task_id: str = "task-1") -> VideoOperation:
        known = None if operation is None else operation.operation
        return await self._one(VideoPoll(model="local-video", task_id=task_id, operation=known))

    async def cancel(self, operation: VideoOperation) -> VideoOperation:
        assert operation.operation is not None
        return await self._one(VideoCancel(model="local-video", task_id="task-1", operation=operation.operation))

    async def made(self, **fields: Any) -> VideoOperation:
        """What a poll says when a video has been made, or has failed."""
        operation = await self.begin(**fields)
        await self.ended(operation)
        return await self.poll(operation)

    async def ended(self, operation: VideoOperation) -> None:
        making = self.job(operation).making
        assert making is not None
        await making

    async def download(self, operation: VideoOperation, index: int = 0) -> UpstreamResponse:
        assert operation.operation is not None
        request = VideoDownload(model="local-video", task_id="task-1", operation=operation.operation, index=index)
        return await local.call_upstream(self._call, await local.translate_request(self._call, request))

    async def file(self, operation: VideoOperation, index: int = 0) -> bytes:
        return await (await self.download(operation, index)).read()

    async def end(self) -> None:
        """End what goes on in the background, as the end of a loop does."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def job(self, operation: VideoOperation) -> VideoJob:
        found = get_loop_jobs().find(operation.operation)
        assert found is not None
        return found

    async def _one(self, request: Request) -> VideoOperation:
        (event,) = await self._work(request, self._call)
        assert isinstance(event, VideoOperation)
        return event


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, empty at first; afterwards no job is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    close_all()


@pytest.fixture
def videos(
    work: Callable[..., Awaitable[list[StreamEvent]]],
    call: Call,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    io_loop: IOLoop,
) -> Iterator[Videos]:
    videos, advance = Videos(work, call), VideoJob.set_progress

    def told(self: VideoJob, number: int, share: float) -> None:
        advance(self, number, share)
        videos.advanced.set()

    monkeypatch.setattr(VideoJob, "set_progress", told)
    yield videos
    io_loop.run_sync(videos.end)
