"""Files that upstreams have made, read while they arrive: what is read, what it is, at whose pace."""

from __future__ import annotations

import asyncio
import base64
import gzip
import tracemalloc

import pytest

from tests.support.fetching import VIDEO, expect_failure, make_fetcher, make_url, read_video
from tests.support.site import Names, Site, answer
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch import Fetcher

MP4 = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(range(256)) * 4
WEBM = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm" + bytes(600)
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACAQAAAABazTCJAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")
JSON = b'{"error": {"message": "the key sk-1234 is not valid", "code": 401}}'


# What is read


@pytest.mark.gen_test
async def test_a_file_comes_with_its_type_its_length_and_its_place(fetcher: Fetcher, site: Site) -> None:
    site.answers["/a.mp4?Signature=a%2Fb%3D"] = answer(MP4, Content_Type="video/mp4; codecs=avc1")
    url = make_url(site, "/a.mp4?Signature=a%2Fb%3D")
    opened, data = await read_video(fetcher, url)
    assert (opened.media_type, opened.length, opened.url, opened.status) == ("video/mp4", len(MP4), url, 200)
    assert data == MP4


@pytest.mark.gen_test
async def test_a_file_is_read_while_it_is_still_being_sent(fetcher: Fetcher, site: Site) -> None:
    go_on = asyncio.Event()

    async def halting(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(MP4, Content_Length=str(len(MP4) + 3)))
        await go_on.wait()
        writer.write(b"end")

    site.answers["/"] = halting
    async with fetcher.open(make_url(site), kinds=VIDEO) as opened:
        chunks = opened.chunks()
        assert await anext(chunks) == MP4
        go_on.set()
        assert [chunk async for chunk in chunks] == [b"end"]


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (MP4, {"Content_Length": ""}),
        (gzip.compress(MP4, mtime=0), {"Content_Encoding": "gzip"}),
        (b"%x\r\n%s\r\n0\r\n\r\n" % (len(MP4), MP4), {"Content_Length": "", "Transfer_Encoding": "chunked"}),
    ],
)
async def test_a_length_is_not_known_where_nobody_says_that_of_the_file_itself(
    fetcher: Fetcher, site: Site, body: bytes, headers: dict[str, str]
) -> None:
    site.answers["/"] = answer(body, **headers)
    opened, data = await read_video(fetcher, make_url(site))
    assert (opened.length, data) == (None, MP4)


@pytest.mark.gen_test
async def test_the_limit_of_clients_files_is_not_that_of_videos(names: Names, site: Site) -> None:
    site.answers["/"] = answer(MP4)
    assert (await read_video(make_fetcher(names, max_bytes=100), make_url(site)))[1] == MP4


@pytest.mark.gen_test
async def test_a_redirect_is_followed_and_looked_up_again(fetcher: Fetcher, site: Site, names: Names) -> None:
    site.answers["/"] = answer(b"moved", status="302 Found", Location="/there")
    site.answers["/there"] = answer(MP4)
    opened, data = await read_video(fetcher, make_url(site))
    assert (opened.url, data) == (make_url(site, "/there"), MP4)
    assert names.asked == ["site.test", "site.test"]


@pytest.mark.gen_test
async def test_no_key_goes_along(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(MP4, Set_Cookie="a=b")
    await read_video(fetcher, make_url(site))
    await read_video(fetcher, make_url(site))
    for head in site.asked:
        lines = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
        assert lines["accept-encoding"] == "identity"
        assert not {"cookie", "authorization", "x-api-key", "referer", "range"} & set(lines)


@pytest.mark.gen_test
async def test_clients_with_slow_addresses_do_not_hold_up_videos(names: Names, site: Site) -> None:
    asked = asyncio.Event()

    async def silent(_writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    site.answers |= {"/slow": silent, "/": answer(MP4)}
    fetcher = make_fetcher(names, parallel=1)
    slow = asyncio.ensure_future(fetcher.fetch(make_url(site, "/slow"), kinds=["image/"], param="image"))
    await asked.wait()
    assert (await read_video(fetcher, make_url(site)))[1] == MP4
    slow.cancel()


# What it is


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "declared", "expected"),
    [
        (MP4, "", "video/mp4"),
        (MP4, "binary/octet-stream", "video/mp4"),
        (MP4, "text/plain", "video/mp4"),
        (MP4, "application/json", "video/mp4"),  # the bytes are a video, whatever their store says
        (MP4, "video/quicktime", "video/quicktime"),  # one container
        (WEBM, "video/mp4", "video/webm"),
        (WEBM, "video/webm", "video/webm"),
        (b"G\x40\0\x10\0\0" + bytes(600), "video/mp2t", "video/mp2t"),  # unknown here, but no text
        (JSON, "video/mp4", None),
        (JSON, "video/mp2t", None),
        (JSON, "video/x-unheard-of", None),
        (JSON, "application/json", None),
        (JSON, "application/octet-stream", None),
        (JSON, "", None),
        (b"\xef\xbb\xbf" + JSON, "video/mp2t", None),
        ('{"message": "没有权限"}'.encode(), "video/mp2t", None),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "video/mp2t", None),
        (b"<html>" * 200, "video/mp4", None),
        (PNG, "video/mp4", None),
        (PNG, "image/png", None),
        (b"", "video/mp4", None),
    ],
)
async def test_the_content_says_whether_it_is_a_video(
    fetcher: Fetcher, site: Site, body: bytes, declared: str, expected: str | None
) -> None:
    site.answers["/"] = answer(body, Content_Type=declared)
    if expected:
        opened, data = await read_video(fetcher, make_url(site))
        assert (opened.media_type, data) == (expected, body)
    else:
        error = await expect_failure(fetcher, make_url(site))
        assert error.code == "upstream_wrong_media_type"
        assert "video/*" in error.message
        assert "sk-1234" not in error.message


@pytest.mark.gen_test
async def test_a_file_that_comes_in_drops_is_known_all_the_same(fetcher: Fetcher, site: Site) -> None:
    async def drops(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(Content_Length=str(len(WEBM))))
        for at in range(0, len(WEBM), 7):
            writer.write(WEBM[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0)

    site.answers["/"] = drops
    opened, data = await read_video(fetcher, make_url(site))
    assert (opened.media_type, data) == ("video/webm", WEBM)


@pytest.mark.gen_test
async def test_text_is_read_where_text_is_asked_for(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(b"WEBVTT", Content_Type="text/vtt")
    opened, data = await read_video(fetcher, make_url(site), kinds=["text/vtt"])
    assert (opened.media_type, data) == ("text/vtt", b"WEBVTT")


# The pace of the reader


@pytest.mark.gen_test
async def test_a_reader_that_waits_holds_up_its_server_and_not_the_memory(fetcher: Fetcher, site: Site) -> None:
    size, sent, stalled = 64 * 1024 * 1024, 0, asyncio.Event()

    async def eager(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(answer(MP4.ljust(65536, b"\0"), Content_Length=str(size)))
        sent = 65536
        while sent < size:
            writer.write(bytes(65536))
            sent += 65536
            drained = asyncio.ensure_future(writer.drain())
            if not (await asyncio.wait([drained], timeout=0.3))[0]:
                stalled.set()
            await drained

    site.answers["/"] = eager
    tracemalloc.start()
    async with fetcher.open(make_url(site), kinds=VIDEO) as opened:
        assert opened.length == size
        await asyncio.wait_for(stalled.wait(), 30)
        assert sent < 20_000_000
        total = 0
        async for chunk in opened.chunks():
            total += len(chunk)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == size
    assert most < 5_000_000


@pytest.mark.gen_test
async def test_who_leaves_early_leaves_no_connection_and_cannot_go_on_reading(fetcher: Fetcher, site: Site) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(MP4, Content_Length=""))
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    site.answers["/"] = endless
    async with fetcher.open(make_url(site), kinds=VIDEO) as opened:
        await anext(opened.chunks())
    await asyncio.wait_for(site.left.wait(), 60)
    with pytest.raises(UpstreamError):
        await anext(opened.chunks())


@pytest.mark.gen_test
async def test_a_reader_who_gave_up_waiting_is_not_told_that_this_was_the_end(fetcher: Fetcher, site: Site) -> None:
    async def stuck(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(MP4, Content_Length="100000"))
        await asyncio.Event().wait()

    site.answers["/"] = stuck
    async with fetcher.open(make_url(site), kinds=VIDEO) as opened:
        chunks = opened.chunks()
        await anext(chunks)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await anext(chunks)
        with pytest.raises(UpstreamError):
            await anext(chunks)


@pytest.mark.gen_test
async def test_what_fails_at_the_reader_is_not_the_upstreams_fault(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(MP4)
    for fault in (OSError(28, "No space left on device"), TimeoutError("ours"), ValueError("ours")):
        with pytest.raises(type(fault)) as caught:
            async with fetcher.open(make_url(site), kinds=VIDEO):
                raise fault
        assert caught.value is fault
