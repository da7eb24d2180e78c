"""What becomes of a task, whatever its upstream does. A real store, real files, an upstream that says what it is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tornado_gate.config.model import VideosConfig
from tornado_gate.errors import (
    GateError,
    NotFound,
    UnsupportedOperation,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamKeyRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from tornado_gate.storage.files import MediaFull
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.tasks import run as running
from tornado_gate.tasks.engine import TaskEngine
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.store import LeaseLost
from tornado_gate.tasks.translation import TranslatedRequest
from tornado_gate.types import UpstreamResponse, VideoOperation, VideoRequest, replace

RULES = VideosConfig(poll_seconds=0.001, task_seconds=30.0)
MP4 = b"\0\0\0\x18ftypmp42" + b"video" * 1000
CUT = b"\0\0\0\x18ftypmp42" + bytes(12) + (9000).to_bytes(4) + b"mdat" + bytes(5000)
"""An MP4 that ends in the middle of its data."""
BEGUN = VideoOperation(status="queued", operation={"id": "up-1"})
WORKING = VideoOperation(status="running", progress=40)
DONE = VideoOperation(status="completed", videos=1, duration=4.0)

Said = VideoOperation | GateError


@dataclass
class Upstream:
    """Plays its answers in order, the last for ever. Counts what it was asked."""

    begins: list[Said] = field(default_factory=lambda: [BEGUN])
    polls: list[Said] = field(default_factory=lambda: [DONE])
    downloads: list[bytes | GateError] = field(default_factory=lambda: [MP4])
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "video/mp4"})
    downloaded: int = 0
    repeats: bool = False
    keys: tuple[str, ...] = ()
    begun_with: list[str] = field(default_factory=list)
    begun: list[VideoRequest] = field(default_factory=list)
    polled: list[Any] = field(default_factory=list)
    cancelled: list[Any] = field(default_factory=list)
    polled_with: str = ""
    held: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(
        self, record: TaskRecord, request: VideoRequest, translated: TranslatedRequest | None = None
    ) -> VideoOperation:
        self.begun.append(request)
        self.begun_with.append(record.provider_key)
        self.asked.set()
        if self.held is not None:
            await self.held.wait()
        return self._next(self.begins)

    async def poll(self, record: TaskRecord) -> VideoOperation:
        self.polled.append(record.operation)
        self.polled_with = record.provider_key
        if record.operation is None and self.begins is not None and not self.polls:
            raise UnsupportedOperation("cannot say")
        return self._next(self.polls)

    async def cancel(self, record: TaskRecord) -> None:
        self.cancelled.append(record.operation)

    @asynccontextmanager
    async def download(self, record: TaskRecord, index: int) -> AsyncIterator[UpstreamResponse]:
        data = self.downloads.pop(0) if len(self.downloads) > 1 else self.downloads[0]
        self.downloaded += 1
        if isinstance(data, GateError):
            raise data
        yield UpstreamResponse(chunks=pieces(data), headers=self.headers)

    def find_other_key(self, record: TaskRecord) -> str:
        return next((key for key in self.keys if key > record.provider_key), "")

    def may_repeat(self, record: TaskRecord) -> bool:
        return self.repeats

    @staticmethod
    def _next(said: list[Any]) -> VideoOperation:
        one = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(one, GateError):
            raise one
        assert isinstance(one, VideoOperation)
        return one


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


@dataclass
class Hook:
    pauses: list[float | None] = field(default_factory=lambda: [None])
    told: list[TaskRecord] = field(default_factory=list)

    async def send(self, record: TaskRecord) -> float | None:
        self.told.append(record)
        return self.pauses.pop(0)


@dataclass
class World:
    """An engine over a folder, and its upstream."""

    folder: Path
    upstream: Upstream
    rules: VideosConfig = RULES
    hook: Hook = field(default_factory=Hook)

    def __post_init__(self) -> None:
        self.files = MediaFolder(self.folder / "videos", secret=b"s" * 32, evicts=False)
        self.store = FileTaskStore(self.folder / "tasks")
        self.engine = TaskEngine(self.store, self.files, self.upstream, self.rules, self.hook)
        self.seen: list[TaskRecord] = []

    async def task(self, **fields: Any) -> TaskRecord:
        now = time.time()
        record = TaskRecord(
            **{
                "id": f"video_{int(now * 1e9):032x}", "account": "a", "model": "m", "provider": "p", "upstream_model": "u",
                "created_at": now, "deadline": now + 3600, "request": {"model": "m", "prompt": "a fox"}, **fields,
            }
        )  # fmt: skip
        return await self.store.create(record, None)

    async def ended(self, record: TaskRecord) -> TaskRecord:
        while not record.has_ended:
            over = record.status in (
                "completed",
                "failed",
            )  # then only its webhook is owed, and nothing is seen to change
            record = await self.engine.wait_for_change(record, 0.02 if over else 20)
            self.seen.append(record)
        return record


def lived(tmp_path: Path, upstream: Upstream, test: Callable[[World], Awaitable[Any]], **rest: Any) -> Any:
    """Run `test` with an engine that works."""

    async def main() -> Any:
        world = World(tmp_path, upstream, **rest)
        await world.engine.start()
        try:
            async with asyncio.timeout(30):
                return await test(world)
        finally:
            await world.engine.close()

    return asyncio.run(main())


def outcome(tmp_path: Path, upstream: Upstream, record: dict[str, Any] | None = None, **rest: Any) -> TaskRecord:
    """What becomes of one task."""

    async def test(world: World) -> TaskRecord:
        made = await world.task(**(record or {}))
        world.engine.wake()
        ended = await world.ended(made)
        progress = [one.progress for one in world.seen]
        assert progress == sorted(progress)
        await asyncio.gather(*world.engine.running.values())  # the record ends before its marker is removed
        assert await world.store.list_active() == []
        return ended

    result: TaskRecord = lived(tmp_path, upstream, test, **rest)
    return result


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses as long as a test can wait."""
    monkeypatch.setattr(running, "compute_backoff", lambda failures: 0.001)
    monkeypatch.setattr(running, "MAX_PAUSE", 0.01)


def test_a_video_is_made_and_brought_home(tmp_path: Path) -> None:
    upstream = Upstream(polls=[WORKING, DONE])
    ended = outcome(tmp_path, upstream)
    assert (ended.status, ended.progress, ended.step) == ("completed", 100, "done")
    (file,) = ended.files
    assert (tmp_path / "videos" / file.id).read_bytes() == MP4
    assert (file.size, file.duration) == (len(MP4), 4.0)
    assert upstream.begun[0].prompt == "a fox"
    assert upstream.begun[0].task_id == ended.id
    assert upstream.polled == [{"id": "up-1"}] * 2
    assert ended.expires_at is not None
    assert ended.completed_at is not None
    assert ended.expires_at - ended.completed_at == RULES.keep_seconds


def test_a_change_is_seen_as_soon_as_other_processes_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who has read "completed" from another process gets the video from this one, which still syncs the disk."""
    finish = FileTaskStore.finish

    async def test(world: World) -> None:
        written, read = asyncio.Event(), asyncio.Event()

        async def slow_finish(self: FileTaskStore, record: TaskRecord, lease: Any) -> None:
            await finish(self, record, lease)
            written.set()
            await read.wait()

        monkeypatch.setattr(FileTaskStore, "finish", slow_finish)
        made = await world.task()
        world.engine.wake()
        await written.wait()
        elsewhere = await FileTaskStore(tmp_path / "tasks").get(made.id)
        assert elsewhere.status == "completed"
        assert (await world.engine.get(made.id)).status == "completed"
        read.set()
        await world.ended(made)

    lived(tmp_path, Upstream(polls=[WORKING, DONE]), test)


def test_several_videos_are_one_task(tmp_path: Path) -> None:
    ended = outcome(tmp_path, Upstream(polls=[replace(DONE, videos=3)]))
    assert len({file.id for file in ended.files}) == 3


PROGRESS = [
    [WORKING, BEGUN, DONE],
    [WORKING, replace(WORKING, progress=10), DONE],
    [replace(WORKING, progress=250), DONE],
    [replace(WORKING, progress=-5), DONE],
    [WORKING, UpstreamError("500"), UpstreamError("500"), DONE],
    [WORKING, VideoOperation(status="unknown", raw="polishing"), DONE],
    [WORKING, VideoOperation(status="lost"), VideoOperation(status="lost"), DONE],
    [UpstreamTimeout("slow"), UpstreamRateLimited("less"), DONE],
]


@pytest.mark.parametrize("polls", PROGRESS, ids=range(len(PROGRESS)))
def test_an_upstream_that_stumbles_is_asked_again(tmp_path: Path, polls: list[Said]) -> None:
    assert outcome(tmp_path, Upstream(polls=polls)).status == "completed"


FAILURES: list[tuple[Upstream, str]] = [
    (Upstream(polls=[VideoOperation(status="failed", error="no cats", code="policy")]), "policy"),
    (Upstream(polls=[VideoOperation(status="failed")]), "generation_failed"),
    (Upstream(polls=[VideoOperation(status="lost")]), "upstream_lost_task"),
    (Upstream(polls=[VideoOperation(status="unknown")]), "upstream_unknown_status"),
    (Upstream(polls=[replace(DONE, videos=0)]), "upstream_no_video"),
    (Upstream(polls=[UpstreamRefused("no", status=403, code="forbidden")]), "forbidden"),
    (Upstream(polls=[UpstreamError("500")]), "upstream_error"),
    (Upstream(begins=[UpstreamRefused("bad prompt", status=400, code="bad")]), "bad"),
    (Upstream(begins=[replace(BEGUN, status="failed", error="no", code="policy")]), "policy"),
    (Upstream(begins=[UpstreamError("500")], polls=[]), "upstream_error"),
    (Upstream(begins=[UpstreamTimeout("slow")], polls=[]), "upstream_timeout"),
    (Upstream(begins=[UpstreamOverloaded("busy")]), "upstream_overloaded"),
    (Upstream(downloads=[UpstreamRefused("gone", status=404)]), "download_failed"),
    (Upstream(downloads=[UpstreamError("500")]), "download_failed"),
    (Upstream(downloads=[b""]), "download_failed"),
    (Upstream(downloads=[CUT]), "download_failed"),
    (Upstream(downloads=[b'{"error": 1}'], headers={"content-type": "application/json"}), "download_failed"),
    (Upstream(downloads=[b"<html>"], headers={"content-type": "text/html"}), "download_failed"),
    (
        Upstream(downloads=[b'{"error": "no video for you, but it is called one all the same: it is long enough"}']),
        "download_failed",
    ),
]


@pytest.mark.parametrize(("upstream", "code"), FAILURES, ids=[f"{n}-{code}" for n, (_, code) in enumerate(FAILURES)])
def test_what_cannot_be_mended_fails_with_a_reason(tmp_path: Path, upstream: Upstream, code: str) -> None:
    ended = outcome(tmp_path, upstream)
    assert (ended.status, ended.error_code) == ("failed", code)
    assert ended.error_message
    assert ended.files == ()


def test_an_uncertain_beginning_is_not_repeated(tmp_path: Path) -> None:
    upstream = Upstream(begins=[UpstreamTimeout("slow")], polls=[])
    outcome(tmp_path, upstream)
    assert len(upstream.begun) == 1


def test_an_uncertain_beginning_is_looked_up_where_the_upstream_can_say(tmp_path: Path) -> None:
    found = VideoOperation(status="running", operation={"id": "found"})
    upstream = Upstream(begins=[UpstreamTimeout("slow")], polls=[found, DONE])
    assert outcome(tmp_path, upstream).status == "completed"
    assert (len(upstream.begun), upstream.polled[:2]) == (1, [None, {"id": "found"}])


SURELY_NOT = [
    UpstreamOverloaded("busy"),
    UpstreamRateLimited("less"),
    UpstreamUnreachable("no"),
    UpstreamConnectTimeout("late"),
]


@pytest.mark.parametrize("error", SURELY_NOT, ids=lambda error: error.code)
def test_what_surely_was_not_begun_is_begun_again(tmp_path: Path, error: GateError) -> None:
    upstream = Upstream(begins=[error, error, BEGUN])
    assert outcome(tmp_path, upstream).status == "completed"
    assert len(upstream.begun) == 3


def test_a_key_that_the_upstream_refuses_or_limits_gives_way_to_the_next(tmp_path: Path) -> None:
    refused, limited = UpstreamKeyRefused("401"), UpstreamRateLimited("less")
    upstream = Upstream(begins=[refused, limited, BEGUN], keys=("1", "2", "3"))
    assert outcome(tmp_path / "one", upstream).status == "completed"
    assert (upstream.begun_with, upstream.polled_with) == (["", "1", "2"], "2")
    upstream = Upstream(begins=[refused], polls=[VideoOperation(status="unknown")], keys=("1",))
    ended = outcome(tmp_path / "two", upstream)
    assert (ended.status, ended.error_code) == ("failed", "upstream_authentication")
    assert upstream.begun_with == ["", "1"]


def test_an_upstream_that_may_be_asked_twice_is(tmp_path: Path) -> None:
    upstream = Upstream(begins=[UpstreamError("500"), BEGUN], polls=[VideoOperation(status="lost"), DONE], repeats=True)
    assert outcome(tmp_path, upstream).status == "completed"
    assert len(upstream.begun) == 3


def test_a_video_that_went_with_its_maker_is_made_again_where_that_harms_nobody(tmp_path: Path) -> None:
    upstream = Upstream(
        polls=[replace(DONE, videos=2)],
        downloads=[MP4, UpstreamError("gone", code="upstream_lost_task"), MP4],
        repeats=True,
    )
    ended = outcome(tmp_path, upstream)
    assert ended.status == "completed"
    assert len({file.id for file in ended.files}) == 2
    assert len(upstream.begun) == 2


def test_a_download_that_breaks_is_tried_again(tmp_path: Path) -> None:
    upstream = Upstream(downloads=[UpstreamError("broke off"), MP4])
    assert outcome(tmp_path, upstream).status == "completed"
    assert len(list((tmp_path / "videos").glob("*.mp4"))) == 1


def test_a_task_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    ended = outcome(tmp_path, Upstream(polls=[WORKING]), rules=replace(RULES, task_seconds=0.05))
    assert (ended.status, ended.error_code) == ("failed", "task_timeout")


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_jumps_neither_ends_nor_stops_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    real = time.time
    upstream = Upstream(polls=[WORKING, WORKING, WORKING, DONE])
    poll = upstream.poll

    async def jumping(record: TaskRecord) -> VideoOperation:
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        return await poll(record)

    monkeypatch.setattr(upstream, "poll", jumping)
    assert outcome(tmp_path, upstream).status == "completed"


# Several at a time


def test_no_more_than_conf_allows_run_at_a_time_and_the_rest_wait_in_line(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.upstream.held = asyncio.Event()
        tasks = [await world.task() for _ in range(5)]
        world.engine.wake()
        while len(world.upstream.begun) < 2:
            await world.upstream.asked.wait()
            world.upstream.asked.clear()
        records = [await world.store.get(task.id) for task in tasks]
        assert [record.step for record in records] == ["starting", "starting", "new", "new", "new"]
        assert [world.engine.find_position(record) for record in records] == [None, None, 1, 2, 3]
        world.upstream.held.set()
        for task in tasks:
            assert (await world.ended(task)).status == "completed"
        begun = [request.task_id for request in world.upstream.begun]
        assert set(begun[:2]) == {task.id for task in tasks[:2]}
        assert sorted(begun) == sorted(task.id for task in tasks)

    lived(tmp_path, Upstream(), test, rules=replace(RULES, concurrency=2))


def test_a_task_of_a_process_that_left_is_taken_over(tmp_path: Path) -> None:
    async def main() -> None:
        first = World(tmp_path, Upstream(polls=[WORKING]))
        await first.engine.start()
        task = await first.task()
        first.engine.wake()
        while (await first.store.get(task.id)).progress < 40:
            task = await first.engine.wait_for_change(task, 5)
        await first.engine.close()
        second = World(tmp_path, Upstream(begins=[UpstreamRefused("twice")], polls=[DONE]))
        await second.engine.start()
        ended = await second.ended(task)
        await second.engine.close()
        assert ended.status == "completed"
        assert second.upstream.polled == [{"id": "up-1"}]

    asyncio.run(main())


# Cancelling


def test_a_running_task_is_cancelled_here_and_at_the_upstream(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        task = await world.task()
        world.engine.wake()
        while (await world.store.get(task.id)).progress < 40:
            task = await world.engine.wait_for_change(task, 5)
        await world.engine.cancel(task)
        ended = await world.ended(task)
        assert (ended.status, ended.error_code) == ("failed", "cancelled")
        assert world.upstream.cancelled == [{"id": "up-1"}]

    lived(tmp_path, Upstream(polls=[WORKING]), test)


def test_a_queued_task_is_cancelled_before_its_upstream_hears_of_it(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.upstream.held = asyncio.Event()
        running_task, waiting = await world.task(), await world.task()
        world.engine.wake()
        await world.upstream.asked.wait()
        await world.store.request_cancel(waiting.id)
        world.upstream.held.set()
        await world.ended(running_task)
        ended = await world.ended(waiting)
        assert ended.error_code == "cancelled"
        assert len(world.upstream.begun) == 1

    lived(tmp_path, Upstream(), test, rules=replace(RULES, concurrency=1))


def test_a_task_in_line_is_cancelled_at_once_though_no_place_is_free(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.upstream.held = asyncio.Event()
        await world.task()
        waiting = await world.task()
        world.engine.wake()
        await world.upstream.asked.wait()
        async with asyncio.timeout(60):
            await world.engine.cancel(waiting)
        assert (await world.store.get(waiting.id)).error_code == "cancelled"
        world.upstream.held.set()

    lived(tmp_path, Upstream(), test, rules=replace(RULES, concurrency=1))


def test_what_an_upstream_begins_after_its_task_was_cancelled_is_cancelled_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CANCEL_CHECK_SECONDS", 0.01)

    async def test(world: World) -> None:
        world.upstream.held = asyncio.Event()
        task = await world.task()
        world.engine.wake()
        await world.upstream.asked.wait()
        await world.engine.cancel(task)
        assert (await world.store.get(task.id)).error_code == "cancelled"
        assert world.upstream.cancelled == []
        world.upstream.held.set()
        await asyncio.gather(*world.engine.late_cancellations)
        assert world.upstream.cancelled == [{"id": "up-1"}]

    lived(tmp_path, Upstream(), test)


# Webhooks


def test_a_webhook_is_told_until_it_listens(tmp_path: Path) -> None:
    hook = Hook(pauses=[0.001, 0.001, None])
    ended = outcome(tmp_path, Upstream(), {"webhook": {"url": "https://example.com/"}}, hook=hook)
    assert ended.status == "completed"
    assert [record.status for record in hook.told] == ["completed"] * 3
    assert [(record.webhook or {}).get("attempts") for record in hook.told] == [None, 1, 2]


def test_a_webhook_is_told_of_a_failure_too(tmp_path: Path) -> None:
    hook = Hook()
    outcome(tmp_path, Upstream(polls=[VideoOperation(status="failed")]), {"webhook": {"url": "https://e/"}}, hook=hook)
    assert [record.status for record in hook.told] == ["failed"]


def test_a_task_that_only_owes_its_webhook_leaves_its_place_to_others(tmp_path: Path) -> None:
    class Patient(Hook):
        async def send(self, record: TaskRecord) -> float | None:
            self.told.append(record)
            await free.wait()
            return None

    free = asyncio.Event()

    async def test(world: World) -> None:
        first = await world.task(webhook={"url": "https://e/"})
        second = await world.task()
        world.engine.wake()
        assert (await world.ended(second)).status == "completed"
        assert (await world.store.get(first.id)).status == "completed"
        free.set()
        await world.ended(first)

    lived(tmp_path, Upstream(), test, rules=replace(RULES, concurrency=1), hook=Patient())


# The disk


def test_a_finished_video_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, tries = MediaFolder.put, iter([True, True])

    async def full(self: MediaFolder, *arguments: Any, account: str) -> Any:
        assert account == "a"
        if next(tries, None):
            raise MediaFull("full")
        return await put(self, *arguments, account=account)

    monkeypatch.setattr(MediaFolder, "put", full)
    assert outcome(tmp_path, Upstream()).status == "completed"


def test_a_video_that_waits_for_room_leaves_its_slot_to_other_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, has_room = MediaFolder.put, asyncio.Event()

    async def full_for_one(self: MediaFolder, *arguments: Any, account: str) -> Any:
        if account == "full" and not has_room.is_set():
            raise MediaFull("full")
        return await put(self, *arguments, account=account)

    monkeypatch.setattr(MediaFolder, "put", full_for_one)

    async def test(world: World) -> None:
        waiting = await world.task(account="full")
        other = await world.task(account="other")
        world.engine.wake()
        assert (await world.ended(other)).status == "completed"
        assert (await world.engine.get(waiting.id)).step == "fetching"
        has_room.set()
        assert (await world.ended(await world.engine.get(waiting.id))).status == "completed"

    lived(tmp_path, Upstream(), test, rules=replace(RULES, concurrency=1))


@pytest.mark.parametrize("announced", [True, False])
def test_a_video_that_had_no_room_is_not_downloaded_again_before_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    """Each attempt would transfer all of it."""
    make_room, refusals = MediaFolder.make_room, asyncio.Queue[GateError]()

    async def note_refusal(self: MediaFolder, size: int, *, account: str) -> None:
        try:
            await make_room(self, size, account=account)
        except MediaFull as error:
            refusals.put_nowait(error)
            raise

    monkeypatch.setattr(MediaFolder, "make_room", note_refusal)
    upstream = Upstream()
    if announced:
        upstream.headers["content-length"] = str(len(MP4))

    async def test(world: World) -> None:
        world.files.max_bytes = 3 * len(MP4)
        held = await world.files.put(b"a" * len(MP4), "video/mp4", account="other")
        waiting = await world.task()
        world.engine.wake()
        for _ in range(3):
            await refusals.get()
        assert upstream.downloaded == 1
        await world.files.delete(held.id)
        assert (await world.ended(waiting)).status == "completed"
        assert upstream.downloaded == 2

    lived(tmp_path, upstream, test)


def test_a_video_that_never_had_room_fails_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(self: MediaFolder, *_: Any, **__: Any) -> Any:
        raise MediaFull("full")

    monkeypatch.setattr(MediaFolder, "make_room", full)
    upstream = Upstream(headers={"content-length": str(len(MP4))})
    ended = outcome(tmp_path, upstream, rules=replace(RULES, task_seconds=1.0))
    assert (ended.status, ended.error_code) == ("failed", "task_timeout")
    assert "videos.task_seconds" in ended.error_message
    assert "no room" in ended.error_message
    assert upstream.downloaded == 1


@pytest.mark.parametrize("announced", [True, False])
def test_a_video_that_is_too_large_for_the_storage_fails_at_once(tmp_path: Path, announced: bool) -> None:
    upstream = Upstream()
    if announced:
        upstream.headers["content-length"] = str(len(MP4))

    async def test(world: World) -> None:
        world.files.max_bytes = 2 * len(MP4)  # of which one account may hold half, less the metadata
        made = await world.task()
        world.engine.wake()
        ended = await world.ended(made)
        assert (ended.status, ended.error_code) == ("failed", "download_failed")
        assert "videos.max_bytes" in ended.error_message
        assert upstream.downloaded == 1
        assert list((tmp_path / "videos").glob("*")) == []

    lived(tmp_path, upstream, test)


@pytest.mark.parametrize("code", sorted(running.TOO_LARGE_CODES))
def test_a_video_above_a_limit_is_downloaded_once(tmp_path: Path, code: str) -> None:
    upstream = Upstream(downloads=[UpstreamError("More than limits.file_bytes.", code=code)])
    ended = outcome(tmp_path, upstream)
    assert (ended.status, ended.error_code, upstream.downloaded) == ("failed", "download_failed", 1)
    assert "limits.file_bytes" in ended.error_message


def test_a_store_that_cannot_be_written_for_a_while_loses_nothing_and_asks_nobody_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, left = FileTaskStore.save, iter([False, True, True, False])

    async def failing(self: FileTaskStore, record: TaskRecord, lease: Any) -> None:
        if next(left, False):
            raise MediaFull("The gateway's disk is full.")
        await save(self, record, lease)

    monkeypatch.setattr(FileTaskStore, "save", failing)
    upstream = Upstream(begins=[BEGUN], polls=[replace(WORKING, operation={"id": "up-1"}), DONE])
    ended = outcome(tmp_path, upstream)
    assert ended.status == "completed"
    assert len(upstream.begun) == 1


def test_a_run_whose_lease_has_ended_neither_begins_the_work_nor_records_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process may have begun it. The run that follows asks the upstream first."""
    lost, used = iter([True, False, True, False]), list[TaskRecord]()

    async def check_lease(self: FileTaskStore, lease: Any) -> None:
        if next(lost, False):
            raise LeaseLost

    async def test(world: World) -> TaskRecord:
        world.engine.on_usage = used.append
        made = await world.task()
        world.engine.wake()
        return await world.ended(made)

    monkeypatch.setattr(FileTaskStore, "check_lease", check_lease)
    upstream = Upstream(polls=[VideoOperation(status="lost"), DONE])
    ended = lived(tmp_path, upstream, test)
    assert ended.status == "completed"
    assert len(upstream.begun) == len(used) == 1
    assert caplog.text.count("stops here") == 2
    assert upstream.polled[0] is None


def test_a_task_of_another_life_is_not_found(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        with pytest.raises(NotFound):
            await world.store.get("video_" + "0" * 32)

    lived(tmp_path, Upstream(), test)
