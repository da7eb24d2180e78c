"""openai-python against video tasks, whose forms, states and errors are the vendor's here."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from qa.sdk.media_files import data_url, form_in, picture_file
from tests.support import videos
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, Wait
from tests.support.videos import KEY, MP4, OTHER_KEY, UPSTREAM_KEY, Job, film

video_gateway = videos.video_gateway

pytestmark = pytest.mark.filterwarnings(
    "ignore:The Sora API is scheduled"
)  # so says the SDK of its own vendor's service
# The SDK's types name the vendor's models, lengths and sizes only; a server may have others.
SMALL: dict[str, Any] = {"model": "local-video", "prompt": "a fox", "seconds": "1", "size": "320x240"}
SORA: dict[str, Any] = {"model": "sora", "prompt": "a fox"}
PICTURE = picture_file((320, 240), (200, 30, 30))


@pytest.fixture(scope="module")
def client(video_gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{video_gateway.url}/v1", api_key=KEY, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def others(video_gateway: Gateway) -> Iterator[openai.OpenAI]:
    """An account that has no tasks but those of the test."""
    with openai.OpenAI(base_url=f"{video_gateway.url}/v1", api_key=OTHER_KEY, max_retries=0, timeout=30) as client:
        yield client
        for video in client.videos.list():
            client.videos.delete(video.id)


def until(client: openai.OpenAI, task: str, *states: str) -> Any:
    """The video as soon as its state is one of these."""
    ends = time.monotonic() + 60
    while (video := client.videos.retrieve(task, extra_query={"wait": 0.2})).status not in states:
        assert time.monotonic() < ends, f"the video stayed {video.status}"
    return video


@pytest.mark.representative
def test_a_video_is_made_followed_and_downloaded(client: openai.OpenAI) -> None:
    video = client.videos.create_and_poll(**SMALL, poll_interval_ms=50)
    assert (video.status, video.progress, video.error) == ("completed", 100, None)
    assert (video.model, video.object, video.prompt) == ("local-video", "video", "a fox")
    assert (video.seconds, video.size, video.remixed_from_video_id) == ("1", "320x240", None)
    assert video.completed_at is not None
    assert video.expires_at is not None
    assert video.created_at <= video.completed_at < video.expires_at
    made = film(client.videos.download_content(video.id).content)
    assert made.size == (320, 240)
    assert made.seconds == pytest.approx(1, abs=0.1)
    client.videos.delete(video.id)


@pytest.mark.parametrize("inside", [False, True], ids=["file", "data URL"])
def test_a_video_begins_with_the_picture_that_was_given(client: openai.OpenAI, inside: bool) -> None:
    """The SDK itself takes files only, whatever its types say; further fields it spells ``input_reference[image_url]``."""
    reference = {"input_reference": {"image_url": data_url(PICTURE)}}
    given: Any = {"extra_body": reference} if inside else {"input_reference": ("a.png", PICTURE, "image/png")}
    video = client.videos.create_and_poll(**SMALL, **given, poll_interval_ms=50)
    assert video.status == "completed"
    assert film(client.videos.download_content(video.id).content).colour == pytest.approx((200, 30, 30), abs=40)
    client.videos.delete(video.id)


def test_states_are_the_vendors_and_the_form_arrives_whole(client: openai.OpenAI, upstream: Upstream) -> None:
    job = Job()
    polled = [job.polled(job.state("in_progress", 30)), job.polled(Wait("end"), job.state("completed", 100))]
    upstream.script(job.downloaded(MP4), *polled, job.begins())
    file = ("fox.png", PICTURE, "image/png")
    video = client.videos.create(**SORA, seconds="8", size="1280x720", input_reference=file)
    assert (video.status, video.progress, video.seconds, video.size) == ("queued", 0, "8", "1280x720")
    assert until(client, video.id, "in_progress").progress == 30
    with pytest.raises(openai.NotFoundError) as caught:
        client.videos.download_content(video.id)
    assert caught.value.code == "video_not_ready"
    upstream.tell("end")
    assert client.videos.poll(video.id, poll_interval_ms=20).status == "completed"
    assert client.videos.download_content(video.id).content == MP4
    begun = upstream.requests[0]
    form = form_in(begun)
    assert form.texts == {"model": "sora-2", "prompt": "a fox", "seconds": "8", "size": "1280x720"}
    assert [(one.name, one.media_type, one.data) for one in form.files] == [("input_reference", "image/png", PICTURE)]
    assert begun.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"


def test_a_form_without_a_file_is_enough_and_fields_unknown_here_arrive(
    client: openai.OpenAI, upstream: Upstream
) -> None:
    Job().succeeds(upstream)
    video = client.videos.create(**SORA, extra_body={"quality": "best"})
    assert client.videos.poll(video.id, poll_interval_ms=20).status == "completed"
    form = form_in(upstream.requests[0])
    assert form.texts == {"model": "sora-2", "prompt": "a fox", "quality": "best"}
    assert form.files == []


def test_a_failed_video_says_why(client: openai.OpenAI, upstream: Upstream) -> None:
    job = Job()
    error = {"code": "moderation_blocked", "message": "No such foxes."}
    upstream.script(job.polled(job.state("failed", error=error)), job.begins())
    video = client.videos.create_and_poll(**SORA, poll_interval_ms=20)
    assert video.status == "failed"
    assert video.error is not None
    assert (video.error.code, video.error.message) == ("moderation_blocked", "No such foxes.")


def test_a_file_is_streamed_to_the_disk(client: openai.OpenAI, upstream: Upstream, tmp_path: Path) -> None:
    data = MP4 * 10
    Job().succeeds(upstream, data)
    video = client.videos.create_and_poll(**SORA, poll_interval_ms=20)
    with client.videos.with_streaming_response.download_content(video.id) as response:
        assert response.headers["content-length"] == str(len(data))
        response.stream_to_file(tmp_path / "fox.mp4")
    assert (tmp_path / "fox.mp4").read_bytes() == data
    part = client.videos.download_content(video.id, extra_headers={"range": "bytes=-4"})
    assert (part.response.status_code, part.content) == (206, data[-4:])
    with pytest.raises(openai.BadRequestError) as caught:
        client.videos.download_content(video.id, variant="thumbnail")
    assert caught.value.param == "variant"


def test_tasks_are_listed_over_pages_in_both_orders_and_deleted(others: openai.OpenAI) -> None:
    ids = [others.videos.create(**SMALL).id for _ in range(5)]
    assert [video.id for video in others.videos.list(limit=2)] == ids[::-1]
    assert [video.id for video in others.videos.list(limit=2, order="asc")] == ids
    page = others.videos.list(limit=2, order="asc", after=ids[2])
    assert ([video.id for video in page.data], page.has_more) == (ids[3:], False)
    for name in ids:
        gone = others.videos.delete(name)
        assert (gone.id, gone.deleted, gone.object) == (name, True, "video.deleted")
        with pytest.raises(openai.NotFoundError):
            others.videos.retrieve(name)
    assert others.videos.list().data == []


def test_a_remix_is_asked_of_the_upstream_that_made_the_video(client: openai.OpenAI, upstream: Upstream) -> None:
    first, second = Job(), Job()
    first.succeeds(upstream)
    video = client.videos.create_and_poll(**SORA, seconds="4", size="720x1280", poll_interval_ms=20)
    upstream.reset()
    second.succeeds(upstream, MP4 + b"changed")
    changed = client.videos.remix(video.id, prompt="now in the rain")
    assert (changed.status, changed.remixed_from_video_id, changed.prompt) == ("queued", video.id, "now in the rain")
    assert (changed.seconds, changed.size, changed.model) == ("4", "720x1280", "sora")
    assert client.videos.poll(changed.id, poll_interval_ms=20).status == "completed"
    assert client.videos.download_content(changed.id).content == MP4 + b"changed"
    assert client.videos.download_content(video.id).content == MP4
    begun = upstream.requests[0]
    assert (begun.method, begun.path) == ("POST", f"/v1/videos/{first.id}/remix")
    assert begun.json == {"prompt": "now in the rain"}


def test_what_is_not_done_cannot_be_remixed(client: openai.OpenAI, upstream: Upstream) -> None:
    Job().lasts(upstream)
    video = client.videos.create(**SORA)
    with pytest.raises(openai.NotFoundError) as caught:
        client.videos.remix(video.id, prompt="now in the rain")
    assert caught.value.code == "video_not_ready"
    client.videos.delete(video.id)


def test_errors_are_the_sdks_own_and_name_the_field(client: openai.OpenAI) -> None:
    for param, wrong in (("size", "big"), ("seconds", "0"), ("prompt", " "), ("model", "local-chat")):
        with pytest.raises(openai.BadRequestError) as caught:
            client.videos.create(**{**SMALL, param: wrong})
        assert caught.value.param == param
    with pytest.raises(openai.NotFoundError) as unknown:
        client.videos.retrieve("video_none")
    assert unknown.value.code == "task_not_found"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").videos.create(**SMALL)


def test_an_asynchronous_client_makes_several_at_once(video_gateway: Gateway) -> None:
    async def one(client: openai.AsyncOpenAI, seconds: str) -> bytes:
        video = await client.videos.create_and_poll(**{**SMALL, "seconds": seconds}, poll_interval_ms=50)
        content = await client.videos.download_content(video.id)
        await client.videos.delete(video.id)
        data: bytes = content.content
        return data

    async def ask() -> list[bytes]:
        async with openai.AsyncOpenAI(base_url=f"{video_gateway.url}/v1", api_key=KEY, max_retries=0) as client:
            return list(await asyncio.gather(*(one(client, seconds) for seconds in ("1", "2", "1.5"))))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        lengths = [film(data).seconds for data in asyncio.run(ask())]
    assert lengths == pytest.approx([1, 2, 1.5], abs=0.1)
