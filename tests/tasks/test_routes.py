"""Videos as a client of the contract meets them, from the first request to the file and its end. A real gateway process."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageStat

from tests.support import videos
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, Wait
from tests.support.videos import MP4, SMALL, Client, Job, error_of, film

video_gateway, maker = videos.video_gateway, videos.maker

PATHS = ["/v1/videos", "/v1/video/generations"]
PREFIXED = ["/vendor/v1/videos/text2video", "/house/v1/videos/text2video"]
PICTURED = ["/vendor/v1/videos/image2video", "/house/v1/videos/image2video"]
COLOURS = ["#c81e1e", "#1ea03c", "#2846c8", "#e6d21e"]


def quarters() -> Image.Image:
    """A picture with another colour in each quarter."""
    picture = Image.new("RGB", (320, 240))
    draw = ImageDraw.Draw(picture)
    for number, colour in enumerate(COLOURS):
        left, top = number % 2 * 160, number // 2 * 120
        draw.rectangle((left, top, left + 159, top + 119), fill=colour)
    return picture


def png() -> bytes:
    file = io.BytesIO()
    quarters().save(file, "PNG")
    return file.getvalue()


def resembles(picture: Image.Image) -> bool:
    """Whether each quarter has about the colour that it has in `quarters`."""
    boxes = [(left, top, left + 100, top + 70) for top in (25, 145) for left in (30, 190)]
    pairs = ((ImageStat.Stat(one.crop(box)).mean for one in (picture, quarters())) for box in boxes)
    return all(abs(a - b) < 40 for one, other in pairs for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def done(video_gateway: Gateway) -> tuple[Client, str, bytes]:
    """A task that is completed, and its file."""
    client = Client(video_gateway.url)
    task = client.create(**SMALL)
    client.completed(task)
    return client, task, client.content(task).content


# From the first request to the file


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", PATHS)
def test_a_task_is_queued_then_pending_then_completed_and_only_then_is_there_a_file(
    maker: Client, upstream: Upstream, path: str, slash: str
) -> None:
    job = Job()
    polled = [job.polled(job.state("queued")), job.polled(Wait("begin"), job.state("in_progress", 40))]
    polled += [job.polled(job.state("in_progress", 10)), job.polled(Wait("end"), job.state("completed", 100))]
    upstream.script(job.downloaded(MP4), *polled, job.begins())
    response = maker.post(path + slash, model="sora", seconds="4", size="720x1280")
    made = response.json()
    task = made["task_id"]
    assert (made["id"], made["status"], made["progress"], made["object"]) == (task, "queued", 0, "video")
    assert error_of(maker.content(task), 404)["code"] == "video_not_ready"
    upstream.tell("begin")
    told = maker.waits_for(task, "pending")
    assert told["progress"] == 40
    upstream.wait_for_requests(5)
    shown = [maker.shown(task, way) for way in PATHS] + [maker.shown(task + "/", way) for way in PATHS]
    assert [one["progress"] for one in shown] == [40] * 4, "an upstream that goes back is not followed"
    assert shown[1:] == shown[:-1]
    assert error_of(maker.content(task), 404)["code"] == "video_not_ready"
    upstream.tell("end")
    told = maker.completed(task)
    assert (told["progress"], told["seconds"], told["size"], told["error"]) == (100, "4", "720x1280", None)
    assert told["completed_at"] >= told["created_at"]
    assert told["expires_at"] > told["completed_at"]
    assert maker.shown(task, PATHS[1]) == told
    assert maker.content(task).content == MP4


@pytest.mark.parametrize("path", PATHS)
def test_a_file_has_the_asked_size_length_and_rate(maker: Client, path: str) -> None:
    task = maker.create(path, duration=1.5, width=320, height=240, fps=12, seed=7, size=None, seconds=None)
    maker.completed(task)
    response = maker.content(task)
    assert response.headers["content-type"] == "video/mp4"
    assert int(response.headers["content-length"]) == len(response.content)
    made = film(response.content)
    assert (made.size, made.fps) == ((320, 240), 12)
    assert made.seconds == pytest.approx(1.5, abs=0.1)


@pytest.mark.parametrize("path", PATHS)
def test_a_form_with_a_picture_makes_a_video_that_begins_with_it(maker: Client, path: str) -> None:
    fields = {"model": "local-video", "prompt": "waves", "seconds": "1", "size": "320x240", "fps": "10"}
    response = maker.form(path, fields, [("input_reference", ("a.png", png(), "image/png"))])
    assert response.status_code == 200, response.text
    task = response.json()["task_id"]
    assert maker.completed(task)["status"] == "completed"
    made = film(maker.content(task).content)
    assert made.size == (320, 240)
    assert resembles(made.first)


@pytest.mark.parametrize("before", ["", "data:image/png;base64,"], ids=["base64", "data URL"])
@pytest.mark.parametrize("path", [PATHS[1], *PICTURED])
def test_a_picture_in_the_body_is_what_the_video_begins_with(maker: Client, path: str, before: str) -> None:
    task = maker.create(path, image=before + base64.b64encode(png()).decode(), **SMALL)
    maker.completed(task)
    assert resembles(film(maker.content(task).content).first)


def test_what_was_no_picture_does_not_resemble_it(done: tuple[Client, str, bytes]) -> None:
    assert not resembles(film(done[2]).first)


@pytest.mark.parametrize("path", PREFIXED)
def test_prefixed_routes_give_each_video_an_address_that_needs_no_key(maker: Client, path: str) -> None:
    task = maker.create(path, n=2, **SMALL)
    assert set(maker.shown(task, path)) >= {"task_id", "status", "progress", "created_at", "model"}
    maker.completed(task)
    told = maker.shown(task, path)
    assert (told["task_id"], told["status"], told["model"]) == (task, "completed", "local-video")
    assert [set(video) for video in told["videos"]] == [{"id", "url", "duration"}] * 2
    assert [video["duration"] for video in told["videos"]] == [1.0, 1.0]
    files = [maker.content(task, index=index).content for index in (0, 1)]
    assert len({film(file).first.tobytes() for file in files}) == 2
    for video, file in zip(told["videos"], files, strict=True):
        address = video["url"].removeprefix(maker.url)
        assert maker.as_of("").ask("GET", address).content == file
        for tampered in (address[:-1] + "xy"[address.endswith("x")], address.partition("?")[0]):
            assert maker.as_of("").ask("GET", tampered).status_code == 404
    first, second = (video["url"].removeprefix(maker.url) for video in told["videos"])
    swapped = first.partition("?")[0] + "?" + second.partition("?")[2]
    assert maker.as_of("").ask("GET", swapped).status_code == 404
    assert error_of(maker.content(task, index=2), 404)["param"] == "index"


def test_a_task_without_a_picture_is_not_among_those_with_one(maker: Client) -> None:
    task = maker.create(PREFIXED[0], **SMALL)
    assert maker.ask("GET", f"{PREFIXED[0]}/{task}/").status_code == 200
    assert error_of(maker.ask("GET", f"{PICTURED[0]}/{task}"), 404)["code"] == "task_not_found"


# The file


def test_the_whole_file_says_how_it_may_be_asked_for(done: tuple[Client, str, bytes]) -> None:
    client, task, data = done
    for path in (f"/v1/videos/{task}/content", f"/v1/videos/{task}/content/"):
        head = client.ask("HEAD", path)
        whole = client.ask("GET", path)
        assert (head.status_code, head.content, whole.content) == (200, b"", data)
        for name, value in {
            "content-type": "video/mp4",
            "content-length": str(len(data)),
            "accept-ranges": "bytes",
        }.items():
            assert head.headers[name] == whole.headers[name] == value
        assert head.headers["etag"] == whole.headers["etag"]
    known = client.ask("GET", path, headers={"if-none-match": whole.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [("bytes=0-0", 0, 1), ("bytes=0-99", 0, 100), ("bytes=100-299", 100, 300), ("bytes=-50", -50, None),
     ("bytes=200-", 200, None), ("bytes=10-99999999999", 10, None)],
)  # fmt: skip
def test_a_range_is_that_part_of_the_file(
    done: tuple[Client, str, bytes], asked: str, first: int, end: int | None
) -> None:
    client, task, data = done
    response = client.ask("GET", f"/v1/videos/{task}/content", headers={"range": asked})
    part = data[first:end]
    assert (response.status_code, response.content) == (206, part)
    start = first % len(data)
    assert response.headers["content-range"] == f"bytes {start}-{start + len(part) - 1}/{len(data)}"
    assert response.headers["content-length"] == str(len(part))


def test_a_range_behind_the_end_is_refused(done: tuple[Client, str, bytes]) -> None:
    client, task, data = done
    response = client.ask("GET", f"/v1/videos/{task}/content", headers={"range": f"bytes={len(data)}-"})
    assert error_of(response, 416)["code"] == "range_not_satisfiable"
    assert response.headers["content-range"] == f"bytes */{len(data)}"


def test_a_player_that_has_another_version_gets_the_whole_file(done: tuple[Client, str, bytes]) -> None:
    client, task, data = done
    path = f"/v1/videos/{task}/content"
    headers = client.ask("HEAD", path).headers
    for right in (headers["etag"], headers["last-modified"]):
        response = client.ask("GET", path, headers={"range": "bytes=5-9", "if-range": right})
        assert (response.status_code, response.content) == (206, data[5:10])
    for wrong in ('"another"', f"W/{headers['etag']}", "Thu, 01 Jan 2015 00:00:00 GMT"):
        response = client.ask("GET", path, headers={"range": "bytes=5-9", "if-range": wrong})
        assert (response.status_code, response.content) == (200, data)


# Its end


def gone(client: Client, task: str) -> None:
    """Nothing says that there ever was such a task."""
    for way in ("", "/content", "/events"):
        assert error_of(client.ask("GET", f"/v1/videos/{task}{way}"), 404)["code"] == "task_not_found"
    assert error_of(client.ask("DELETE", f"/v1/videos/{task}"), 404)["code"] == "task_not_found"
    assert client.ask("HEAD", f"/v1/videos/{task}/content").status_code == 404
    assert task not in [one["id"] for one in client.ask("GET", "/v1/videos").json()["data"]]


def test_a_completed_task_is_deleted_with_its_file(maker: Client) -> None:
    task = maker.create(**SMALL)
    address = maker.completed(task)["url"].removeprefix(maker.url)
    assert maker.as_of("").ask("GET", address).status_code == 200
    response = maker.delete(task)
    assert (response.status_code, response.json()) == (200, {"id": task, "object": "video.deleted", "deleted": True})
    gone(maker, task)
    assert maker.as_of("").ask("GET", address).status_code == 404


def test_a_running_task_is_stopped_at_its_upstream_and_deleted(maker: Client, upstream: Upstream) -> None:
    job = Job()
    job.lasts(upstream)
    task = maker.create(model="sora")
    maker.waits_for(task, "pending")
    assert maker.delete(task).json()["deleted"] is True
    gone(maker, task)
    asked = [(one.method, one.path) for one in upstream.requests]
    assert asked[-1] == ("DELETE", f"/v1/videos/{job.id}")
    assert asked.count(("POST", "/v1/videos")) == 1


def stands(client: Client, task: str, position: int) -> None:
    """Comes to this place in line; a place is told as it was when the gateway looked last, which is a second ago at most."""
    places = (client.shown(task, wait=0.1)["position"] for _ in range(50))
    assert position in places


def test_a_task_that_waits_in_line_says_where_and_is_deleted_unasked(maker: Client, upstream: Upstream) -> None:
    jobs = [Job() for _ in range(4)]
    for job in jobs:
        job.lasts(upstream)
    running = [maker.create(model="sora") for _ in jobs]
    for task in running:
        maker.waits_for(task, "pending")
    first, second = maker.create(model="sora"), maker.create(model="sora")
    stands(maker, first, 1)
    stands(maker, second, 2)
    assert maker.delete(first).json()["deleted"] is True
    gone(maker, first)
    stands(maker, second, 1)
    assert sum(one.method == "POST" for one in upstream.requests) == 4


def test_an_embedded_task_is_deleted_while_it_is_made(maker: Client) -> None:
    task = maker.create(size="1920x1080", seconds="60")
    maker.waits_for(task, "pending")
    assert maker.delete(task).json()["deleted"] is True
    gone(maker, task)


# Several, and while they are made


def test_a_list_is_read_page_by_page_in_both_orders(maker: Client, upstream: Upstream) -> None:
    mine = maker.as_of(videos.OTHER_KEY)
    for _ in range(5):
        Job().succeeds(upstream)
    tasks = [mine.create(model="sora", prompt=f"number {number}") for number in range(5)]
    for order, expected in (("asc", tasks), ("desc", tasks[::-1])):
        found: list[str] = []
        after, more = "", True
        while more:
            query = {"limit": 2, "order": order, **({"after": after} if after else {})}
            page = mine.ask("GET", "/v1/videos", params=query).json()
            found += [one["id"] for one in page["data"]]
            assert (page["object"], page["first_id"], page["last_id"]) == ("list", found[-len(page["data"])], found[-1])
            after, more = page["last_id"], page["has_more"]
        assert found == expected
    assert [one["id"] for one in mine.ask("GET", "/v1/videos/").json()["data"]] == tasks[::-1]
    for unknown in ("video_" + "0" * 32, "nonsense"):
        assert error_of(mine.ask("GET", "/v1/videos", params={"after": unknown}), 400)["param"] == "after"
    for task in tasks:
        mine.delete(task)
    assert mine.ask("GET", "/v1/videos").json() == {
        "object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False,
    }  # fmt: skip


def test_events_tell_each_change_keep_the_line_open_and_end(maker: Client, upstream: Upstream) -> None:
    job = Job()
    polled = [job.polled(job.state("queued")), job.polled(Wait("begin"), job.state("in_progress", 30))]
    polled += [job.polled(Wait("go on"), job.state("in_progress", 60)), job.polled(Wait("end"), job.state("completed"))]
    upstream.script(job.downloaded(MP4), *polled, job.begins())
    words = iter(["begin", "go on", "end"])
    task = maker.create(model="sora")
    frames: list[tuple[str, Any]] = []
    pings, name = 0, ""
    with maker.http.stream("GET", f"{maker.url}/v1/videos/{task}/events", headers=maker.headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                frames.append((name, json.loads(line[6:])))
                pings = 0
            elif line.startswith(":"):
                pings += 1
                if pings == 2 and (word := next(words, None)):
                    upstream.tell(word)
    assert [name for name, _ in frames] == ["video.progress"] * 3 + ["video.completed"]
    assert [told["progress"] for _, told in frames] == [0, 30, 60, 100]
    assert [told["status"] for _, told in frames] == ["queued", "pending", "pending", "completed"]
    assert frames[-1][1] == maker.shown(task)


def test_events_of_a_failed_task_end_with_what_went_wrong(maker: Client, upstream: Upstream) -> None:
    job = Job()
    error = {"code": "moderation_blocked", "message": "No such foxes."}
    upstream.script(job.polled(job.state("failed", error=error)), job.begins())
    told = maker.waits_for(maker.create(model="sora"), "failed")
    assert told["error"] == error
    assert "url" not in told
    assert error_of(maker.content(told["id"]), 404)["code"] == "video_not_ready"
