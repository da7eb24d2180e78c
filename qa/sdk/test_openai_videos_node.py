"""The vendor's SDK for Node against video tasks: begun, followed, downloaded, listed, changed, deleted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from qa.sdk.media_files import form_in, picture_file
from tests.support import videos
from tests.support.gateway import Gateway
from tests.support.node import run_script
from tests.support.upstream import Upstream
from tests.support.videos import KEY, MP4, OTHER_KEY, Client, Job, film

video_gateway = videos.video_gateway


def run(gateway: Gateway, what: str, model: str, key: str = KEY, **options: Any) -> Any:
    fields = {"prompt": "a fox", "seconds": "1", "size": "320x240", **options}
    return run_script("openai_videos.mjs", f"{gateway.url}/v1", key, model, what, json.dumps(fields))


@pytest.fixture
def others(video_gateway: Gateway) -> Iterator[Client]:
    """An account that has no tasks but those of the test."""
    client = Client(video_gateway.url, OTHER_KEY)
    yield client
    for one in client.ask("GET", "/v1/videos", params={"limit": 100}).json()["data"]:
        client.delete(one["id"])
    client.close()


@pytest.mark.parametrize("pictured", [False, True])
def test_a_video_is_made_and_downloaded(video_gateway: Gateway, pictured: bool) -> None:
    """The SDK sends a form whether there is a picture or not."""
    picture = {"picture": base64.b64encode(picture_file((320, 240), (200, 30, 30))).decode()} if pictured else {}
    result = run(video_gateway, "make", "local-video", **picture)
    assert result["created"]["status"] == "queued"
    assert (result["early"]["name"], result["early"]["code"]) == ("NotFoundError", "video_not_ready")
    assert set(result["states"]) <= {"queued", "in_progress", "completed"}
    assert result["states"][-1] == "completed"
    assert (result["video"]["seconds"], result["video"]["size"], result["video"]["progress"]) == ("1", "320x240", 100)
    assert result["type"] == "video/mp4"
    made = film(base64.b64decode(result["data"]))
    assert made.size == (320, 240)
    assert made.seconds == pytest.approx(1, abs=0.1)
    red, green, blue = made.colour
    assert (red > green + 60 and red > blue + 60) == pictured


def test_a_picture_arrives_at_the_upstream_whole(video_gateway: Gateway, upstream: Upstream) -> None:
    picture = picture_file((320, 240))
    Job().succeeds(upstream)
    result = run(video_gateway, "make", "sora", seconds="4", picture=base64.b64encode(picture).decode())
    assert base64.b64decode(result["data"]) == MP4
    form = form_in(upstream.requests[0])
    assert form.texts == {"model": "sora-2", "prompt": "a fox", "seconds": "4", "size": "320x240"}
    assert [(one.name, one.media_type, one.data) for one in form.files] == [("input_reference", "image/png", picture)]


def test_tasks_are_listed_over_pages_and_deleted(video_gateway: Gateway, others: Client) -> None:
    result = run(video_gateway, "list", "local-video", OTHER_KEY)
    assert result["found"] == result["ids"][::-1]
    assert result["deleted"] == [{"id": name, "object": "video.deleted", "deleted": True} for name in result["ids"]]
    assert result["left"] == []


def test_a_video_is_changed_into_another(video_gateway: Gateway) -> None:
    result = run(video_gateway, "remix", "local-video")
    assert result["changed"]["remixed_from_video_id"] == result["first"]["id"]
    assert result["ended"]["id"] == result["changed"]["id"] != result["first"]["id"]
    assert (result["ended"]["status"], result["ended"]["prompt"]) == ("completed", "now in the rain")


def test_errors_name_the_field(video_gateway: Gateway) -> None:
    result = run(video_gateway, "errors", "local-video")
    brief = {what: (error["name"], error["status"], error["param"]) for what, error in result.items()}
    assert brief == {
        "size": ("BadRequestError", 400, "size"),
        "model": ("NotFoundError", 404, "model"),
        "picture": ("BadRequestError", 400, "input_reference"),
        "task": ("NotFoundError", 404, "task_id"),
    }
