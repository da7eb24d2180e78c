"""Videos, against a real server: begun, asked about, fetched from wherever they are."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from gemini_calls import BASE, KEY, call_for, translate_request
from gemini_media import PNG

import tornado_gate_gemini.provider as plugin
from tests.support.upstream import Answer, Close, Upstream, answer
from tornado_gate.errors import (
    GateError,
    InvalidField,
    UnsupportedOperation,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRefused,
)
from tornado_gate.http.fetch import Fetcher, FetchRules
from tornado_gate.http.upstream import Pool, call_upstream
from tornado_gate.streams.events import OrderChecker, read_single_event
from tornado_gate.types import (
    Call,
    Data,
    Timeouts,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
    replace,
)
from tornado_gate_gemini.provider.videos import build_file_url

VEO = "veo-3.1-generate-preview"
NAME = f"models/{VEO}/operations/abc123"
FILE = "/v1beta/files/x1y2:download?alt=media"
MP4 = b"\0\0\0\x18ftypmp42" + b"\0" * 600
GOOGLE = "https://generativelanguage.googleapis.com"


def make_request(**fields: Any) -> VideoRequest:
    return VideoRequest(**{"model": "asked", "prompt": "A cat", "task_id": "video_1", **fields})


def poll(operation: Any) -> VideoPoll:
    return VideoPoll(model="asked", task_id="video_1", operation=operation)


def download(*videos: str, index: int = 0) -> VideoDownload:
    operation = {"name": NAME, "videos": list(videos)}
    return VideoDownload(model="asked", task_id="video_1", operation=operation, index=index)


def make_answer(body: Any, status: int = 200, **headers: str) -> Answer:
    return answer(json.dumps(body), status=status, headers={"content-type": "application/json", **headers})


def redirect(to: str, path: str = "") -> Answer:
    return answer(status=302, headers={"location": to}, path=path)


def film(path: str = "") -> Answer:
    return answer(MP4[:30], MP4[30:], headers={"content-type": "video/mp4"}, path=path)


def elsewhere(upstream: Upstream) -> str:
    """The same server by another host's name."""
    return upstream.url.replace("127.0.0.1", "localhost")


@asynccontextmanager
async def reaching(upstream: Upstream, **rules: Any) -> AsyncIterator[Call]:
    """A call that reaches a real upstream, and may fetch from this machine."""
    pool = Pool(Timeouts(connect=2))
    fetcher = Fetcher(FetchRules(**{"allow_private": True, **rules}))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(fetcher.close)
        closing.push_async_callback(pool.close)
        call = call_for(VEO)
        target = replace(call.target, base_url=f"{upstream.url}/v1beta")
        yield replace(call, target=target, pool=pool, fetcher=fetcher, closing=closing)


async def stands(call: Call, request: Any) -> VideoOperation:
    """All stops of a request, the order of events checked."""
    incoming = await call_upstream(call, await plugin.translate_request(call, request))
    checker = OrderChecker()

    async def checked() -> Any:
        async for event in plugin.translate_response(call, request, incoming):
            checker.check(event)
            yield event
        assert checker.is_complete()

    return await read_single_event(checked(), VideoOperation)


async def fetched(call: Call, request: VideoDownload) -> tuple[str, bytes]:
    """Media type and bytes of a video."""
    incoming = await call_upstream(call, await plugin.translate_request(call, request))
    return incoming.headers["content-type"], await incoming.read()


@pytest.mark.gen_test
async def test_a_video_is_begun_as_a_long_running_operation(upstream: Upstream) -> None:
    upstream.script(make_answer({"name": NAME}))
    async with reaching(upstream) as call:
        picture = Data(media_type="image/png", base64=PNG)
        operation = await stands(call, make_request(seconds=8.0, width=1280, height=720, image=picture))
        assert call.losses == []
    assert (operation.status, operation.operation) == ("running", {"name": NAME})
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", f"/v1beta/models/{VEO}:predictLongRunning")
    assert request.headers["x-goog-api-key"] == KEY
    (instance,) = request.json["instances"]
    assert instance["prompt"] == "A cat"
    assert instance["image"]["mimeType"] == "image/png"
    assert base64.b64decode(instance["image"]["bytesBase64Encoded"]) == base64.b64decode(PNG)
    assert request.json["parameters"] == {"aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 8}


def test_what_veo_does_not_do_is_lost_by_name() -> None:
    call = call_for(VEO)
    translate_request(
        make_request(fps=24, watermark=True, user="u", metadata={"style": "oil", "negative_prompt": "dogs"}), call
    )
    assert call.losses == ["fps", "watermark", "user", "metadata.style"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"seconds": 4.5, "names": {"seconds": "duration"}}, "duration"),
        ({"metadata": {"negative_prompt": 1}}, "metadata.negative_prompt"),
        ({"image": Data(media_type="", base64="AAAA")}, "image"),
    ],
)
def test_a_wish_that_cannot_be_is_the_callers_fault(fields: Any, param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        translate_request(make_request(**fields), call_for(VEO))
    assert caught.value.param == param


@pytest.mark.gen_test
async def test_an_operation_runs_until_it_says_where_its_videos_are(upstream: Upstream) -> None:
    uris = [f"{upstream.url}{FILE}", f"{upstream.url}/v1beta/files/z3:download?alt=media"]
    samples = [{"video": {"uri": uri}} for uri in uris]
    response = {"@type": "x", "generateVideoResponse": {"generatedSamples": samples}}
    upstream.script(make_answer({"name": NAME}), make_answer({"name": NAME, "done": True, "response": response}))
    async with reaching(upstream) as call:
        running, done = [await stands(call, poll({"name": NAME})) for _ in range(2)]
    assert (running.status, running.poll_after) == ("running", 10.0)
    assert (done.status, done.videos, done.operation) == ("completed", 2, {"name": NAME, "videos": uris})
    for request in upstream.requests:
        assert (request.method, request.path, request.body) == ("GET", f"/v1beta/{NAME}", b"")
        assert request.headers["x-goog-api-key"] == KEY
        assert "content-type" not in request.headers


@pytest.mark.gen_test
async def test_a_failure_has_the_upstreams_words(upstream: Upstream) -> None:
    upstream.script(
        make_answer({"name": NAME, "done": True, "error": {"code": 3, "message": "Bad."}}),
        make_answer(
            {
                "name": NAME,
                "done": True,
                "response": {"generateVideoResponse": {"raiMediaFilteredReasons": ["Blocked."]}},
            }
        ),
    )
    async with reaching(upstream) as call:
        failed, blocked = [await stands(call, poll({"name": NAME})) for _ in range(2)]
    assert (failed.status, failed.error, failed.code) == ("failed", "Bad.", "invalid_argument")
    assert (blocked.status, blocked.error, blocked.code) == ("failed", "Blocked.", "content_policy_violation")


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.gen_test
async def test_an_operation_that_the_upstream_does_not_know_is_lost(upstream: Upstream, status: int) -> None:
    upstream.script(make_answer({"error": {"code": status, "message": "Operation not found"}}, status))
    async with reaching(upstream) as call:
        assert await stands(call, poll({"name": NAME})) == VideoOperation(status="lost")


@pytest.mark.gen_test
async def test_an_unknown_model_is_an_error_and_no_lost_operation(upstream: Upstream) -> None:
    upstream.script(make_answer({"error": {"code": 404, "message": "models/veo-9 is not found"}}, 404))
    async with reaching(upstream) as call:
        with pytest.raises(UpstreamRefused, match="veo-9"):
            await stands(call, make_request())


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (poll(None), "cannot cancel videos or find one"),
        (VideoCancel(model="asked", task_id="t", operation={"name": NAME}), "cancel"),
        (make_request(remix_of={"name": NAME}), "does not support remixing"),
    ],
)
def test_what_the_vendor_cannot_do_is_refused(request_of: Any, said: str) -> None:
    with pytest.raises(UnsupportedOperation, match=said):
        translate_request(request_of, call_for(VEO))


@pytest.mark.parametrize("operation", [{}, {"name": ""}, {"name": "../../x"}, {"name": "a//b"}, {"name": "models/."}])
def test_an_operation_that_names_no_resource_leads_nowhere(operation: Any) -> None:
    with pytest.raises(UpstreamError):
        translate_request(poll(operation), call_for(VEO))


@pytest.mark.parametrize("index", [-1, 1])
def test_a_video_that_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(UpstreamRefused):
        translate_request(download(f"{BASE}/files/a:download", index=index), call_for(VEO))


# Downloads


@pytest.mark.gen_test
async def test_a_download_is_the_file_itself_and_our_key_opens_it(upstream: Upstream) -> None:
    upstream.script(film())
    async with reaching(upstream) as call:
        assert await fetched(call, download(upstream.url + FILE)) == ("video/mp4", MP4)
    (request,) = upstream.requests
    assert (request.method, request.path) == ("GET", FILE)
    assert request.headers["x-goog-api-key"] == KEY


@pytest.mark.parametrize("place", ["/download/v1beta/files/x1y2:download?alt=media", "{url}/download/x1y2?a=b%2Fc"])
@pytest.mark.gen_test
async def test_a_redirect_within_the_host_is_followed_with_the_key(upstream: Upstream, place: str) -> None:
    place = place.format(url=upstream.url)
    upstream.script(redirect(place), film())
    async with reaching(upstream) as call:
        assert (await fetched(call, download(upstream.url + FILE)))[1] == MP4
    _, request = upstream.requests
    assert request.path == place.removeprefix(upstream.url)
    assert request.headers["x-goog-api-key"] == KEY


@pytest.mark.gen_test
async def test_a_redirect_to_another_host_is_followed_without_the_key(upstream: Upstream) -> None:
    upstream.script(redirect(f"{elsewhere(upstream)}/store/v.mp4?signed=1"), film())
    async with reaching(upstream) as call:
        assert await fetched(call, download(upstream.url + FILE)) == ("video/mp4", MP4)
    first, second = upstream.requests
    assert first.headers["x-goog-api-key"] == KEY
    assert second.path == "/store/v.mp4?signed=1"
    assert KEY not in str(dict(second.headers))


@pytest.mark.gen_test
async def test_a_video_at_another_host_is_fetched_without_the_key(upstream: Upstream) -> None:
    upstream.script(film())
    async with reaching(upstream) as call:
        outgoing = await plugin.translate_request(call, download(f"{elsewhere(upstream)}/v.mp4"))
        assert KEY not in str(dict(outgoing.headers))
        assert await fetched(call, download(f"{elsewhere(upstream)}/v.mp4")) == ("video/mp4", MP4)
    (request,) = upstream.requests
    assert KEY not in str(dict(request.headers))


@pytest.mark.gen_test
async def test_another_host_inside_the_gateways_network_is_not_asked(upstream: Upstream) -> None:
    upstream.script(redirect(f"{elsewhere(upstream)}/inside"))
    async with reaching(upstream, allow_private=False) as call:
        with pytest.raises(UpstreamError):
            await fetched(call, download(upstream.url + FILE))
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("address", ["gs://bucket/v.mp4", "file:///etc/passwd", "v.mp4", ""])
@pytest.mark.gen_test
async def test_what_is_no_address_is_not_fetched(upstream: Upstream, address: str) -> None:
    async with reaching(upstream) as call:
        with pytest.raises(UpstreamError):
            await fetched(call, download(address))
    assert upstream.requests == []


def test_without_a_fetcher_no_other_host_is_asked() -> None:
    call = call_for(VEO)
    outgoing = translate_request(download("https://other.test/v.mp4"), call)
    with pytest.raises(UpstreamError, match="at another host"):
        asyncio.run(call_upstream(call, outgoing))


@pytest.mark.gen_test
async def test_redirects_have_an_end(upstream: Upstream) -> None:
    upstream.script(*[redirect(FILE) for _ in range(9)])
    async with reaching(upstream) as call:
        with pytest.raises(UpstreamError, match="too many"):
            await fetched(call, download(upstream.url + FILE))
    assert len(upstream.requests) == 4


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (make_answer({"error": {"code": 404, "message": "File gone"}}, 404), UpstreamRefused),
        (make_answer({"error": {"code": 403, "message": f"{KEY} may not"}}, 403), UpstreamError),
        (make_answer({"error": {"code": 503, "message": "busy"}}, 503), UpstreamOverloaded),
        (answer(status=302, headers={"x": "no location"}), UpstreamError),
        (answer(Close()), UpstreamError),
        (answer(MP4, Close(), headers={"content-type": "video/mp4", "content-length": "9999"}), UpstreamError),
    ],
)
@pytest.mark.gen_test
async def test_a_download_that_fails_is_an_error_without_our_key(
    upstream: Upstream, said: Answer, error: type[GateError]
) -> None:
    upstream.script(said)
    async with reaching(upstream) as call:
        with pytest.raises(error) as caught:
            await fetched(call, download(upstream.url + FILE))
    assert KEY not in caught.value.message


@pytest.mark.parametrize(
    ("base_url", "address", "url"),
    [
        (f"{GOOGLE}/v1beta", GOOGLE + FILE, GOOGLE + FILE),
        ("https://proxy.test/g/v1beta", GOOGLE + FILE, f"https://proxy.test/g{FILE}"),
        ("https://proxy.test/g/v1beta", f"https://proxy.test{FILE}", f"https://proxy.test{FILE}"),
        ("https://proxy.test/g/v1beta", f"https://other.test{FILE}", f"https://other.test{FILE}"),
        ("https://proxy.test/g/v1beta", f"{GOOGLE}/v1beta/x?y=/files/a:download", f"{GOOGLE}/v1beta/x?y=/files/a:download"),
    ],
)  # fmt: skip
def test_googles_files_are_fetched_through_the_entry_that_stands_before_google(
    base_url: str, address: str, url: str
) -> None:
    assert build_file_url(base_url, address) == url


def test_the_key_is_in_no_address() -> None:
    for request in (make_request(), poll({"name": NAME}), download(f"{BASE}/files/a:download?alt=media")):
        outgoing = translate_request(request, call_for(VEO))
        assert KEY not in outgoing.url
        assert outgoing.headers["x-goog-api-key"] == KEY
