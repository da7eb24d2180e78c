"""Webhooks: what is said, how it is signed, how often it is tried, and that the vendors' own SDK believes it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.testing import bind_unused_port

from tornado_gate.http.fetch import Fetcher, FetchRules, PostFailed
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.webhook_secrets import WebhookSecretError
from tornado_gate.tasks.webhook_sender import (
    ATTEMPTS,
    WebhookSender,
    build_payload,
    compute_pause,
    deliver,
    make_event_id,
    sign,
)
from tornado_gate.types import VideoFile, VideoTask

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OLD_SECRET = "whsec_" + base64.b64encode(KEY[::-1] + b"old").decode()
TASK = VideoTask(
    id="video_0123456789abcdef0123456789abcdef",
    model="sora-2",
    status="completed",
    progress=100,
    created_at=1_700_000_000,
    completed_at=1_700_000_090,
    expires_at=1_700_086_490,
    prompt="A private matter",
    files=(VideoFile(id="file", media_type="video/mp4", size=10),),
    urls=("https://gate.test/videos/file?signature=secret",),
)
FAILED = VideoTask(
    id=TASK.id,
    model="sora-2",
    status="failed",
    progress=40,
    created_at=1_700_000_000,
    error_code="moderation",
    error_message="The prompt was refused.",
)


class Post:
    """A fetcher whose posts are answered by a script."""

    def __init__(self, *answers: int | str) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, account: str) -> int:
        self.sent.append((url, body, dict(headers)))
        said = self.answers.pop(0)
        if isinstance(said, str):
            raise PostFailed(said)
        return said


async def sent(post: Any, *, at: float = 1_700_000_100.9, secret: str = SECRET) -> bool:
    return await deliver(post, [secret], "https://site.test/hook", "evt_1", build_payload(TASK), lambda: at)


# What is said


def test_a_completed_task_is_told_as_openai_tells_it() -> None:
    event = json.loads(build_payload(TASK))
    assert event == {
        "id": make_event_id(TASK),
        "object": "event",
        "type": "video.completed",
        "created_at": 1_700_000_090,
        "data": {
            "id": TASK.id,
            "object": "video",
            "status": "completed",
            "model": "sora-2",
            "created_at": 1_700_000_000,
            "completed_at": 1_700_000_090,
            "expires_at": 1_700_086_490,
        },
    }


def test_a_failed_task_is_told_with_its_reason() -> None:
    event = json.loads(build_payload(FAILED))
    assert (event["type"], event["created_at"]) == ("video.failed", FAILED.created_at)
    assert event["data"]["status"] == "failed"
    assert event["data"]["error"] == {"code": "moderation", "message": "The prompt was refused."}


def test_neither_the_prompt_nor_an_address_that_needs_no_key_is_told() -> None:
    assert b"private" not in build_payload(TASK)
    assert b"signature" not in build_payload(TASK)


@pytest.mark.parametrize("status", ["queued", "pending"])
def test_a_task_that_has_not_ended_is_not_told(status: Any) -> None:
    with pytest.raises(ValueError, match=status):
        build_payload(VideoTask(id="video_1", model="m", status=status, progress=0, created_at=1))


def test_an_event_has_one_id_however_often_it_is_told_and_another_event_has_another() -> None:
    later = VideoTask(id=TASK.id, model="x", status="completed", progress=100, created_at=1, urls=("https://new",))
    assert make_event_id(TASK) == make_event_id(later)
    assert build_payload(TASK) == build_payload(TASK)
    other = VideoTask(id="video_2", model="x", status="completed", progress=100, created_at=1)
    assert len({make_event_id(TASK), make_event_id(FAILED), make_event_id(other)}) == 3
    assert make_event_id(TASK).startswith("evt_")
    assert "." not in make_event_id(TASK)


# How it is signed


def test_a_signature_is_the_one_of_the_specification() -> None:
    body = '{"a":"ü"}'.encode()
    digest = hmac.new(KEY, b"evt_1.1700000000." + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    assert sign([SECRET], "evt_1", 1_700_000_000, body) == signature
    assert sign([OLD_SECRET, SECRET], "evt_1", 1_700_000_000, body).split(" ")[1:] == [signature]


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_!!!!",
        base64.b64encode(KEY).decode(),
        "whsk_" + base64.b64encode(KEY).decode(),
        "whsec_" + base64.b64encode(KEY[:23]).decode(),
        SECRET[:-1],
    ],
)
def test_nothing_is_signed_with_a_secret_that_is_none(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 24 bytes"):
        sign([secret], "evt_1", 1, b"{}")


@pytest.mark.gen_test
async def test_headers_hold_what_was_signed() -> None:
    post = Post(200)
    assert await sent(post)
    [(url, body, headers)] = post.sent
    assert (url, body) == ("https://site.test/hook", build_payload(TASK))
    assert headers == {
        "Content-Type": "application/json",
        "webhook-id": "evt_1",
        "webhook-timestamp": "1700000100",
        "webhook-signature": sign([SECRET], "evt_1", 1_700_000_100, body),
    }


@pytest.mark.gen_test
async def test_each_attempt_is_signed_at_its_own_time_under_the_same_id() -> None:
    post = Post(500, 200)
    assert not await sent(post, at=1_700_000_100)
    assert await sent(post, at=1_700_000_900)
    first, second = (headers for _, _, headers in post.sent)
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-timestamp"] != second["webhook-timestamp"]
    assert first["webhook-signature"] != second["webhook-signature"]


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    with OpenAI(api_key="sk-test") as client:
        yield client


@pytest.mark.gen_test
@pytest.mark.parametrize("task", [TASK, FAILED])
async def test_the_sdk_of_openai_believes_what_arrives_and_nothing_else(client: OpenAI, task: VideoTask) -> None:
    got: list[HTTPServerRequest] = []

    def receive(request: HTTPServerRequest) -> None:
        got.append(request)
        assert request.connection is not None
        request.connection.write_headers(ResponseStartLine("HTTP/1.1", 204, "No Content"), HTTPHeaders())
        request.connection.finish()

    socket, port = bind_unused_port()
    server = HTTPServer(receive)
    server.add_socket(socket)
    fetcher = Fetcher(FetchRules(allow_networks=(ip_network("127.0.0.1/32"),)))
    url = f"http://127.0.0.1:{port}/hook"
    assert await deliver(fetcher, [SECRET, OLD_SECRET], url, make_event_id(task), build_payload(task), time.time)
    await fetcher.close()
    server.stop()
    [request] = got
    event: Any = client.webhooks.unwrap(request.body, dict(request.headers), secret=SECRET)
    client.webhooks.verify_signature(request.body, dict(request.headers), secret=OLD_SECRET)  # during a rotation
    assert (event.id, event.type, event.object) == (make_event_id(task), f"video.{task.status}", "event")
    assert event.data.id == task.id
    forged = request.body.replace(b"video.", b"vide0.")
    for body, secret in ((forged, SECRET), (request.body, "whsec_" + base64.b64encode(KEY[::-1]).decode())):
        with pytest.raises(InvalidWebhookSignatureError):
            client.webhooks.verify_signature(body, dict(request.headers), secret=secret)


# How often it is tried


@pytest.mark.gen_test
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299, 410])
async def test_a_receiver_that_took_it_or_wants_no_more_is_left_alone(status: int) -> None:
    assert await sent(Post(status))


@pytest.mark.gen_test
@pytest.mark.parametrize("said", [199, 304, 400, 401, 404, 409, 429, 500, 502, 503, 504, "This address redirects."])
async def test_every_other_answer_is_a_reason_to_try_again(said: int | str) -> None:
    assert not await sent(Post(said))


@pytest.mark.gen_test
async def test_the_log_says_why_and_holds_neither_the_address_nor_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tornado_gate"):
        for said in (200, 410, 500, "This address could not be read."):
            await sent(Post(said))
    assert "answered 410" in caplog.text
    assert "answered 500" in caplog.text
    assert "could not be read" in caplog.text
    assert "/hook" not in caplog.text
    assert SECRET[6:] not in caplog.text


def test_eight_attempts_take_about_an_hour_and_each_pause_is_longer_or_the_longest() -> None:
    pauses = [compute_pause(attempts, lambda: 0.5) for attempts in range(1, 8)]
    assert pauses == [10, 30, 90, 270, 810, 1200, 1200]
    assert compute_pause(0) == 0
    assert compute_pause(8) is None
    assert compute_pause(1000) is None


def test_webhooks_that_failed_together_do_not_come_back_together() -> None:
    assert (compute_pause(3, lambda: 0.0), compute_pause(3, lambda: 1.0)) == (pytest.approx(81), pytest.approx(99))
    assert len({compute_pause(7) for _ in range(10)}) > 1


# Attempts


class Secrets:
    """The secrets of accounts: `secret` for all of them, none, or a fault."""

    def __init__(self, secret: str | Exception | None = SECRET) -> None:
        self.secret = secret
        self.is_closed = False

    def get(self, account: str) -> list[str]:
        if isinstance(self.secret, Exception):
            raise self.secret
        return [] if self.secret is None else [self.secret]

    def close(self) -> None:
        self.is_closed = True


async def attempt(post: Post, secrets: Secrets, attempts: int) -> float | None:
    record = TaskRecord(
        id=TASK.id, account="a", model="m", provider="p", upstream_model="m", created_at=1.0, deadline=2.0, request={},
        status="completed", webhook={"url": "https://site.test/hook", "attempts": attempts},
    )  # fmt: skip
    sender: Any = WebhookSender(post, secrets)  # type: ignore[arg-type]
    pause: float | None = await sender.send(record)
    assert await sender.is_off("a") == (secrets.secret is None)
    sender.close()
    assert secrets.is_closed
    return pause


@pytest.mark.gen_test
@pytest.mark.parametrize("attempts", range(ATTEMPTS))
async def test_the_pause_after_an_attempt_that_failed_counts_it(attempts: int) -> None:
    pause = await attempt(Post(500), Secrets(), attempts)
    usual = compute_pause(attempts + 1, lambda: 0.5)
    assert pause is None if usual is None else pause == pytest.approx(usual, rel=0.11)
    assert (pause is None) == (attempts + 1 == ATTEMPTS)


@pytest.mark.gen_test
async def test_a_webhook_that_was_delivered_or_is_off_is_not_repeated_and_one_that_cannot_be_signed_is() -> None:
    delivered, off, unsigned = Post(204), Post(), Post()
    assert await attempt(delivered, Secrets(), 0) is None
    assert len(delivered.sent) == 1
    assert await attempt(off, Secrets(None), 0) is None
    assert await attempt(unsigned, Secrets(WebhookSecretError("the file is damaged")), 0) is not None
    assert off.sent == unsigned.sent == []
