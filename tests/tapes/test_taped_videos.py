"""Video tasks on tapes: the creation, the calls to the upstream until the task has ended, and a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import run_command
from tests.support.upstream import Answer, Upstream, answer
from tests.tapes.conftest import UPSTREAM_KEY, Site, read_lines
from tornado_gate.tapes.tape import read_tape
from tornado_gate.testing import replay_tape

VIDEO = {"model": "of-video", "prompt": "A red balloon over Oslo", "seconds": "4", "size": "720x1280"}
MP4 = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + b"\x00\x00\x00\x48mdat" + bytes(64)


def show(status: str, progress: int, **rest: Any) -> str:
    head = {"id": "video_of_the_vendor_1", "object": "video", "model": "sora-2", "created_at": 1764300000}
    return json.dumps({**head, "status": status, "progress": progress, "seconds": "4", "size": "720x1280", **rest})


def script(*ends: Answer) -> list[Answer]:
    begun = answer(show("queued", 0), path="/chat/v1/videos")
    working = answer(show("in_progress", 50), path="/chat/v1/videos/video_of_the_vendor_1")
    return [begun, working, *ends]


DONE = answer(show("completed", 100), path="/chat/v1/videos/video_of_the_vendor_1")
CONTENT = answer(MP4, headers={"content-type": "video/mp4"}, path="/chat/v1/videos/video_of_the_vendor_1/content")


@pytest.mark.qa
def test_a_video_is_recorded_until_its_task_has_ended_and_its_replay_is_equal(
    site: Site, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.script(*script(DONE, CONTENT))
    response, path = site.record(VIDEO, "/v1/videos")
    assert response.status_code == 200, response.text
    tape = read_tape(path)
    assert tape.task == response.json()["id"]
    assert [exchange.request.method for exchange in tape.exchanges.values()] == ["POST", "GET", "GET", "GET"]
    assert tape.exchanges[4].chunks[0][1] == MP4
    assert (tape.end["task_status"], tape.end["outcome"]) == ("completed", "complete")
    assert UPSTREAM_KEY not in path.read_text(encoding="utf-8")
    replay = replay_tape(path)
    assert replay.differences == ()
    assert len(replay.received) == 4

    changed = tmp_path / "changed.jsonl"
    changed.write_text(path.read_text(encoding="utf-8").replace(r"\"completed\"", r"\"failed\""), encoding="utf-8")
    done = run_command("replay", str(changed))
    assert (done.returncode, "- completed" in done.stdout) == (1, True), done.stdout


def test_a_video_that_the_upstream_refuses_has_a_tape(site: Site, upstream: Upstream) -> None:
    upstream.script(answer('{"error": {"message": "no"}}', status=400, path="/chat/v1/videos"))
    _, path = site.record(VIDEO, "/v1/videos")
    assert read_lines(path)[-1]["task_status"] == "failed"
    assert replay_tape(path).differences == ()


def test_a_video_that_cannot_be_created_has_a_tape_and_a_repeated_one_has_none(site: Site, upstream: Upstream) -> None:
    response, path = site.record(VIDEO | {"seconds": "-1"}, "/v1/videos")
    assert response.status_code == 400
    assert read_tape(path).task == ""
    upstream.script(*script(DONE, CONTENT))
    again = site.send(VIDEO, "/v1/videos", **{"x-gate-tape": "1", "idempotency-key": "one"})
    assert (again.status_code, "x-gate-tape" in again.headers) == (200, False)
