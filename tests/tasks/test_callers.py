"""Who may see which video task, what a repeated request does, and what is refused. A real gateway process."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.support import videos
from tests.support.fixtures import StartGateway
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, Wait
from tests.support.videos import MP4, NARROW_KEY, OTHER_KEY, SMALL, Client, Job, error_of

video_gateway, maker = videos.video_gateway, videos.maker

NEVER = "video_" + "0" * 32
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ABOUT_A_TASK = [
    ("GET", "/v1/videos/{}"), ("GET", "/v1/videos/{}?wait=30"), ("GET", "/v1/video/generations/{}"),
    ("GET", "/v1/videos/{}/content"), ("GET", "/v1/videos/{}/content?index=1"), ("GET", "/v1/videos/{}/events"),
    ("GET", "/vendor/v1/videos/text2video/{}"), ("GET", "/vendor/v1/videos/image2video/{}"),
    ("POST", "/v1/videos/{}/remix"), ("DELETE", "/v1/videos/{}"),
]  # fmt: skip
BEGINNINGS = [
    "/v1/videos", "/v1/video/generations", "/vendor/v1/videos/text2video", "/vendor/v1/videos/image2video",
]  # fmt: skip


@contextmanager
def running(client: Client, upstream: Upstream) -> Iterator[str]:
    """A task that runs meanwhile."""
    Job().lasts(upstream)
    task = client.create(model="sora")
    client.waits_for(task, "pending")
    yield task


def send_request(client: Client, method: str, path: str) -> Any:
    """By a connection of its own: what is refused by its key ends the connection. The path is sent as it is spelled."""
    body = {"prompt": "p"} if method == "POST" else None
    return client.ask(method, "/", json=body, headers={"connection": "close"}, extensions={"target": path.encode()})


# Whose it is


def test_anothers_task_is_one_that_never_was(maker: Client, upstream: Upstream) -> None:
    """Running or completed, by every route, to the letter: nobody learns that it is there."""
    done = maker.create(image=base64.b64encode(PNG).decode(), **SMALL)
    maker.completed(done)
    other = maker.as_of(OTHER_KEY)
    with running(maker, upstream) as task:
        for one in (task, done):
            for method, path in ABOUT_A_TASK:
                began = time.monotonic()
                theirs, never = (send_request(other, method, path.format(name)) for name in (one, NEVER))
                assert time.monotonic() - began < 20
                assert error_of(theirs, 404) == error_of(never, 404)
                assert theirs.content == never.content
        assert other.ask("GET", "/v1/videos").json()["data"] == []
        assert error_of(other.ask("GET", "/v1/videos", params={"after": task}), 400)["param"] == "after"
        assert maker.shown(task)["status"] == "pending"
    assert maker.content(done).status_code == 200


def test_a_key_for_other_operations_reaches_no_video(maker: Client) -> None:
    narrow = maker.as_of(NARROW_KEY)
    task = maker.create(**SMALL)
    for method, path in [*ABOUT_A_TASK, ("GET", "/v1/videos"), *(("POST", path) for path in BEGINNINGS)]:
        assert error_of(send_request(narrow, method, path.format(task)), 403)["type"] == "permission_error"
    assert maker.completed(task)["status"] == "completed"


@pytest.mark.parametrize("key", ["", "no-key-of-this-gateway"])
def test_without_a_key_there_is_nothing(maker: Client, key: str) -> None:
    nobody = maker.as_of(key)
    for method, path in [*ABOUT_A_TASK, ("GET", "/v1/videos"), *(("POST", path) for path in BEGINNINGS)]:
        error_of(send_request(nobody, method, path.format(NEVER)), 401)


@pytest.mark.parametrize(
    "name",
    ["../x", "..%2fx", "%2e%2e", "%2e%2e%2f%2e%2e%2fgate.yaml", "a%00b", "%00", NEVER + "%00", NEVER + "%0a", "video_",
     NEVER + "0", NEVER.upper(), "..%5c..%5cx", "%ff", "a" * 4000, "video_%D9%A0" * 3, NEVER + "/..", "."],
)  # fmt: skip
def test_no_spelling_of_a_name_reaches_anything_else(maker: Client, name: str) -> None:
    for method, path in ABOUT_A_TASK:
        response = send_request(maker, method, path.format(name))
        assert response.status_code in (404, 405), f"{method} {path}: {response.text}"
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
        assert "gate.yaml" not in response.json()["error"]["message"].replace(name, "")


# Once and again


def test_a_repeated_request_is_the_same_task(maker: Client) -> None:
    headers = {"idempotency-key": "first"}
    one, again = (maker.post(headers=headers, **SMALL).json() for _ in range(2))
    assert again["id"] == one["id"]
    different = maker.post(headers=headers, **{**SMALL, "seconds": "2"})
    assert error_of(different, 409)["code"] == "idempotency_conflict"
    assert maker.post(headers={"idempotency-key": "second"}, **SMALL).json()["id"] != one["id"]
    maker.completed(one["id"])
    later = maker.post(headers=headers, **SMALL)
    assert (later.status_code, later.json()["id"], later.json()["status"]) == (200, one["id"], "completed")


def test_a_repeated_form_is_the_same_task_and_another_picture_another(maker: Client) -> None:
    def send(picture: bytes) -> Any:
        files = [("input_reference", ("a.png", picture, "image/png"))]
        parts = [(name, (None, str(text))) for name, text in {"model": "local-video", "prompt": "p", **SMALL}.items()]
        response = maker.ask("POST", "/v1/videos", files=[*parts, *files], headers={"idempotency-key": "form"})
        maker.note(response)
        return response

    one, again = send(PNG), send(PNG)
    assert one.status_code == again.status_code == 200
    assert one.json()["id"] == again.json()["id"]
    assert error_of(send(PNG + b"\0"), 409)["code"] == "idempotency_conflict"


def test_anothers_idempotency_key_is_another_key(maker: Client) -> None:
    headers = {"idempotency-key": "shared"}
    mine = maker.post(headers=headers, **SMALL).json()["id"]
    other = maker.as_of(OTHER_KEY)
    theirs = other.post(headers=headers, **{**SMALL, "seconds": "2"})
    assert theirs.status_code == 200
    assert theirs.json()["id"] != mine
    other.delete(theirs.json()["id"])


def test_of_twenty_requests_at_once_one_makes_the_task(maker: Client, upstream: Upstream) -> None:
    Job().succeeds(upstream)
    with ThreadPoolExecutor(20) as threads:
        send = partial(maker.post, headers={"idempotency-key": "crowd"}, model="sora")
        responses = [one.result() for one in [threads.submit(send) for _ in range(20)]]
    assert {response.status_code for response in responses} == {200}
    (task,) = {response.json()["id"] for response in responses}
    maker.begun[:] = [task]
    maker.completed(task)
    assert sum(request.method == "POST" for request in upstream.requests) == 1


def test_an_account_with_too_many_tasks_is_told_to_wait(start_gateway: StartGateway, upstream: Upstream) -> None:
    gateway: Gateway = start_gateway(videos.conf(upstream, queued=3))
    client = Client(gateway.url)
    for _ in range(3):
        Job().lasts(upstream)
    tasks = [client.create(model="sora") for _ in range(3)]
    for path in BEGINNINGS[:3]:
        response = client.post(path, model="sora")
        assert error_of(response, 429)["code"] == "too_many_tasks"
        assert int(response.headers["retry-after"]) >= 1
    other = client.as_of(OTHER_KEY)
    assert other.post(**SMALL).status_code == 200
    client.waits_for(tasks[0], "pending")
    client.delete(tasks[0])
    assert client.post(**SMALL).status_code == 200
    client.http.close()


# Waiting


def test_a_long_poll_ends_with_the_task(maker: Client, upstream: Upstream) -> None:
    job = Job()
    polled = [job.polled(job.state("in_progress", 30)), job.polled(Wait("end"), job.state("completed"))]
    upstream.script(job.downloaded(MP4), *polled, job.begins())
    task = maker.create(model="sora")
    maker.waits_for(task, "pending")
    began = time.monotonic()
    assert maker.shown(task, wait=0.3)["status"] == "pending"
    assert 0.3 <= time.monotonic() - began < 20
    with ThreadPoolExecutor(2) as threads:
        paths = ("/v1/videos", "/v1/video/generations")
        waiting = [threads.submit(maker.shown, task, path, wait=60) for path in paths]
        upstream.tell("end")
        told = [one.result(timeout=10) for one in waiting]
    assert [one["status"] for one in told] == ["completed"] * 2


@pytest.mark.parametrize("wait", ["-1", "61", "x", "", "nan", "1e1", "60.0000001", "٣"])
@pytest.mark.parametrize("path", ["/v1/videos", "/v1/video/generations", "/vendor/v1/videos/text2video"])
def test_a_wait_that_is_none_is_refused(maker: Client, path: str, wait: str) -> None:
    response = maker.ask("GET", f"{path}/{NEVER}", params={"wait": wait})
    assert error_of(response, 400)["param"] == "wait"


# What is lost, what is wrong


def test_what_an_upstream_cannot_do_is_said_when_the_task_is_made(maker: Client, upstream: Upstream) -> None:
    response = maker.post(model="kling-film", seconds="5", size="640x480", fps=30, seed=7, surprise="!")
    assert response.status_code == 200, response.text
    assert set(response.headers["x-gate-loss"].split(",")) == {"size", "fps", "seed", "surprise"}
    assert response.headers["x-gate-provider"] == "k"
    for path in BEGINNINGS[:3]:
        strict = maker.post(path, headers={"x-gate-strict": "1"}, model="kling-film", seconds="5", fps=30)
        assert error_of(strict, 400)["param"] == "fps"
    assert maker.post(headers={"x-gate-strict": "1"}, **SMALL).status_code == 200
    assert "x-gate-loss" not in maker.post(**SMALL).headers
    assert sum(one.method == "POST" for one in upstream.requests) <= 1, "what was refused was asked for"


@pytest.mark.parametrize("path", BEGINNINGS)
@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": 5}), ("model", {"model": "no-such-model"}), ("model", {"model": "local-chat"}),
        ("prompt", {"prompt": None}), ("prompt", {"prompt": " "}), ("prompt", {"prompt": ["p"]}),
        ("duration", {"duration": 0}), ("duration", {"duration": "5"}), ("duration", {"duration": True}),
        ("duration", {"duration": 61}), ("seconds", {"seconds": "-4"}), ("seconds", {"seconds": "four"}),
        ("width", {"width": 0, "height": 720}), ("width", {"width": 1e9, "height": 720}),
        ("height", {"width": 1280}), ("height", {"width": 1280, "height": 1.5}),
        ("size", {"size": "big"}), ("size", {"size": "0x0"}), ("fps", {"fps": 0}), ("fps", {"fps": "24"}),
        ("seed", {"seed": 1.5}), ("n", {"n": 0}), ("n", {"n": 5}), ("n", {"n": True}),
        ("watermark", {"watermark": "yes"}), ("metadata", {"metadata": []}), ("user", {"user": 5}),
        ("image", {"image": 5}), ("image", {"image": "not base64!"}), ("image", {"image": "file:///etc/passwd"}),
        ("image", {"image": base64.b64encode(b"no picture at all").decode()}),
        ("webhook_url", {"webhook_url": "ftp://example.com"}), ("webhook_url", {"webhook_url": 5}),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_nothing_is_begun(
    maker: Client, path: str, param: str, fields: dict[str, Any]
) -> None:
    image = {} if "text" in path or path.startswith("/v1") else {"image": base64.b64encode(PNG).decode()}
    response = maker.post(path, **{**image, **fields})
    unknown = fields.get("model") == "no-such-model"
    assert error_of(response, 404 if unknown else 400)["param"] == param
    assert maker.begun == []


@pytest.mark.parametrize("path", BEGINNINGS[:2])
@pytest.mark.parametrize("missing", ["prompt", "seconds", "size", "input_reference"])
def test_a_form_of_the_contract_has_all_its_fields(maker: Client, path: str, missing: str) -> None:
    fields = {"model": "local-video", "prompt": "p", "seconds": "1", "size": "320x240"}
    files = [] if missing == "input_reference" else [("input_reference", ("a.png", PNG, "image/png"))]
    response = maker.form(path, {name: text for name, text in fields.items() if name != missing}, files)
    assert error_of(response, 400)["param"] == missing


def test_a_file_of_a_form_that_is_no_picture_is_refused(maker: Client) -> None:
    fields = {"model": "local-video", "prompt": "p", "seconds": "1", "size": "320x240"}
    for data, kind in ((MP4, "video/mp4"), (b"", "image/png"), (b"text", "image/png")):
        response = maker.form("/v1/videos", fields, [("input_reference", ("a.png", data, kind))])
        assert error_of(response, 400)["param"] == "input_reference"


@pytest.mark.parametrize(
    ("param", "query"),
    [("limit", {"limit": "0"}), ("limit", {"limit": "101"}), ("limit", {"limit": "x"}), ("order", {"order": "up"}),
     ("after", {"after": "../x"})],
)  # fmt: skip
def test_a_wrong_query_of_a_list_is_named(maker: Client, param: str, query: dict[str, str]) -> None:
    assert error_of(maker.ask("GET", "/v1/videos", params=query), 400)["param"] == param


@pytest.mark.parametrize(
    ("param", "query"), [("index", "index=x"), ("index", "index=-1"), ("variant", "variant=thumbnail")]
)
def test_a_wrong_query_of_a_download_is_named(maker: Client, param: str, query: str) -> None:
    assert error_of(maker.ask("GET", f"/v1/videos/{NEVER}/content?{query}"), 400)["param"] == param
