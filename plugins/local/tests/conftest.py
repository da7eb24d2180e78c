"""What the tests of this plugin share: calls, requests and a way through all hooks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import OrderChecker, collect
from tornado_gate.types import (
    Call,
    Caller,
    ChatRequest,
    ChatResult,
    Message,
    Request,
    StreamEvent,
    Target,
    Text,
    UpstreamResponse,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate_local.operations.video_jobs import VideoJob, close_all, get_loop_jobs


@pytest.fixture
def make_call() -> Callable[..., Call]:
    def make(*, strict: bool = False, pace_seconds: float = 0.0) -> Call:
        settings = local.LocalSettings(pace_seconds=pace_seconds)
        return Call(
            id="call-1",
            operation="chat",
            format="format-openai",
            model="local-chat",
            caller=Caller(id="key-1", account="dev"),
            target=Target(
                provider="local", plugin="local", model="local-chat", upstream_model="upstream-name", settings=settings
            ),
            strict=strict,
        )

    return make


@pytest.fixture
def call(make_call: Callable[..., Call]) -> Call:
    return make_call()


@pytest.fixture
def chat() -> Callable[..., ChatRequest]:
    """A request of one user message, or of the `messages` given."""

    def make(text: str = "Tell me something.", **rest: Any) -> ChatRequest:
        rest.setdefault("messages", (Message(role="user", parts=(Text(text=text),)),))
        return ChatRequest(model="local-chat", **rest)

    return make


@pytest.fixture
def stream_events(call: Call) -> Callable[[ChatRequest], Awaitable[list[StreamEvent]]]:
    """All events of an answer, their order checked."""

    async def run(request: ChatRequest) -> list[StreamEvent]:
        outgoing = await local.translate_request(call, request)
        incoming = await local.call_upstream(call, outgoing)
        checker, found = OrderChecker(), []
        async for event in local.translate_response(call, request, incoming):
            checker.check(event)
            found.append(event)
        assert checker.is_complete()
        return found

    return run


@pytest.fixture
def work(call: Call) -> Callable[..., Awaitable[list[StreamEvent]]]:
    """All events of an answer that is no chat, their order checked."""

    async def run(request: Request, call: Call = call) -> list[StreamEvent]:
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        checker, found = OrderChecker(), []
        async for event in local.translate_response(call, request, incoming):
            checker.check(event)
            found.append(event)
        assert checker.is_complete()
        return found

    return run


@pytest.fixture
def refusal(call: Call) -> Callable[[Request], Awaitable[InvalidField]]:
    """The error for a request that is refused before anything is made."""

    async def run(request: Request) -> InvalidField:
        with pytest.raises(InvalidField) as caught:
            await local.translate_request(call, request)
        return caught.value

    return run


@pytest.fixture
def ask(call: Call) -> Callable[[ChatRequest], Awaitable[ChatResult]]:
    """The whole answer, through all hooks."""

    async def run(request: ChatRequest) -> ChatResult:
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        return await collect(local.translate_response(call, request, incoming))

    return run


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
