"""Synchronous models, against a real server: pictures are fetched, failures keep their meaning."""

from __future__ import annotations

from typing import Any

import pytest
from dashscope_calls import PNG, made, make_answer, make_request, picture, reaching

from tests.support.upstream import Upstream, answer
from tornado_gate import errors
from tornado_gate.http.fetch import Fetcher
from tornado_gate.types import GeneratedImage, replace

MODEL = "qwen-image-plus"


def answered(*urls: str, **rest: Any) -> dict[str, Any]:
    choices = [{"finish_reason": "stop", "message": {"content": [{"image": url}]}} for url in urls]
    return {"output": {"choices": choices}, "usage": {"image_count": len(urls), "width": 8, "height": 4}, **rest}


@pytest.mark.gen_test
async def test_pictures_come_back_as_bytes_in_their_order(upstream: Upstream) -> None:
    upstream.script(
        make_answer(answered(f"{upstream.url}/oss/1.png?Expires=1", f"{upstream.url}/oss/2.png"), path="/api"),
        picture("/oss/1"),
        picture("/oss/2"),
    )
    async with reaching(upstream.url, MODEL) as call:
        result = await made(call, make_request(n=2))
    assert result.images == (GeneratedImage(data=PNG, media_type="image/png"),) * 2
    assert result.size == "8x4"
    assert result.usage is not None
    assert result.usage.extra["image_count"] == 2


@pytest.mark.gen_test
async def test_the_key_never_goes_to_where_the_pictures_are(upstream: Upstream) -> None:
    upstream.script(make_answer(answered(f"{upstream.url}/oss/1.png"), path="/api"), picture("/oss"))
    async with reaching(upstream.url, MODEL) as call:
        await made(call, make_request())
    first, second = upstream.requests
    assert "authorization" in first.headers
    assert "authorization" not in second.headers


@pytest.mark.gen_test
async def test_a_picture_that_is_gone_is_the_upstreams_fault(upstream: Upstream) -> None:
    upstream.script(make_answer(answered(f"{upstream.url}/oss/1.png"), path="/api"), make_answer({}, 404, "/oss"))
    async with reaching(upstream.url, MODEL) as call:
        with pytest.raises(errors.UpstreamError) as caught:
            await made(call, make_request())
    assert (caught.value.status, caught.value.param) == (502, "")


@pytest.mark.gen_test
async def test_a_picture_at_a_private_address_is_not_fetched_and_the_upstreams_fault(upstream: Upstream) -> None:
    upstream.script(make_answer(answered(f"{upstream.url}/oss/1.png"), path="/api"))
    async with reaching(upstream.url, MODEL) as call:
        careful = Fetcher()
        with pytest.raises(errors.UpstreamError) as caught:
            await made(replace(call, fetcher=careful), make_request())
        await careful.close()
    assert caught.value.status == 502
    assert len(upstream.requests) == 1


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("status", "body", "kind", "shown"),
    [
        (400, {"code": "InvalidParameter", "message": "size is wrong"}, errors.UpstreamRefused, 400),
        (400, {"code": "DataInspectionFailed", "message": "unfit"}, errors.UpstreamRefused, 400),
        (400, {"code": "Arrearage", "message": "overdue"}, errors.UpstreamError, 502),
        (401, {"code": "InvalidApiKey", "message": "no key"}, errors.UpstreamError, 502),
        (429, {"code": "Throttling.RateQuota", "message": "slow"}, errors.UpstreamRateLimited, 429),
        (500, {"code": "InternalError", "message": "stack"}, errors.UpstreamError, 502),
        (200, {"code": "InvalidParameter", "message": "size is wrong"}, errors.UpstreamRefused, 400),
        (200, {"output": {"choices": []}}, errors.UpstreamError, 502),
        (200, ["odd"], errors.UpstreamError, 502),
    ],
)
async def test_a_failure_keeps_its_meaning(
    upstream: Upstream, status: int, body: Any, kind: type[errors.GateError], shown: int
) -> None:
    upstream.script(make_answer(body, status))
    async with reaching(upstream.url, MODEL) as call:
        with pytest.raises(kind) as caught:
            await made(call, make_request())
    assert caught.value.status == shown


@pytest.mark.gen_test
async def test_what_is_no_json_is_the_upstreams_fault(upstream: Upstream) -> None:
    upstream.script(answer("<html>"))
    async with reaching(upstream.url, MODEL) as call:
        with pytest.raises(errors.UpstreamError, match="not valid JSON"):
            await made(call, make_request())
