"""Video tasks between upstreams that go their own ways and receivers of webhooks: which key goes where, and what is believed.

Pauses that last ten seconds and more are not waited for: the gateway is stopped, its record of the task is told that the pause
is over, and a new process goes on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.support import videos
from tests.support.gateway import Gateway
from tests.support.upstream import RecordedRequest, Upstream, answer
from tests.support.videos import (
    ACCESS_KEY,
    GEMINI_KEY,
    MP4,
    OTHER_KEY,
    SECRET_KEY,
    UPSTREAM_KEY,
    VIDEO,
    Client,
    Job,
    error_of,
)
from tornado_gate.tasks.record import TaskRecord, decode_record, encode_record
from tornado_gate.tasks.webhook_secrets import WebhookSecretStore
from tornado_gate.types import replace

VEO = "/v1beta/models/veo-3.1-generate-preview"
OPERATION = "models/veo-3.1-generate-preview/operations/abc123"
REFUSED = json.dumps({"error": {"message": "The file has expired."}})

video_gateway = videos.video_gateway


class VideoSite:
    """A gateway, which can be started again on the same folder."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.folder = gateway.folder
        self.client = Client(gateway.url)

    def record(self, task: str) -> TaskRecord:
        path = self.folder / "var" / "tasks" / "records" / task[6:8] / f"{task}.json"
        return decode_record(path.read_bytes())

    def until(self, task: str, holds: Callable[[TaskRecord], bool]) -> None:
        """Until the record of the task on the disk is such a one."""
        for _ in range(200):
            if holds(self.record(task)):
                return
            self.client.shown(task, wait=0.05)
        raise AssertionError(f"it never came to that: {self.record(task)}")

    def later(self, task: str, **changes: Any) -> None:
        """A new process, when the pause that the task makes is over."""
        self.gateway.stop()
        record = self.record(task)
        webhook = None if record.webhook is None else {**record.webhook, "next_at": 0.0}
        path = self.folder / "var" / "tasks" / "records" / task[6:8] / f"{task}.json"
        path.write_bytes(encode_record(replace(record, next_poll_at=0.0, webhook=webhook, **changes)))
        self.client.http.close()
        self.gateway = Gateway.start((self.folder / "gate.yaml").read_text(), self.folder)
        self.client = Client(self.gateway.url)

    def told(self, task: str, attempts: int) -> None:
        """Until its webhook was called so often in vain."""
        self.until(task, lambda record: (record.webhook or {}).get("attempts") == attempts)

    def files(self) -> list[Path]:
        return [path for path in (self.folder / "var" / "videos").glob("*") if not path.name.endswith(".about")]


@pytest.fixture
def start(upstream: Upstream, tmp_path: Path) -> Iterator[Callable[[str], VideoSite]]:
    sites: list[VideoSite] = []

    def begin(conf: str) -> VideoSite:
        sites.append(VideoSite(Gateway.start(conf, tmp_path)))
        return sites[-1]

    yield begin
    for site in sites:
        site.client.http.close()
        site.gateway.stop()


@pytest.fixture
def site(start: Callable[[str], VideoSite], upstream: Upstream) -> VideoSite:
    """One that may be started again."""
    return start(videos.conf(upstream))


@pytest.fixture
def shared(video_gateway: Gateway, upstream: Upstream) -> Iterator[VideoSite]:
    """The one of all tests."""
    site = VideoSite(video_gateway)
    yield site
    site.client.close()


def abroad(upstream: Upstream, path: str) -> str:
    """An address of the same server under another name, so another host."""
    return upstream.url.replace("127.0.0.1", "localhost") + path


def at(upstream: Upstream, path: str) -> list[RecordedRequest]:
    return [request for request in upstream.requests if request.path.startswith(path)]


def keys_in(request: RecordedRequest) -> str:
    """Whatever of a request could hold a key."""
    return json.dumps([request.path, dict(request.headers), request.body.decode("latin-1")])


# Gemini


def veo(upstream: Upstream, uri: str) -> None:
    done = {"generateVideoResponse": {"generatedSamples": [{"video": {"uri": uri}}]}}
    upstream.script(
        answer(json.dumps({"name": OPERATION}), path=f"{VEO}:predictLongRunning"),
        answer(json.dumps({"name": OPERATION, "done": True, "response": done}), path=f"/v1beta/{OPERATION}"),
    )


def test_gemini_makes_a_video_which_is_fetched_with_the_key_from_its_own_host(
    site: VideoSite, upstream: Upstream
) -> None:
    veo(upstream, f"{upstream.url}/v1beta/files/f1:download?alt=media")
    upstream.script(answer(MP4, path="/v1beta/files/", headers=VIDEO))
    task = site.client.create(model="veo", seconds="8", size="1280x720")
    assert site.client.waits_for(task, "pending")["progress"] == 0
    site.later(task)
    site.client.completed(task)
    assert site.client.content(task).content == MP4
    begin, poll, file = upstream.requests
    assert [one.method for one in upstream.requests] == ["POST", "GET", "GET"]
    assert begin.json["parameters"] == {"aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 8}
    assert [one.headers["x-goog-api-key"] for one in (begin, poll, file)] == [GEMINI_KEY] * 3
    assert file.path == "/v1beta/files/f1:download?alt=media"


@pytest.mark.parametrize("redirected", [False, True])
def test_geminis_key_does_not_go_to_another_host(site: VideoSite, upstream: Upstream, redirected: bool) -> None:
    store = abroad(upstream, "/store/f1.mp4")
    veo(upstream, f"{upstream.url}/v1beta/files/f1:download?alt=media" if redirected else store)
    upstream.script(
        answer(status=302, path="/v1beta/files/", headers={"location": store}),
        answer(MP4, path="/store/", headers=VIDEO),
    )
    task = site.client.create(model="veo")
    site.client.waits_for(task, "pending")
    site.later(task)
    site.client.completed(task)
    assert site.client.content(task).content == MP4
    (fetched,) = at(upstream, "/store/")
    assert fetched.headers["host"].startswith("localhost")
    assert GEMINI_KEY not in keys_in(fetched)
    assert len(at(upstream, "/v1beta/files/")) == redirected


# Kling


def kling(upstream: Upstream, url: str) -> None:
    def said(status: str, **rest: Any) -> str:
        task = {"task_id": "k1", "task_status": status, "created_at": 1, "updated_at": 1, **rest}
        return json.dumps({"code": 0, "message": "SUCCEED", "request_id": "r", "data": task})

    video = {"id": "v1", "url": url, "duration": "5.1"}
    upstream.script(
        answer(said("processing"), path="/v1/videos/text2video/k1"),
        answer(said("succeed", task_result={"videos": [video]}), path="/v1/videos/text2video/k1", repeat=True),
        answer(said("submitted"), path="/v1/videos/text2video"),
    )


def test_kling_makes_a_video_by_signed_tokens(shared: VideoSite, upstream: Upstream) -> None:
    kling(upstream, f"{upstream.url}/files/v1.mp4")
    upstream.script(answer(MP4, path="/files/", headers=VIDEO))
    task = shared.client.create("/vendor/v1/videos/text2video", model="kling-film", seconds="5", size="1280x720")
    shared.client.completed(task)
    assert shared.client.content(task).content == MP4
    (video,) = shared.client.shown(task, "/vendor/v1/videos/text2video")["videos"]
    assert video["duration"] == 5.1
    assert upstream.requests[0].json == {
        "model_name": "kling-v1", "prompt": "a fox", "duration": "5", "aspect_ratio": "16:9", "external_task_id": task,
    }  # fmt: skip
    assert len(upstream.requests) == 4
    for request in upstream.requests:
        token = request.headers["authorization"].removeprefix("Bearer ")
        assert jwt.decode(token, OctKey.import_key(SECRET_KEY), algorithms=["HS256"]).claims["iss"] == ACCESS_KEY
        assert SECRET_KEY not in keys_in(request)


@pytest.mark.qa
def test_a_video_of_kling_that_is_not_behind_https_is_not_fetched(site: VideoSite, upstream: Upstream) -> None:
    kling(upstream, abroad(upstream, "/store/v1.mp4"))
    task = site.client.create(model="kling-film", seconds="5")
    site.until(task, lambda record: record.failures == 1)
    assert error_of(site.client.content(task), 404)["code"] == "video_not_ready"
    site.later(task, failures=7)
    assert site.client.ended(task)["error"]["code"] == "download_failed"
    assert at(upstream, "/store/") == []


# What comes in the place of a video


def test_what_says_of_itself_that_it_is_no_video_is_never_served_as_one(site: VideoSite, upstream: Upstream) -> None:
    job = Job()
    upstream.script(
        job.downloaded(REFUSED, **{"content-type": "application/json"}),
        job.downloaded(f"<p>{REFUSED}</p>", **{"content-type": "text/html; charset=utf-8"}),
        job.polled(job.state("completed", 100), repeat=True),
        job.begins(),
    )
    task = site.client.create(model="sora")
    site.until(task, lambda record: record.failures == 1)
    assert site.client.shown(task)["status"] == "pending"
    assert error_of(site.client.content(task), 404)["code"] == "video_not_ready"
    assert site.files() == []
    site.later(task, failures=7)
    told = site.client.ended(task)
    assert (told["status"], told["error"]["code"]) == ("failed", "download_failed")
    assert "url" not in told
    assert "expired" not in json.dumps(told), "what a file server says is not for callers"
    assert error_of(site.client.content(task), 404)["code"] == "video_not_ready"
    assert site.files() == []


def test_an_upstreams_key_is_in_no_answer_no_log_and_no_record(shared: VideoSite, upstream: Upstream) -> None:
    job = Job()
    error = {"code": "bad", "message": f"The key {UPSTREAM_KEY} is not good for foxes."}
    upstream.script(job.polled(job.state("failed", error=error)), job.begins())
    task = shared.client.create(model="sora")
    told = shared.client.ended(task)
    assert "is not good for foxes" in told["error"]["message"]
    assert UPSTREAM_KEY not in json.dumps(told)
    assert UPSTREAM_KEY not in encode_record(shared.record(task)).decode()
    assert UPSTREAM_KEY not in shared.gateway.logs


# Webhooks


def unwrapped(shared: VideoSite, request: RecordedRequest) -> Any:
    """The event, when its signature is right by the vendor's SDK."""
    (secret,) = WebhookSecretStore(shared.folder / "var").get("test")
    with openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9", webhook_secret=secret) as client:
        return client.webhooks.unwrap(request.body, dict(request.headers))


def hook(upstream: Upstream, *statuses: int) -> str:
    upstream.script(*(answer(status=status, path="/hook", headers={}) for status in statuses))
    return f"{upstream.url}/hook?of=us"


def test_a_webhook_that_would_not_be_sent_is_refused(shared: VideoSite, upstream: Upstream) -> None:
    WebhookSecretStore(shared.folder / "var").turn_off("other")
    body = {"model": "sora", "prompt": "a fox", "webhook_url": f"{upstream.url}/hook"}
    other = Client(shared.gateway.url, OTHER_KEY)
    error = error_of(other.ask("POST", "/v1/videos", json=body), 400)
    assert (error["code"], error["param"]) == ("webhooks_off", "webhook_url")
    assert upstream.requests == []
    other.http.close()


def test_a_webhook_is_told_of_a_video_in_the_vendors_words(shared: VideoSite, upstream: Upstream) -> None:
    url = hook(upstream, 204)
    Job().succeeds(upstream)
    task = shared.client.create(model="sora", webhook_url=url)
    shared.until(task, lambda record: record.step == "done")
    told = shared.client.completed(task)
    (request,) = at(upstream, "/hook")
    event = unwrapped(shared, request)
    assert (request.method, request.path, event.type) == ("POST", "/hook?of=us", "video.completed")
    assert request.headers["webhook-id"] == event.id
    assert event.created_at == told["completed_at"]
    data = json.loads(request.body)["data"]
    assert data == {name: told[name] for name in data}
    assert (data["id"], data["status"]) == (task, "completed")
    assert "a fox" not in request.body.decode()
    assert videos.KEY not in keys_in(request)


def test_a_forged_webhook_is_noticed(shared: VideoSite, upstream: Upstream) -> None:
    url = hook(upstream, 200)
    job = Job()
    upstream.script(job.polled(job.state("failed", error={"code": "no", "message": "No."})), job.begins())
    task = shared.client.create(model="sora", webhook_url=url)
    shared.until(task, lambda record: record.step == "done")
    (request,) = at(upstream, "/hook")
    assert unwrapped(shared, request).type == "video.failed"
    assert json.loads(request.body)["data"]["error"] == {"code": "no", "message": "No."}
    forged = dataclasses.replace(request, body=request.body.replace(b"video.failed", b"video.completed"))
    with pytest.raises(openai.InvalidWebhookSignatureError):
        unwrapped(shared, forged)


@pytest.mark.qa
def test_a_webhook_is_repeated_until_it_is_taken_and_then_no_more(site: VideoSite, upstream: Upstream) -> None:
    url = hook(upstream, 500, 503, 200)
    Job().succeeds(upstream)
    task = site.client.create(model="sora", webhook_url=url)
    site.client.completed(task)
    for attempts in (1, 2):
        site.told(task, attempts)
        assert len(at(upstream, "/hook")) == attempts
        site.later(task)
    site.until(task, lambda record: record.step == "done")
    site.later(task)
    assert site.client.completed(task)["status"] == "completed"
    requests = at(upstream, "/hook")
    assert len(requests) == 3
    assert {unwrapped(site, request).id for request in requests} == {requests[0].headers["webhook-id"]}
    assert len({request.body for request in requests}) == 1


def test_a_webhook_at_a_private_address_is_not_called_unless_conf_allows_it(
    start: Callable[[str], VideoSite], upstream: Upstream
) -> None:
    site = start(videos.conf(upstream).replace("allow_private: true", "allow_private: false"))
    Job().succeeds(upstream)
    task = site.client.create(model="sora", webhook_url=hook(upstream, 200))
    assert site.client.completed(task)["status"] == "completed"
    site.told(task, 1)
    assert at(upstream, "/hook") == []
