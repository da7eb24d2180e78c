"""kill -9 at each step of a video task's life: nothing is lost, nothing is made twice. Real processes, a scripted upstream."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Upstream, Wait, answer

KEY = "test-key-of-video-tasks"
CONF = """
plugins: {{local: true, openai: true, kling: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
  k: {{plugin: kling, base_url: "{url}", api_key: "access-key:secret-key-of-kling"}}
  local: {{plugin: local}}
models:
  sora: {{provider: o, model: sora-2}}
  kling: {{provider: k, model: kling-v1}}
  local-video: {{provider: local}}
videos: {{concurrency: 1, poll_seconds: 0.05, keep_seconds: 600}}
circuits: {{failures: 1000, open_seconds: 0.001}}
prices: {{sora-2: {{per_second: 1}}}}
keys:
  - {{name: test, key: {key}}}
  - {{name: budgeted, key: budgeted-{key}, budget: {{usd_per_day: 10}}}}
"""
MP4 = b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 2000
VIDEO = {"content-type": "video/mp4"}


@pytest.fixture
def start(upstream: Upstream, tmp_path: Path) -> Iterator[Callable[[], Gateway]]:
    """Starts the gateway, again and again on the same folder."""
    started: list[Gateway] = []

    def begin() -> Gateway:
        started.append(Gateway.start(CONF.format(url=upstream.url, key=KEY), tmp_path))
        return started[-1]

    yield begin
    for gateway in started:
        if gateway.child.process.poll() is None:
            gateway.child.kill()


def killed(gateway: Gateway) -> None:
    """End it without a word, worker processes and all that it has open with it."""
    os.kill(gateway.child.process.pid, signal.SIGKILL)
    gateway.child.process.wait()


def send_request(gateway: Gateway, method: str, path: str, **rest: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", **rest.pop("headers", {})}
    return httpx.request(method, gateway.url + path, headers=headers, trust_env=False, timeout=90, **rest)


def create(gateway: Gateway, **fields: Any) -> str:
    body = {"model": "sora", "prompt": "a fox", "seconds": "4", **fields}
    response = send_request(gateway, "POST", "/v1/videos", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["status"] == "queued"
    return str(response.json()["task_id"])


def shown(gateway: Gateway, task: str, wait: float = 0) -> dict[str, Any]:
    response = send_request(gateway, "GET", f"/v1/videos/{task}?wait={wait}")
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def ended(gateway: Gateway, task: str) -> dict[str, Any]:
    told = shown(gateway, task, wait=60)
    assert told["status"] in ("completed", "failed")
    return told


def state(status: str, **rest: Any) -> str:
    return json.dumps({"id": "video_up", "object": "video", "status": status, "progress": 0, **rest})


def begins(*steps: Any) -> Answer:
    return answer(*(steps or (state("queued"),)), path="/v1/videos")


def polls(*steps: Any, repeat: bool = False) -> Answer:
    return answer(*steps, path="/v1/videos/video_up", repeat=repeat)


def downloads(*steps: Any) -> Answer:
    return answer(*steps, path="/v1/videos/video_up/content", headers=VIDEO)


def made(upstream: Upstream) -> int:
    """How often the upstream was told to make a video."""
    return sum(request.method == "POST" for request in upstream.requests)


def content(gateway: Gateway, task: str) -> bytes:
    response = send_request(gateway, "GET", f"/v1/videos/{task}/content")
    assert response.status_code == 200
    return response.content


@pytest.mark.qa
def test_killed_while_the_form_comes_nothing_is_there(start: Callable[[], Gateway], upstream: Upstream) -> None:
    gateway = start()
    form = b'--b\r\nContent-Disposition: form-data; name="input_reference"; filename="a.png"\r\n\r\n' + b"x" * 3_000_000
    url = httpx.URL(gateway.url)
    with pytest.raises(httpx.HTTPError), httpx.Client(trust_env=False, timeout=30) as client:

        def body() -> Iterator[bytes]:
            yield form
            killed(gateway)
            yield b"\r\n--b--\r\n"

        headers = {"authorization": f"Bearer {KEY}", "content-type": "multipart/form-data; boundary=b"}
        client.post(url.copy_with(path="/v1/videos"), content=body(), headers=headers)
    again = start()
    assert send_request(again, "GET", "/v1/videos").json()["data"] == []
    assert list((again.folder / "var" / "uploads").glob("*")) == []
    assert made(upstream) == 0


def test_killed_before_the_upstream_heard_of_it_it_is_made_once(
    start: Callable[[], Gateway], upstream: Upstream
) -> None:
    gateway = start()
    upstream.script(begins(Wait("never")))
    create(gateway, prompt="the first, which holds the only place")
    second = create(gateway)
    upstream.wait_for_requests(1)
    killed(gateway)
    upstream.reset()
    upstream.script(begins(), downloads(MP4), polls(state("completed", progress=100), repeat=True))
    again = start()
    assert ended(again, second)["status"] == "completed"
    assert content(again, second) == MP4
    assert made(upstream) == 1


def test_killed_while_the_upstream_was_asked_to_begin_it_is_told_and_not_repeated(
    start: Callable[[], Gateway], upstream: Upstream
) -> None:
    gateway = start()
    upstream.script(begins(Wait("never")))
    task = create(gateway)
    upstream.wait_for_requests(1)
    killed(gateway)
    told = ended(start(), task)
    assert told["status"] == "failed"
    assert told["error"]["code"] == "start_uncertain"
    assert "Send the request again" in told["error"]["message"]
    assert made(upstream) == 1


@pytest.mark.qa
def test_an_upstream_that_knows_our_name_for_it_is_asked_instead(
    start: Callable[[], Gateway], upstream: Upstream
) -> None:
    gateway = start()
    upstream.script(answer(Wait("never"), path="/v1/videos/text2video"))
    task = create(gateway, model="kling", seconds="5")
    upstream.wait_for_requests(1)
    killed(gateway)
    data = {"task_id": "k1", "task_status": "succeed", "task_result": {"videos": [
        {"id": "v1", "url": f"{upstream.url}/files/v1.mp4", "duration": "5"}]}}  # fmt: skip
    found = json.dumps({"code": 0, "message": "", "request_id": "r", "data": data})
    upstream.script(
        answer(found, path="/v1/videos/text2video", repeat=True),
        answer(MP4, path="/files/", headers=VIDEO, repeat=True),
    )
    again = start()
    assert ended(again, task)["status"] == "completed"
    assert content(again, task) == MP4
    assert made(upstream) == 1


def test_killed_while_it_was_polled_it_goes_on(start: Callable[[], Gateway], upstream: Upstream) -> None:
    gateway = start()
    upstream.script(begins(), polls(state("in_progress", progress=30)), polls(Wait("never")))
    task = create(gateway)
    upstream.wait_for_requests(3)
    assert shown(gateway, task)["status"] == "pending"
    killed(gateway)
    upstream.script(downloads(MP4), polls(state("completed", progress=100), repeat=True))
    again = start()
    assert shown(again, task)["progress"] >= 30
    assert ended(again, task)["status"] == "completed"
    assert made(upstream) == 1


def test_killed_while_the_video_was_brought_home_it_is_brought_whole(
    start: Callable[[], Gateway], upstream: Upstream
) -> None:
    gateway = start()
    upstream.script(begins(), downloads(MP4[:100_000], Wait("never")), polls(state("completed"), repeat=True))
    task = create(gateway)
    upstream.wait_for_requests(3)
    assert [request.method for request in upstream.requests] == ["POST", "GET", "GET"]
    killed(gateway)
    upstream.reset()
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    again = start()
    assert ended(again, task)["status"] == "completed"
    assert content(again, task) == MP4
    assert made(upstream) == 0
    assert len(list((again.folder / "var" / "videos").glob("*.mp4"))) == 1


def test_killed_while_the_embedded_provider_made_it_it_is_made(start: Callable[[], Gateway]) -> None:
    gateway = start()
    task = create(gateway, model="local-video", size="640x360")
    while shown(gateway, task)["status"] == "queued":
        pass
    killed(gateway)
    again = start()
    assert ended(again, task)["status"] == "completed"
    assert b"ftyp" in content(again, task)[:32]


@pytest.mark.qa
def test_killed_ten_times_a_crowd_of_tasks_is_made_once_each(start: Callable[[], Gateway], upstream: Upstream) -> None:
    gateway = start()
    upstream.script(
        downloads(MP4),
        answer(MP4, path="/v1/videos/video_up/content", headers=VIDEO, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    tasks = [create(gateway, prompt=f"number {number}") for number in range(12)]
    for _ in range(5):
        time.sleep(0.05)  # anywhere in their lives: that is the point
        killed(gateway)
        gateway = start()
    told = [ended(gateway, task) for task in tasks]
    uncertain = [one for one in told if one["status"] == "failed"]
    assert all(one["error"]["code"] == "start_uncertain" for one in uncertain)
    assert len(uncertain) <= 5
    assert len(tasks) - len(uncertain) <= made(upstream) <= len(tasks)


@pytest.mark.qa
def test_two_processes_on_one_folder_make_each_task_once(start: Callable[[], Gateway], upstream: Upstream) -> None:
    first, second = start(), start()
    upstream.script(
        answer(MP4, path="/v1/videos/video_up/content", headers=VIDEO, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    tasks = [create(first if number % 2 else second) for number in range(10)]
    for task in tasks:
        assert ended(second, task)["status"] == "completed"
        assert shown(first, task)["status"] == "completed"
    assert made(upstream) == 10


def create_budgeted(gateway: Gateway) -> httpx.Response:
    body = {"model": "sora", "prompt": "a fox", "seconds": "4"}
    return send_request(gateway, "POST", "/v1/videos", json=body, headers={"authorization": f"Bearer budgeted-{KEY}"})


def test_what_a_video_has_reserved_of_a_budget_outlives_its_gateway(
    start: Callable[[], Gateway], upstream: Upstream
) -> None:
    failed = state("failed", error={"code": "moderation_blocked", "message": "no foxes"})
    upstream.script(
        begins(), polls(Wait("first gateway"), state("queued")), polls(Wait("go on"), failed), begins(Wait("the end"))
    )
    gateway = start()
    assert create_budgeted(gateway).status_code == 200  # 4 of 10 dollars
    upstream.wait_for_requests(2)
    killed(gateway)
    gateway = start()
    assert create_budgeted(gateway).status_code == 200  # it waits for its turn; 8 of 10 dollars
    refused = create_budgeted(gateway)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_exceeded")
    upstream.tell("go on")
    ends = time.monotonic() + 60
    while create_budgeted(gateway).status_code != 200:  # a video that failed costs nothing
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert create_budgeted(gateway).status_code == 429


@pytest.mark.qa
def test_a_video_goes_on_in_the_gateway_that_replaces_this_one(upstream: Upstream, tmp_path: Path) -> None:
    upstream.script(
        begins(), polls(Wait("replaced"), state("in_progress")), downloads(MP4), polls(state("completed"), repeat=True)
    )
    gateway = Gateway.start(CONF.format(url=upstream.url, key=KEY), tmp_path, installed=True)
    old = gateway.child.process.pid
    successor = 0
    try:
        task = create(gateway)
        upstream.wait_for_requests(2)
        os.kill(old, signal.SIGUSR2)
        successor = int(gateway.child.wait_for_line(r"process (\d+) was started to replace this one")[1])
        gateway.child.wait_for_line("tornado-gate: serving ")
        upstream.tell("replaced")
        assert ended(gateway, task)["status"] == "completed"
        assert gateway.child.process.wait(60) == 0
        assert content(gateway, task) == MP4
        assert made(upstream) == 1
    finally:
        for process in filter(None, (old, successor)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
