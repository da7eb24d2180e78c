"""Jobs that make videos: their progress, their end before they are done, their loss, and what they leave behind."""

from __future__ import annotations

import asyncio
import base64
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from io import BytesIO
from itertools import pairwise

import pytest
from PIL import Image

from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.types import Data, VideoOperation
from tornado_gate_demo_media.operations import video_jobs
from tornado_gate_demo_media.operations.video_jobs import VideoJob, VideoJobs, get_loop_jobs
from tornado_gate_demo_media.video_order import VideoOrder

pytestmark = pytest.mark.qa

ASKED_LATER, ASKED_LONG_AGO = float("inf"), float("-inf")

ENDS_WITH_ITS_LOOP = """
import asyncio, os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_demo_media.operations.video_jobs import VideoJob, get_loop_jobs

async def main():
    begun = asyncio.Event()
    class Told(VideoJob):
        def set_progress(self, number, share):
            begun.set()
    get_loop_jobs().begin(Told(orders=(VideoOrder(prompt="a", width=1920, height=1080, seconds=60, fps=30),)))
    await begun.wait()
    print(len(os.listdir(sys.argv[1])), *(worker._process.pid for worker in get_loop_jobs().pool._all), flush=True)

asyncio.run(main())
os._exit(0)
"""


def processes() -> list[subprocess.Popen[bytes]]:
    return [worker._process for worker in get_loop_jobs().pool._all]


@pytest.mark.gen_test(timeout=50)
async def test_it_is_queued_then_running_with_progress_that_never_falls_then_completed(videos):
    seen = [await videos.begin(n=2, seconds=2)]
    assert (seen[0].status, seen[0].progress) == ("queued", 0)
    videos.job(seen[0]).making.add_done_callback(lambda _: videos.advanced.set())
    while seen[-1].status != "completed":
        await videos.advanced.wait()
        videos.advanced.clear()
        seen.append(await videos.poll(seen[0]))
    assert {operation.status for operation in seen[1:-1]} == {"running"}
    assert all(one.progress <= other.progress for one, other in pairwise(seen))
    assert len({operation.progress for operation in seen}) > 3
    assert seen[-2].progress <= 99 < seen[-1].progress
    assert all(operation.poll_after for operation in seen[:-1])
    assert {operation.operation["job"] for operation in seen} == {seen[0].operation["job"]}


def test_progress_is_over_all_videos():
    job = VideoJob(orders=(VideoOrder(prompt="a"),) * 2)
    seen = []
    for number, share in ((0, 0.0), (0, 0.5), (0, 1.0), (1, 0.0), (1, 0.5), (1, 1.0)):
        job.set_progress(number, share)
        seen.append(job.progress)
    assert seen == [0, 25, 50, 50, 75, 99]


@pytest.mark.gen_test(timeout=50)
async def test_two_are_made_at_once_and_a_third_waits_in_line(videos, monkeypatch):
    monkeypatch.setattr(video_jobs, "WORKERS", 2)
    one, other, third = [await videos.begin_large(seed=seed) for seed in range(3)]
    await videos.running(one, other)
    assert [(await videos.poll(each)).status for each in (one, other, third)] == ["running", "running", "queued"]
    await videos.cancel(one)
    await videos.running(other, third)
    for each in (other, third):
        await videos.cancel(each)


@pytest.mark.gen_test(timeout=50)
async def test_the_event_loop_goes_on_meanwhile(videos):
    turns, operation = 0, await videos.begin(width=1_280, height=720, seconds=1, fps=12)
    while not videos.job(operation).is_done:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 1_000


@pytest.mark.gen_test(timeout=50)
async def test_cancelled_midway_its_process_is_killed_and_no_file_is_left(videos):
    operation = await videos.begin_large()
    await videos.running(operation)
    (process,), folder = processes(), videos.job(operation).folder
    assert [file.name for file in folder.iterdir()] == ["0.mp4.part"]
    answer = await videos.cancel(operation)
    assert (answer.status, answer.code) == ("failed", "cancelled")
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    assert list(get_loop_jobs().scratch.path.iterdir()) == []
    assert (await videos.poll(operation)).status == "lost"


@pytest.mark.gen_test(timeout=50)
async def test_cancelled_in_line_it_leaves_its_place_to_others(videos, monkeypatch):
    monkeypatch.setattr(video_jobs, "WORKERS", 1)
    first = await videos.begin_large()
    await videos.running(first)
    waiting, third = await videos.begin_large(seed=1), await videos.begin(seed=2)
    await videos.cancel(waiting)
    await videos.cancel(first)
    await videos.ended(third)
    assert (await videos.poll(third)).status == "completed"
    assert [folder.name for folder in get_loop_jobs().scratch.path.iterdir()] == [third.operation["job"]]


@pytest.mark.gen_test(timeout=50)
async def test_cancelled_while_its_folder_is_made_it_has_none_afterwards(videos, monkeypatch):
    began, goes_on, prepared, prepare = threading.Event(), threading.Event(), threading.Event(), VideoJobs._prepare

    def slow(*args):
        began.set()
        goes_on.wait(60)
        prepare(*args)
        prepared.set()

    monkeypatch.setattr(VideoJobs, "_prepare", slow)
    operation = await videos.begin()
    assert await asyncio.to_thread(began.wait, 20)
    await videos.cancel(operation)
    goes_on.set()
    assert await asyncio.to_thread(prepared.wait, 20)
    assert list(get_loop_jobs().scratch.path.iterdir()) == []


@pytest.mark.gen_test(timeout=50)
async def test_a_completed_one_is_forgotten_when_it_is_cancelled(videos):
    done = await videos.made()
    await videos.cancel(done)
    assert list(get_loop_jobs().scratch.path.iterdir()) == []
    assert (await videos.cancel(done)).status == "failed"
    with pytest.raises(UpstreamError) as caught:
        await videos.download(done)
    assert caught.value.code == "upstream_lost_task"


@pytest.mark.parametrize("operation", [{"job": "0" * 32}, {}, {"job": 5}, {"job": None}, {"task_id": "x"}])
@pytest.mark.gen_test
async def test_a_job_that_nobody_knows_is_lost(videos, operation):
    found = await videos.poll(VideoOperation(status="queued", operation=operation))
    assert found == VideoOperation(status="lost")


@pytest.mark.gen_test(timeout=50)
async def test_without_an_operation_the_task_finds_its_job_and_any_other_is_lost(videos):
    begun = await videos.begin(task_id="video_1")
    await videos.ended(begun)
    found = await videos.poll(None, "video_1")
    assert (found.status, found.operation) == ("completed", begun.operation)
    assert (await videos.poll(None, "video_2")).status == "lost"
    await videos.begin(seed=1)
    assert (await videos.poll(None, "")).status == "lost"


@pytest.mark.gen_test(timeout=50)
async def test_a_file_is_not_given_before_it_is_whole(videos):
    operation = await videos.begin_large()
    await videos.running(operation)
    with pytest.raises(UpstreamError) as caught:
        await videos.download(operation)
    assert caught.value.code == "video_not_ready"
    await videos.cancel(operation)


@pytest.mark.gen_test(timeout=50)
async def test_a_file_that_goes_away_while_it_is_sent_is_an_error_and_not_a_short_file(videos, monkeypatch):
    monkeypatch.setattr("tornado_gate_demo_media.operations.videos.PIECE_BYTES", 1_000)
    done = await videos.made()
    incoming = await videos.download(done)
    assert len(await anext(incoming.chunks)) == 1_000
    await videos.cancel(done)
    with pytest.raises(UpstreamError) as caught:
        await incoming.read()
    assert caught.value.code == "upstream_lost_task"


@pytest.mark.gen_test(timeout=50)
async def test_a_job_that_nobody_asks_for_is_ended_and_with_the_last_go_the_processes_and_the_folder(
    videos, monkeypatch, temporary
):
    monkeypatch.setattr(video_jobs, "IDLE_SECONDS", 1.0)
    done = videos.job(await videos.begin())
    done.asked_at = ASKED_LATER
    await done.making
    operation = await videos.begin_large()
    unfinished = videos.job(operation)
    unfinished.asked_at = ASKED_LATER
    await videos.until(lambda: unfinished.progress)
    jobs, (process,) = get_loop_jobs(), processes()
    unfinished.asked_at = ASKED_LONG_AGO
    assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
    assert done.get_file(0).exists()
    done.asked_at = ASKED_LONG_AGO
    await jobs.keeper
    assert list(temporary.iterdir()) == []
    assert jobs.pool.processes == 0
    assert (await videos.poll(operation)).status == "lost"
    assert get_loop_jobs() is not jobs
    again = videos.job(await videos.begin())
    again.asked_at = ASKED_LATER
    await again.making
    assert again.state == "completed"


@pytest.mark.gen_test(timeout=50)
async def test_asking_for_a_job_or_reading_its_file_keeps_it(videos):
    done = await videos.made()
    job = videos.job(done)
    for ask in (videos.poll, videos.download, videos.file):
        job.asked_at = -1_000.0
        await ask(done)
        assert job.asked_at > 0
    incoming = await videos.download(done)
    job.asked_at = -1_000.0
    await anext(incoming.chunks)
    assert job.asked_at > 0


@pytest.mark.gen_test(timeout=50)
async def test_more_than_can_be_made_in_time_are_refused(videos, monkeypatch):
    monkeypatch.setattr(video_jobs, "MAX_JOBS", 2)
    await videos.made()
    begun = [await videos.begin_large(seed=seed) for seed in range(2)]
    with pytest.raises(UpstreamOverloaded) as caught:
        await videos.begin()
    assert caught.value.headers["Retry-After"]
    for operation in begun:
        await videos.cancel(operation)
    assert (await videos.made()).status == "completed"


@pytest.mark.gen_test(timeout=50)
async def test_a_damaged_picture_fails_the_job_and_leaves_no_file(videos):
    buffer = BytesIO()
    Image.effect_noise((64, 64), 50).save(buffer, "PNG")
    half = base64.b64encode(buffer.getvalue()[:1_000]).decode()
    failed = await videos.made(image=Data(media_type="image/png", base64=half))
    assert (failed.status, failed.code) == ("failed", "invalid_image")
    assert "image" in failed.error
    assert list(get_loop_jobs().scratch.path.iterdir()) == []


@pytest.mark.gen_test(timeout=50)
async def test_a_process_that_dies_fails_its_job_only(videos):
    operation = await videos.begin_large()
    await videos.running(operation)
    (process,) = processes()
    os.kill(process.pid, signal.SIGKILL)
    await videos.ended(operation)
    failed = await videos.poll(operation)
    assert (failed.status, failed.code) == ("failed", "plugin_failed")
    assert list(get_loop_jobs().scratch.path.iterdir()) == []
    assert (await videos.made()).status == "completed"


@pytest.mark.parametrize(
    ("error", "code"), [(OSError("no space"), "storage_unavailable"), (ValueError("?"), "generation_failed")]
)
@pytest.mark.gen_test(timeout=50)
async def test_what_goes_wrong_otherwise_fails_the_job_without_its_words(videos, monkeypatch, error, code):
    def broken(name):
        raise error

    monkeypatch.setattr(get_loop_jobs().scratch, "make_folder", broken)
    failed = await videos.made()
    assert (failed.status, failed.code) == ("failed", code)
    assert str(error) not in failed.error


def test_when_the_loop_ends_nothing_is_left_though_the_process_runs_no_more_code(temporary):
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WITH_ITS_LOOP, str(temporary)],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    folders, *workers = done.stdout.split()
    assert (folders, len(workers)) == ("1", 1)
    assert list(temporary.iterdir()) == []
    with suppress(ProcessLookupError):
        process = os.pidfd_open(int(workers[0]))
        poller = select.poll()  # select() takes no descriptor above 1023
        poller.register(process, select.POLLIN)
        ended = poller.poll(20_000)
        os.close(process)
        assert ended


def test_what_a_loop_left_that_was_closed_under_its_jobs_goes_when_another_asks(temporary, monkeypatch):
    async def begin() -> VideoJob:
        job = VideoJob(orders=(VideoOrder(prompt="a", width=64, height=64, seconds=1, fps=1),))
        get_loop_jobs().begin(job)
        await job.making
        return job

    async def ask() -> None:
        get_loop_jobs()

    closed, close = threading.Event(), VideoJobs.close

    def told(self: VideoJobs) -> None:
        close(self)
        closed.set()

    loop = asyncio.new_event_loop()
    job = loop.run_until_complete(begin())
    assert job.get_file(0).exists()
    loop.close()
    assert not closed.is_set()
    monkeypatch.setattr(VideoJobs, "close", told)
    asyncio.run(ask())
    assert closed.wait(60)
    assert list(temporary.iterdir()) == []
