"""Two gateways with one database, as on two machines: each has its own data directory. Real processes, a scripted upstream."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.databases import empty
from tests.support.gateway import Gateway, run_command
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream, Wait, answer
from tests.tasks.test_service_kill import (
    KEY,
    MP4,
    VIDEO,
    begins,
    content,
    create,
    downloads,
    ended,
    killed,
    made,
    polls,
    send_request,
    shown,
    state,
)

TAKEOVER_SECONDS = 30.0
"""Three times what an idle machine needs."""
ADMIN = "key-of-the-administrator-of-nodes"
CONF = """
database: {address}
tasks: {{store: database}}
plugins: {{openai: true, kling: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
  k: {{plugin: kling, base_url: "{url}", api_key: "access-key:secret-key-of-kling"}}
models:
  sora: {{provider: o, model: sora-2}}
  kling: {{provider: k, model: kling-v1}}
videos: {{concurrency: {concurrency}, queued_per_account: 12, poll_seconds: 0.05, keep_seconds: 600}}
fetch: {{allow_networks: [127.0.0.0/8]}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: test, key: {key}}}
  - {{name: root, key: {admin}, role: administrator}}
"""

Start = Callable[..., Gateway]


@pytest.fixture
def start(upstream: Upstream, tmp_path: Path, migrated_postgres: str) -> Iterator[Start]:
    """Starts the node of this name, again in its folder."""
    empty(migrated_postgres)
    started: list[Gateway] = []

    def begin(name: str, *arguments: str, concurrency: int = 4) -> Gateway:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        conf = CONF.format(address=migrated_postgres, url=upstream.url, key=KEY, admin=ADMIN, concurrency=concurrency)
        started.append(Gateway.start(conf, folder, *arguments))
        return started[-1]

    yield begin
    for gateway in started:
        if gateway.child.process.poll() is None:
            os.kill(gateway.child.process.pid, signal.SIGCONT)
            gateway.child.kill()


def administrate(gateway: Gateway, method: str, path: str) -> Any:
    response = send_request(gateway, method, f"/admin/v1{path}", headers={"authorization": f"Bearer {ADMIN}"})
    assert response.status_code == 200, response.text
    return response.json()


def options_of(gateway: Gateway) -> list[str]:
    return ["--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var")]


def run_tasks(gateway: Gateway, *arguments: str) -> Any:
    done = run_command("tasks", *arguments, *options_of(gateway), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Any request at any node


def test_a_video_begun_at_one_node_is_polled_followed_and_cancelled_at_another(
    start: Start, upstream: Upstream
) -> None:
    a = start("a")
    upstream.script(begins(), polls(state("in_progress", progress=30), repeat=True), answer("{}", path="/v1/videos/"))
    task = create(a)
    upstream.wait_for_requests(2)
    b = start("b")
    assert shown(b, task)["progress"] == 30
    with httpx.stream(
        "GET",
        f"{b.url}/v1/videos/{task}/events",
        headers={"authorization": f"Bearer {KEY}"},
        trust_env=False,
        timeout=30,
    ) as events:
        lines = events.iter_lines()
        assert '"progress":30' in next(line for line in lines if line.startswith("data:")).replace(" ", "")
        assert [row["id"] for row in send_request(b, "GET", "/v1/videos").json()["data"]] == [task]
        assert [row["id"] for row in administrate(b, "GET", "/tasks")["data"]] == [task]
        assert administrate(b, "POST", f"/tasks/{task}/cancel")["error_code"] == "cancelled"
        assert any('"failed"' in line for line in lines)
    assert shown(a, task)["error"]["code"] == "cancelled"
    assert send_request(b, "DELETE", f"/v1/videos/{task}").status_code == 200
    assert send_request(a, "GET", f"/v1/videos/{task}").status_code == 404
    assert made(upstream) == 1


def test_the_file_of_a_video_is_at_the_node_that_made_it(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(begins(), downloads(MP4), polls(state("completed"), repeat=True))
    task = create(a)
    assert ended(a, task)["status"] == "completed"
    b = start("b")
    assert ended(b, task)["status"] == "completed"
    response = send_request(b, "GET", f"/v1/videos/{task}/content")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "video_on_other_node")
    assert "Send the request to that node" in response.json()["error"]["message"]
    assert content(a, task) == MP4


def test_a_key_and_a_place_count_at_all_nodes_together(start: Start, upstream: Upstream) -> None:
    a, b = start("a"), start("b")
    upstream.script(answer(Wait("the end"), path="/v1/videos", repeat=True))
    body = {"model": "sora", "prompt": "a fox", "seconds": "4"}
    responses = [
        send_request(node, "POST", "/v1/videos", json=body, headers={"idempotency-key": "once"}) for node in (a, b, a)
    ]
    assert len({response.json()["id"] for response in responses}) == 1
    other = send_request(b, "POST", "/v1/videos", json={**body, "prompt": "x"}, headers={"idempotency-key": "once"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
    for number in range(11):
        create((a, b)[number % 2])
    refused = [send_request(node, "POST", "/v1/videos", json=body) for node in (a, b)]
    assert [response.json()["error"]["code"] for response in refused] == ["too_many_tasks"] * 2
    upstream.wait_for_requests(4)
    assert made(upstream) == 4, "the slots of a provider count at all nodes together"


@pytest.mark.qa
def test_two_nodes_make_each_of_many_videos_once(start: Start, upstream: Upstream) -> None:
    nodes = start("a"), start("b")
    upstream.script(
        answer(MP4, path="/v1/videos/video_up/content", headers=VIDEO, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    for _ in range(3):
        tasks = [create(nodes[number % 2]) for number in range(10)]
        assert [ended(nodes[number % 2], task)["status"] for number, task in enumerate(tasks)] == ["completed"] * 10
    assert made(upstream) == 30
    assert [row["status"] for row in run_tasks(nodes[1], "list")] == ["completed"] * 30


# A node dies


def take_over(a: Gateway, b: Gateway, task: str, status: str) -> dict[str, Any]:
    """Kill node A and wait until the task has this status at node B, which takes less than TAKEOVER_SECONDS."""
    killed(a)
    began = time.monotonic()
    told = ended(b, task)
    assert time.monotonic() - began < TAKEOVER_SECONDS
    assert told["status"] == status, told
    return told


@pytest.mark.qa
def test_a_node_dies_before_the_upstream_heard_of_a_task(start: Start, upstream: Upstream) -> None:
    a = start("a", concurrency=1)
    upstream.script(begins(Wait("never")))
    first = create(a, prompt="the first, which holds the only slot")
    second = create(a)
    upstream.wait_for_requests(1)
    b = start("b", concurrency=1)
    upstream.script(begins(), downloads(MP4), polls(state("completed"), repeat=True))
    told = take_over(a, b, first, "failed")
    assert told["error"]["code"] == "start_uncertain"
    assert ended(b, second)["status"] == "completed"
    assert content(b, second) == MP4
    assert made(upstream) == 2


@pytest.mark.qa
def test_a_node_dies_while_the_upstream_is_asked_to_begin(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(begins(Wait("never")))
    task = create(a)
    upstream.wait_for_requests(1)
    told = take_over(a, start("b"), task, "failed")
    assert told["error"]["code"] == "start_uncertain"
    assert "Send the request again" in told["error"]["message"]
    assert made(upstream) == 1


@pytest.mark.qa
def test_a_node_dies_while_an_upstream_that_knows_our_name_is_asked_to_begin(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(answer(Wait("never"), path="/v1/videos/text2video"))
    task = create(a, model="kling", seconds="5")
    upstream.wait_for_requests(1)
    data = {"task_id": "k1", "task_status": "succeed", "task_result": {"videos": [
        {"id": "v1", "url": f"{upstream.url}/files/v1.mp4", "duration": "5"}]}}  # fmt: skip
    upstream.script(
        answer(json.dumps({"code": 0, "message": "", "data": data}), path="/v1/videos/text2video", repeat=True),
        answer(MP4, path="/files/", headers=VIDEO, repeat=True),
    )
    b = start("b")
    take_over(a, b, task, "completed")
    assert content(b, task) == MP4
    assert made(upstream) == 1


@pytest.mark.qa
def test_a_node_dies_while_a_task_is_polled(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(begins(), polls(state("in_progress", progress=30)), polls(Wait("never")))
    task = create(a)
    upstream.wait_for_requests(3)
    b = start("b")
    assert shown(b, task)["progress"] == 30
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    take_over(a, b, task, "completed")
    assert content(b, task) == MP4
    assert made(upstream) == 1


@pytest.mark.qa
def test_a_node_dies_while_a_video_is_downloaded(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(begins(), downloads(MP4[:100_000], Wait("never")), polls(state("completed"), repeat=True))
    task = create(a)
    upstream.wait_for_requests(3)
    b = start("b")
    upstream.reset()
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    take_over(a, b, task, "completed")
    assert content(b, task) == MP4
    assert made(upstream) == 0


@pytest.mark.qa
def test_a_node_dies_before_it_has_sent_the_webhook(start: Start, upstream: Upstream) -> None:
    a = start("a")
    failed = state("failed", error={"code": "moderation_blocked", "message": "no foxes"})
    upstream.script(begins(), polls(failed), answer(Wait("never"), path="/hook"))
    secret = run_command("tasks", "webhook-secret", "--account", "test", *options_of(a)).stdout.strip()
    task = create(a, webhook_url=f"{upstream.url}/hook")
    upstream.wait_for_requests(3)
    start("b")
    killed(a)
    upstream.script(answer(status=204, headers={}, path="/hook"))
    request = upstream.wait_for_requests(4, seconds=30)[3]
    with openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9", webhook_secret=secret) as client:
        event = client.webhooks.unwrap(request.body, dict(request.headers))
    assert (event.type, event.data.id) == ("video.failed", task)


@pytest.mark.qa
def test_the_processes_of_two_nodes_share_all_tasks(start: Start, upstream: Upstream) -> None:
    a, b = (start(name, "--processes", "2") for name in "ab")
    upstream.script(
        answer(MP4, path="/v1/videos/video_up/content", headers=VIDEO, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    tasks = [create((a, b)[number % 2]) for number in range(10)]
    assert [ended((b, a)[number % 2], task)["status"] for number, task in enumerate(tasks)] == ["completed"] * 10
    assert made(upstream) == 10
    for node in (a, b):
        node.stop()


@pytest.mark.qa
def test_a_node_that_was_suspended_does_not_write_into_a_task_that_was_taken_over(
    start: Start, upstream: Upstream
) -> None:
    a = start("a")
    upstream.script(begins(), polls(Wait("go on"), state("failed", error={"code": "stale", "message": "stale"})))
    task = create(a)
    upstream.wait_for_requests(2)
    b = start("b")
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    os.kill(a.child.process.pid, signal.SIGSTOP)
    assert ended(b, task)["status"] == "completed"
    upstream.tell("go on")
    os.kill(a.child.process.pid, signal.SIGCONT)
    a.wait_for_log(f"task {task} stops here")
    assert [ended(node, task)["status"] for node in (a, b)] == ["completed"] * 2
    assert made(upstream) == 1


@pytest.mark.qa
def test_a_node_that_stops_hands_its_tasks_over_immediately(start: Start, upstream: Upstream) -> None:
    a = start("a")
    upstream.script(begins(), polls(Wait("never")))
    task = create(a)
    upstream.wait_for_requests(2)
    b = start("b")
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    a.stop()
    began = time.monotonic()
    assert ended(b, task)["status"] == "completed"
    assert time.monotonic() - began < 20
    assert made(upstream) == 1


@pytest.mark.qa
def test_nodes_are_killed_one_after_the_other_and_each_video_is_begun_once(start: Start, upstream: Upstream) -> None:
    nodes = [start("a"), start("b")]
    upstream.script(
        answer(MP4, path="/v1/videos/video_up/content", headers=VIDEO, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    tasks = [create(nodes[number % 2], prompt=f"number {number}") for number in range(12)]
    for number in range(4):
        time.sleep(0.1)  # anywhere in their lives: that is the point
        killed(nodes[number % 2])
        nodes[number % 2] = start("ab"[number % 2])
    told = [ended(nodes[0], task) for task in tasks]
    uncertain = [task for task in told if task["status"] == "failed"]
    assert all(task["error"]["code"] == "start_uncertain" for task in uncertain)
    assert len(tasks) - len(uncertain) <= made(upstream) <= len(tasks)
    forms = [request.body for request in upstream.requests if request.method == "POST"]
    assert all(sum(f"number {number}\r".encode() in form for form in forms) <= 1 for number in range(12))


# The database is away


@pytest.mark.qa
def test_without_its_database_a_gateway_refuses_new_videos_and_continues_running_ones(
    start: Start, upstream: Upstream, postgres: PostgresServer
) -> None:
    a = start("a")
    upstream.script(
        begins(), polls(Wait("go on"), state("in_progress", progress=70)), polls(Wait("end"), state("completed"))
    )
    task = create(a)
    upstream.wait_for_requests(2)
    postgres.stop()
    try:
        refused = send_request(a, "POST", "/v1/videos", json={"model": "sora", "prompt": "a fox", "seconds": "4"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "task_database_unavailable")
        upstream.tell("go on")
        a.wait_for_log("video tasks cannot be stored, will retry")
    finally:
        postgres.start()
    upstream.script(downloads(MP4))
    upstream.wait_for_requests(3, seconds=30)
    assert shown(a, task)["progress"] == 70
    upstream.tell("end")
    assert ended(a, task)["status"] == "completed"
    assert made(upstream) == 1


def test_a_gateway_whose_database_is_unreachable_does_not_start(tmp_path: Path) -> None:
    conf = f"tasks: {{store: database}}\ndatabase: postgresql://gate:secret@/tasks?host={tmp_path}\n"
    (tmp_path / "gate.yaml").write_text(conf)
    done = run_command("serve", "--conf", "gate.yaml", "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert "gate.yaml:2: database: PostgreSQL database 'tasks' at" in done.stderr
    assert "Check `database` in conf and the server" in done.stderr
    assert "secret" not in done.stderr
