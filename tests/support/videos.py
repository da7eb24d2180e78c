"""One gateway for the tests of video tasks, an HTTP client for it, and the scripted upstream's responses.

A module that needs the fixtures says ``video_gateway, maker = videos.video_gateway, videos.maker``. All modules share
the gateway; tasks of a test are deleted when the test ends, so that no task calls the upstream of the next test.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import av
import httpx
import pytest
from PIL import Image, ImageStat

from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Upstream, answer

KEY, OTHER_KEY, NARROW_KEY = "test-key-of-video-tasks", "test-key-of-another-account", "test-key-for-chats-only"
UPSTREAM_KEY = "key-of-the-upstream"
ACCESS_KEY, SECRET_KEY = "access-key-of-the-maker", "secret-key-of-the-maker-0123456789"
GEMINI_KEY = "gemini-key-of-the-upstream"
CONF = """
server: {{keep_alive_seconds: 0.1}}
plugins: {{local: true, openai: true, kling: true, gemini: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: {upstream_key}}}
  k: {{plugin: kling, base_url: "{url}", api_key: "{access_key}:{secret_key}"}}
  g: {{plugin: gemini, base_url: "{url}", api_key: {gemini_key}}}
  local: {{plugin: local}}
models:
  sora: {{provider: o, model: sora-2}}
  kling-film: {{provider: k, model: kling-v1}}
  veo: {{provider: g, model: veo-3.1-generate-preview}}
  local-video: {{provider: local}}
  local-chat: {{provider: local}}
videos:
  concurrency: {concurrency}
  queued_per_account: {queued}
  poll_seconds: {poll}
  keep_seconds: 600
  prefixes: [vendor, house]
circuits: {{failures: 1000, open_seconds: 0.001}}
fetch: {{allow_private: true}}
keys:
  - {{name: test, key: {key}, account: test}}
  - {{name: other, key: {other}, account: other}}
  - {{name: narrow, key: {narrow}, account: test, operations: [chat]}}
"""
SMALL: dict[str, Any] = {"size": "320x240", "seconds": "1", "fps": 10}
"""A video that the embedded model makes quickly."""
MP4 = b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 2000
VIDEO = {"content-type": "video/mp4"}

_STARTED = pytest.StashKey[Gateway]()


def conf(upstream: Upstream, *, concurrency: int = 4, queued: int = 100, poll: float = 0.02) -> str:
    return CONF.format(
        url=upstream.url, upstream_key=UPSTREAM_KEY, access_key=ACCESS_KEY, secret_key=SECRET_KEY, gemini_key=GEMINI_KEY,
        concurrency=concurrency, queued=queued, poll=poll, key=KEY, other=OTHER_KEY, narrow=NARROW_KEY,
    )  # fmt: skip


@dataclass(slots=True)
class Client:
    """A client of the video API. `begun` are the tasks that it has created and not deleted."""

    url: str
    key: str = KEY
    begun: list[str] = field(default_factory=list)
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=70, verify=False))

    def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **rest: Any) -> httpx.Response:
        """Send a request and return any response. `path` is sent unchanged; an empty key sends no Authorization."""
        shown = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return self.http.request(method, self.url + path, headers={**shown, **(headers or {})}, **rest)

    def as_of(self, key: str) -> Client:
        """The same client with another key."""
        return Client(self.url, key, [], self.http)

    def post(self, path: str = "/v1/videos", headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """Create a task with a JSON body; fields that are None are not sent."""
        body = {"model": "local-video", "prompt": "a fox", **fields}
        response = self.ask("POST", path, headers=headers, json={k: v for k, v in body.items() if v is not None})
        self.note(response)
        return response

    def form(self, path: str, fields: dict[str, str], files: Any = None) -> httpx.Response:
        """Create a task with a form."""
        parts = [(name, (None, text)) for name, text in fields.items()]
        response = self.ask("POST", path, files=[*parts, *(files or [])])
        self.note(response)
        return response

    def note(self, response: httpx.Response) -> None:
        if response.status_code == 200:
            self.begun.append(response.json()["task_id"])

    def create(self, path: str = "/v1/videos", **fields: Any) -> str:
        response = self.post(path, **fields)
        assert response.status_code == 200, response.text
        assert response.json()["status"] == "queued"
        return str(response.json()["task_id"])

    def shown(self, task: str, path: str = "/v1/videos", wait: float | None = None) -> dict[str, Any]:
        response = self.ask("GET", f"{path}/{task}", params=None if wait is None else {"wait": wait})
        assert response.status_code == 200, response.text
        told: dict[str, Any] = response.json()
        return told

    def ended(self, task: str) -> dict[str, Any]:
        told = self.shown(task, wait=60)
        assert told["status"] in ("completed", "failed"), told
        return told

    def completed(self, task: str) -> dict[str, Any]:
        told = self.ended(task)
        assert told["status"] == "completed", told
        return told

    def waits_for(self, task: str, status: str) -> dict[str, Any]:
        """The task as soon as it has the status. Raises AssertionError when the event stream ends before."""
        with self.http.stream("GET", f"{self.url}/v1/videos/{task}/events", headers=self.headers) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: ") and (told := json.loads(line[6:]))["status"] == status:
                    return dict(told)
        raise AssertionError(f"the task {task} never had the status {status}")

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}

    def content(self, task: str, **query: Any) -> httpx.Response:
        return self.ask("GET", f"/v1/videos/{task}/content", params=query or None)

    def delete(self, task: str) -> httpx.Response:
        if task in self.begun:
            self.begun.remove(task)
        return self.ask("DELETE", f"/v1/videos/{task}")

    def close(self) -> None:
        for task in list(self.begun):
            self.delete(task)
        self.http.close()


def error_of(response: httpx.Response, status: int) -> dict[str, str]:
    """The error object of a response, after a check of its status and shape: four strings."""
    assert response.status_code == status, response.text
    error: dict[str, str] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert all(isinstance(value, str) for value in error.values())
    return error


# Responses of the scripted upstream


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the upstream with OpenAI's wire format; no other test uses its id."""

    id: str = field(default_factory=lambda: f"up_{secrets.token_hex(8)}")

    def state(self, status: str, progress: int = 0, **rest: Any) -> str:
        return json.dumps({"id": self.id, "object": "video", "status": status, "progress": progress, **rest})

    def begins(self, status: str = "queued") -> Answer:
        return answer(self.state(status), path="/v1/videos")

    def polled(self, *steps: Any, repeat: bool = False) -> Answer:
        return answer(*steps, path=f"/v1/videos/{self.id}", repeat=repeat)

    def downloaded(self, *steps: Any, **headers: str) -> Answer:
        return answer(*steps, path=f"/v1/videos/{self.id}/content", headers=headers or VIDEO)

    def lasts(self, upstream: Upstream, progress: int = 20) -> None:
        """Script a job that runs and does not end."""
        running = self.polled(self.state("in_progress", progress), repeat=True)
        upstream.script(running, self.begins())

    def succeeds(self, upstream: Upstream, data: bytes = MP4) -> None:
        """Script a job that is completed at its first poll."""
        polled = self.polled(self.state("completed", 100), repeat=True)
        upstream.script(self.downloaded(data), polled, self.begins())


# Videos


@dataclass(frozen=True, slots=True)
class Film:
    """A decoded video file."""

    size: tuple[int, int]
    seconds: float
    fps: float
    first: Image.Image

    @property
    def colour(self) -> tuple[float, ...]:
        """The mean colour of the first frame."""
        return tuple(ImageStat.Stat(self.first).mean)


def film(data: bytes) -> Film:
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        frames: list[Any] = list(container.decode(stream))
        assert stream.average_rate is not None
        assert "mp4" in container.format.name
        rate = float(stream.average_rate)
        first = frames[0].to_image()
        return Film((first.width, first.height), len(frames) / rate, rate, first)


# Fixtures


@pytest.fixture(scope="session")
def video_gateway(
    request: pytest.FixtureRequest, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """A gateway with the embedded provider, and the scripted upstream as OpenAI, Kling and Gemini."""
    stash = request.config.stash
    if _STARTED not in stash:
        stash[_STARTED] = Gateway.start(conf(upstream_process), tmp_path_factory.mktemp("videos"))
        request.session.addfinalizer(stash[_STARTED].stop)
    return stash[_STARTED]


@pytest.fixture
def maker(video_gateway: Gateway, upstream: Upstream) -> Iterator[Client]:
    """A client whose tasks are deleted at the end of the test."""
    client = Client(video_gateway.url)
    yield client
    client.close()
