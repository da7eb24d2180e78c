"""The pool of worker processes: bounded, replaced when they die, gone with the gateway."""

from __future__ import annotations

import asyncio
import operator
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tornado_gate.errors import PluginError, UpstreamOverloaded, UpstreamTimeout
from tornado_gate_demo_media.image_orders import ImageOrder
from tornado_gate_demo_media.images import make_image, parse_size
from tornado_gate_local import worker
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.workers import WorkerPool

pytestmark = pytest.mark.qa


@pytest.fixture
def pool():
    pool = WorkerPool(size=1)
    yield pool
    pool.close()


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


async def busy(pool: WorkerPool, fifo: Path) -> tuple[asyncio.Task[bytes], int]:
    """A job that runs, and the end of the pipe that it reads: it returns when that is closed."""
    job = asyncio.create_task(pool.run(Path.read_bytes, fifo))
    return job, await asyncio.to_thread(os.open, fifo, os.O_WRONLY)


def ended(process: int) -> bool:
    """Whether a process ends within ten seconds."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()  # select() takes no descriptor above 1023
        poller.register(handle, select.POLLIN)
        return bool(poller.poll(10_000))
    finally:
        os.close(handle)


@pytest.mark.gen_test(timeout=50)
async def test_nothing_is_started_before_it_is_needed_and_then_it_is_kept(pool):
    assert pool.processes == 0
    first = await pool.run(os.getpid)
    assert first != os.getpid()
    assert await pool.run(os.getpid) == first
    assert pool.processes == 1


@pytest.mark.gen_test(timeout=50)
async def test_no_more_processes_than_the_size():
    pool = WorkerPool(size=2)
    assert len(set(await asyncio.gather(*(pool.run(os.getpid) for _ in range(8))))) <= 2
    assert pool.processes <= 2
    pool.close()


@pytest.mark.gen_test(timeout=50)
async def test_named_arguments_and_large_results_arrive(pool):
    assert await pool.run(sorted, [1, 3, 2], reverse=True) == [3, 2, 1]
    assert len(await pool.run(bytes, 20_000_000)) == 20_000_000


@pytest.mark.gen_test(timeout=50)
async def test_a_refusal_comes_back_as_it_was_and_the_worker_stays(pool):
    before = await pool.run(os.getpid)
    with pytest.raises(InvalidArgument) as refused:
        await pool.run(parse_size, "large")
    assert refused.value.param == "size"
    assert str(refused.value) == refused.value.message
    assert await pool.run(os.getpid) == before


@pytest.mark.gen_test(timeout=50)
async def test_any_other_failure_is_a_fault_of_the_plugin_whose_reason_is_for_the_log(pool):
    with pytest.raises(PluginError) as failed:
        await pool.run(operator.truediv, 1, 0)
    assert "ZeroDivisionError" in failed.value.detail
    assert "ZeroDivisionError" not in failed.value.message


@pytest.mark.gen_test(timeout=50)
async def test_a_result_that_cannot_be_sent_is_a_failure_and_no_hang(pool):
    with pytest.raises(PluginError, match="plugin"):
        await pool.run(memoryview, b"x")


@pytest.mark.gen_test(timeout=50)
async def test_arguments_that_cannot_be_sent_fail_and_the_slot_is_free_again(pool):
    with pytest.raises(Exception, match="pickle"):
        await pool.run(repr, (number for number in range(3)))
    assert await pool.run(len, "four") == 4


@pytest.mark.gen_test(timeout=50)
async def test_what_a_library_prints_does_not_disturb_the_answers(pool):
    assert await pool.run(os.write, 1, b"noise on standard output\n") == 25
    assert await pool.run(len, "four") == 4


@pytest.mark.gen_test(timeout=50)
async def test_a_worker_that_dies_fails_its_job_and_is_replaced(pool):
    before = await pool.run(os.getpid)
    with pytest.raises(PluginError) as failed:
        await pool.run(os._exit, 3)
    assert "ended with status 3" in failed.value.detail
    assert await pool.run(os.getpid) != before
    assert pool.processes == 1


@pytest.mark.gen_test(timeout=50)
async def test_a_worker_that_died_between_jobs_harms_nobody(pool):
    before = await pool.run(os.getpid)
    os.kill(before, signal.SIGKILL)
    assert await asyncio.to_thread(ended, before)
    assert await pool.run(os.getpid) != before


@pytest.mark.gen_test(timeout=50)
async def test_a_cancelled_caller_frees_the_slot_and_ends_the_work(pool, fifo):
    job, pipe = await busy(pool, fifo)
    job.cancel()
    with suppress(asyncio.CancelledError):
        await job
    assert job.cancelled()
    assert await pool.run(len, "four") == 4
    await asyncio.to_thread(pool.close)
    with pytest.raises(BrokenPipeError):  # nobody reads any more
        os.write(pipe, b"x")
    os.close(pipe)


@pytest.mark.gen_test(timeout=50)
async def test_a_caller_who_is_cancelled_before_the_process_is_up_leaves_none(pool):
    job = asyncio.create_task(pool.run(signal.pause))
    asyncio.get_running_loop().call_soon(job.cancel)
    with pytest.raises(asyncio.CancelledError):
        await job
    assert await pool.run(len, "four") == 4
    assert pool.processes == 1


@pytest.mark.gen_test(timeout=50)
async def test_a_job_beyond_the_deadline_is_ended():
    pool = WorkerPool(size=1, deadline_seconds=0.01)
    with pytest.raises(UpstreamTimeout):
        await pool.run(signal.pause)
    assert pool.processes == 0


@pytest.mark.gen_test(timeout=50)
async def test_a_line_that_is_too_long_is_refused_and_the_others_get_their_turn(fifo):
    pool = WorkerPool(size=1, most_waiting=2)
    job, pipe = await busy(pool, fifo)
    waiting = [asyncio.create_task(pool.run(len, "x" * number)) for number in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(UpstreamOverloaded) as refused:
        await pool.run(len, "too many")
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"]
    waiting[0].cancel()
    os.close(pipe)
    assert await job == b""
    assert await waiting[1] == 1
    assert await pool.run(len, "four") == 4
    pool.close()


@pytest.mark.gen_test(timeout=50)
async def test_progress_is_told_on_the_event_loop(pool):
    seen: list[float] = []
    await pool.run_reporting(seen.append, worker.report_progress, 0.5)
    assert seen == [0.5]


def test_progress_of_a_maker_outside_a_worker_goes_nowhere(capfd):
    worker.report_progress(0.5)
    assert capfd.readouterr() == ("", "")


def test_one_event_loop_after_another_may_use_a_pool(pool):
    assert asyncio.run(pool.run(os.getpid)) == asyncio.run(pool.run(os.getpid))


@pytest.mark.gen_test(timeout=50)
async def test_a_closed_pool_has_no_processes_and_may_be_used_again(pool):
    process = await pool.run(os.getpid)
    pool.close()
    assert pool.processes == 0
    assert ended(process)
    assert await pool.run(os.getpid) != process


def test_after_a_fork_both_sides_have_workers_of_their_own(pool):
    of_parent = asyncio.run(pool.run(os.getpid))
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, str(asyncio.run(pool.run(os.getpid))).encode())
        finally:
            os._exit(0)
    os.close(tell)
    of_child = int(os.read(hear, 20))
    os.close(hear)
    assert os.waitpid(child, 0)[1] == 0
    assert of_child != of_parent
    assert ended(of_child)  # with its gateway, which had no chance to say so
    assert asyncio.run(pool.run(os.getpid)) == of_parent


SCRIPT = """
import asyncio, os, signal, sys
from tornado_gate_local.workers import POOL
print(asyncio.run(POOL.run(os.getpid)), flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_worker_outlives_the_gateway_however_it_ends(end):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stderr == ""
    assert ended(int(done.stdout))


def test_importing_the_makers_imports_no_heavy_library():
    modules = "images, operations, realtime, speech, video"
    code = f"import sys; from tornado_gate_demo_media import {modules}; print({{'PIL', 'av'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.gen_test(timeout=50)
async def test_the_event_loop_goes_on_while_eight_pictures_are_made():
    pool = WorkerPool()
    await pool.run(os.getpid)
    loop = asyncio.get_running_loop()
    beats: list[float] = []
    done = False

    def beat() -> None:
        beats.append(loop.time())
        if not done:
            loop.call_later(0.002, beat)

    beat()
    orders = [ImageOrder(prompt=f"Picture number {number} of a green hill") for number in range(8)]
    pictures = await asyncio.gather(*(pool.run(make_image, order) for order in orders))
    done = True
    await asyncio.to_thread(pool.close)
    gaps = [later - earlier for earlier, later in pairwise(beats)]
    assert len({picture.data for picture in pictures}) == 8
    assert len(gaps) > 40  # a loop that was held up would have beaten about once a picture
    assert median(gaps) < 0.1  # far more than a free machine needs, which is 2 ms
