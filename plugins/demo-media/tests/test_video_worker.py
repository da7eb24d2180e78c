"""Making videos in a process of its own: its progress, its end before the file's, what it costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from itertools import pairwise

import av
import pytest

from tornado_gate_demo_media.video import VideoOutput, make_video
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.workers import WorkerPool

pytestmark = pytest.mark.qa

PROMPT = "A quiet lake between mountains at dawn"

PEAK = """
import sys
from tornado_gate_demo_media.video import make_video
from tornado_gate_demo_media.video_order import VideoOrder
order = VideoOrder(prompt="A quiet lake", width=1_920, height=1_080, seconds=float(sys.argv[2]), fps=24)
make_video(order, sys.argv[1])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture
def pool():
    pool = WorkerPool(size=1)
    yield pool
    pool.close()


@pytest.mark.gen_test(timeout=50)
async def test_a_worker_tells_how_far_it_is_and_returns_what_it_made(pool, tmp_path):
    path, heard = str(tmp_path / "video.mp4"), []
    order = VideoOrder(prompt=PROMPT, width=160, height=90, seconds=2, fps=10)
    video = await pool.run_reporting(heard.append, make_video, order, path)
    assert video == VideoOutput(path=path, width=160, height=90, seconds=2, fps=10, frames=20)
    assert len(heard) == 20
    assert 0 < heard[0] < 0.1
    assert heard[-1] == 1
    assert all(one < other for one, other in pairwise(heard))
    with av.open(path) as file:
        assert sum(1 for _ in file.decode(video=0)) == 20


@pytest.mark.gen_test(timeout=50)
async def test_a_refusal_comes_back_with_its_name(pool, tmp_path):
    order = VideoOrder(prompt=PROMPT, width=1)
    with pytest.raises(InvalidArgument) as raised:
        await pool.run(make_video, order, str(tmp_path / "video.mp4"))
    assert raised.value.param == "width"


@pytest.mark.gen_test(timeout=50)
async def test_cancelled_midway_only_the_unfinished_file_is_left(pool, tmp_path):
    begun = asyncio.Event()
    order = VideoOrder(prompt=PROMPT, width=1_920, height=1_080, seconds=60, fps=30)
    job = asyncio.create_task(
        pool.run_reporting(lambda share: begun.set(), make_video, order, str(tmp_path / "video.mp4"))
    )
    await begun.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await asyncio.to_thread(pool.close)
    assert [file.name for file in tmp_path.iterdir()] == ["video.mp4.part"]


@pytest.mark.gen_test(timeout=50)
async def test_the_next_attempt_replaces_what_a_killed_one_left(pool, tmp_path):
    path = tmp_path / "video.mp4"
    (tmp_path / "video.mp4.part").write_bytes(b"rest" * 1_000_000)
    await pool.run(make_video, VideoOrder(prompt=PROMPT, width=64, height=64, seconds=1, fps=4), str(path))
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_size < 1_000_000


def test_memory_does_not_grow_with_the_length_of_the_video(tmp_path):
    def peak(seconds: float) -> int:
        """In KiB. Not the peak that `getrusage` tells, which begins with that of the process that started this one."""
        command = [sys.executable, "-c", PEAK, str(tmp_path / "video.mp4"), str(seconds)]
        return int(subprocess.run(command, capture_output=True, check=True, timeout=50).stdout)

    short, long = peak(1), peak(5)
    assert long < 400 * 1_024
    assert long - short < 40 * 1_024


def test_four_seconds_of_720p_take_less_than_three_seconds_of_a_processor(tmp_path):
    begun = time.process_time()
    make_video(VideoOrder(prompt=PROMPT), str(tmp_path / "video.mp4"))
    assert time.process_time() - begun < 3


def test_importing_the_maker_imports_no_library_of_pictures():
    code = (
        "import sys, tornado_gate_demo_media.video as video; video.check_order(video.VideoOrder(prompt='a', image=b'x'));"
        "print([name for name in ('PIL', 'av') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.strip() == "[]"
