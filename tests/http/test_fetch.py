"""The fetcher of addresses that clients give: what it reaches, what it refuses, what it survives."""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
import threading
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.support.fetching import LOOPBACK, change_rules, expect_refusal, expect_refusal_code, fetch_image
from tests.support.site import Names, Site, answer, tls_of_site_test
from tornado_gate.http.fetch import FetchedFile, Fetcher, FetchRules

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACAQAAAABazTCJAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC")
GIF = b"GIF87a\x02\0\x02\0\x80\0\0\0\0\0\0\0\0,\0\0\0\0\x02\0\x02\0\0\x08\x06\0\x01\x08\x04\x10\x10\0;"


# What is fetched


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/a.png", "/a.png"),
        ("/%7Ea%2Fb.png?sig=a%2Fb%2B%3D%3A&c=d+e", "/%7Ea%2Fb.png?sig=a%2Fb%2B%3D%3A&c=d+e"),
        ("/a b.png", "/a%20b.png"),
        ("/ü.png", "/%C3%BC.png"),
    ],
)
async def test_a_file_comes_with_the_type_of_its_content(fetcher: Fetcher, site: Site, given: str, sent: str) -> None:
    site.answers[sent] = answer(PNG, Content_Type="application/octet-stream")
    found = await fetch_image(fetcher, site, given)
    assert found == FetchedFile(media_type="image/png", data=PNG, url=f"http://site.test:{site.port}{sent}")


@pytest.mark.gen_test
async def test_the_server_learns_its_own_name_and_nothing_about_the_caller(fetcher: Fetcher, site: Site) -> None:
    site.answers["/"] = answer(PNG, Set_Cookie="a=b")
    await fetch_image(fetcher, site)
    await fetch_image(fetcher, site)
    for head in site.asked:
        lines = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
        assert lines["host"] == f"site.test:{site.port}"
        assert lines["accept-encoding"] == "identity"
        assert not {"cookie", "authorization", "referer", "x-request-id"} & set(lines)


@pytest.mark.gen_test
async def test_a_proxy_of_the_environment_is_not_used(
    fetcher: Fetcher, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    site.answers["/"] = answer(PNG)
    assert (await fetch_image(fetcher, site)).data == PNG


@pytest.mark.gen_test
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_and_looked_up_again(
    fetcher: Fetcher, site: Site, names: Names, status: int
) -> None:
    site.answers["/"] = answer(status=f"{status} Moved", Location="/there?x=1#part")
    site.answers["/there?x=1"] = answer(PNG, Content_Type="image/png; charset=binary")
    found = await fetch_image(fetcher, site)
    assert (found.media_type, found.url) == ("image/png", f"http://site.test:{site.port}/there?x=1#part")
    assert names.asked == ["site.test", "site.test"]


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("coding", "body"), [("gzip", gzip.compress(PNG, mtime=0)), ("deflate", zlib.compress(PNG)), ("Identity", PNG)]
)
async def test_a_coding_that_nobody_asked_for_is_undone(fetcher: Fetcher, site: Site, coding: str, body: bytes) -> None:
    site.answers["/"] = answer(body, Content_Encoding=coding)
    assert (await fetch_image(fetcher, site)).data == PNG


@pytest.mark.gen_test
async def test_tls_is_checked_against_the_name_though_the_address_is_pinned(
    io_loop: IOLoop, names: Names, tmp_path: Path
) -> None:
    server, client = tls_of_site_test(tmp_path)
    asked: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    site = Site()
    await site.start(server)
    site.answers["/"] = answer(PNG)
    names.answers["another.test"] = [["127.0.0.1"]]
    rules = FetchRules(allow_networks=(LOOPBACK,))

    def ask(host: str, tls: ssl.SSLContext | None) -> Awaitable[FetchedFile]:
        url = f"https://{host}:{site.port}/"
        return Fetcher(rules, resolve=names, tls=tls).fetch(url, kinds=["image/"], param="image_url")

    assert (await ask("site.test", client)).data == PNG
    assert asked == ["site.test"]
    assert "certificate" in (await expect_refusal(ask("another.test", client))).message
    assert "certificate" in (await expect_refusal(ask("site.test", None))).message
    await site.stop()


# Servers that misbehave


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "said",
    [
        answer(b"no", "404 Not Found"),
        answer(PNG, "206 Partial Content"),
        answer(status="304 Not Modified", Content_Length=""),
        answer(status="302 Found"),
        answer(b"secret", "500 Internal Server Error"),
        answer(PNG[:20], Content_Length="1000"),
        answer(PNG, Content_Encoding="br"),
        answer(gzip.compress(PNG, mtime=0)[:-12], Content_Encoding="gzip"),
        answer(PNG, Content_Encoding="gzip"),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
async def test_a_server_that_gives_no_file_is_unreachable(fetcher: Fetcher, site: Site, said: bytes) -> None:
    site.answers["/"] = said
    error = await expect_refusal(fetch_image(fetcher, site))
    assert error.code == "unreachable_url"
    assert "data: URL" in error.message
    assert "secret" not in error.message
    assert "OpenSSH" not in error.message


@pytest.mark.gen_test
async def test_a_name_that_is_not_known_and_a_closed_port_are_unreachable(fetcher: Fetcher, site: Site) -> None:
    assert await expect_refusal_code(fetch_image(fetcher, site, host="nowhere.test")) == "unreachable_url"
    await site.stop()
    error = await expect_refusal(fetch_image(fetcher, site))
    assert error.code == "unreachable_url"
    assert "127.0.0.1" not in error.message


@pytest.mark.gen_test
async def test_a_server_that_says_nothing_and_one_that_never_ends_are_left_in_time(
    fetcher: Fetcher, site: Site
) -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(PNG[:20], Content_Length="1000"))
        await asyncio.Event().wait()

    hasty = change_rules(fetcher, seconds=0.2)
    for said in (silent, slow):
        site.answers["/"] = said
        error = await expect_refusal(fetch_image(hasty, site))
        assert error.code == "unreachable_url"
        assert "0.2 seconds" in error.message


@pytest.mark.gen_test
async def test_a_name_that_takes_forever_to_look_up_is_given_up_in_time(fetcher: Fetcher, site: Site) -> None:
    end = threading.Event()

    def resolve(name: str, port: int) -> Sequence[str]:
        end.wait(60)
        return ["127.0.0.1"]

    slow = Fetcher(FetchRules(seconds=0.1), resolve=resolve)
    assert await expect_refusal_code(fetch_image(slow, site)) == "unreachable_url"
    end.set()
    await slow.close()


@pytest.mark.gen_test
async def test_a_body_without_end_is_left_at_the_limit(fetcher: Fetcher, site: Site) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(answer(Content_Length=""))
        while True:
            writer.write(PNG.ljust(65536, b"\0"))
            await writer.drain()
            sent += 65536

    site.answers["/"] = endless
    assert await expect_refusal_code(fetch_image(change_rules(fetcher, max_bytes=1_000_000), site)) == "too_large"
    await site.left.wait()
    assert sent < 20_000_000


@pytest.mark.gen_test
async def test_an_announced_size_above_the_limit_is_refused_without_reading(fetcher: Fetcher, site: Site) -> None:
    async def announce(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(Content_Length="9" * 18))
        await asyncio.Event().wait()

    site.answers["/"] = announce
    assert await expect_refusal_code(fetch_image(fetcher, site)) == "too_large"


@pytest.mark.qa
@pytest.mark.gen_test
async def test_a_bomb_does_not_go_off(fetcher: Fetcher, site: Site) -> None:
    packed = gzip.compress(PNG + bytes(200_000_000))
    site.answers["/"] = answer(packed, Content_Encoding="gzip")
    assert len(packed) < 1_000_000
    tracemalloc.start()
    assert await expect_refusal_code(fetch_image(change_rules(fetcher, max_bytes=1_000_000), site)) == "too_large"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000


@pytest.mark.gen_test
async def test_what_follows_the_end_of_a_packed_body_is_not_read(fetcher: Fetcher, site: Site) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(gzip.compress(PNG, mtime=0), Content_Encoding="gzip", Content_Length=""))
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    site.answers["/"] = endless
    assert (await fetch_image(fetcher, site)).data == PNG


@pytest.mark.gen_test
async def test_no_more_are_fetched_at_once_than_the_rules_say(fetcher: Fetcher, site: Site) -> None:
    open_now, most, go_on = 0, 0, asyncio.Event()

    async def counted(writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        if len(site.asked) == 2:
            go_on.set()
        await go_on.wait()
        open_now -= 1
        writer.write(answer(PNG))

    site.answers["/"] = counted
    narrow = change_rules(fetcher, parallel=2)
    async with AsyncExitStack() as closing:
        accounts = [narrow.for_request(f"account {number}", closing) for number in range(6)]
        found = await asyncio.gather(*(fetch_image(one, site) for one in accounts))
    assert [one.data for one in found] == [PNG] * 6
    assert most == 2


# What it is


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("body", "declared", "expected"),
    [
        (PNG, "", "image/png"),
        (PNG, "image/jpeg", "image/png"),  # servers often err about which kind of image it is
        (PNG, "text/plain", "image/png"),
        (PNG, "image/x-png", "image/png"),
        (b"<svg/>", "image/svg+xml; charset=utf-8", "image/svg+xml"),
        (PNG, "text/html", None),
        (PNG, "video/mp4", None),
        (b"<html>", "image/png", None),
        (b"<html>", "text/html", None),
        (b"<html>", "", None),
        (b"<html>", "application/octet-stream", None),
        (b"%PDF-1.7", "application/pdf", None),
        (b"", "image/png", None),
    ],
)
async def test_the_content_says_what_a_served_file_is(
    fetcher: Fetcher, site: Site, body: bytes, declared: str, expected: str | None
) -> None:
    site.answers["/"] = answer(body, Content_Type=declared)
    if expected:
        assert (await fetch_image(fetcher, site)).media_type == expected
    else:
        error = await expect_refusal(fetch_image(fetcher, site))
        assert error.code == "wrong_media_type"
        assert "Send " in error.message or "Declare " in error.message


def data_url(data: bytes, declared: str = "image/png") -> str:
    return f"data:{declared};base64,{base64.b64encode(data).decode()}"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (data_url(PNG), "image/png"),
        (data_url(GIF, "image/gif").replace("data:", "DATA:"), "image/gif"),
        (data_url(PNG, ""), "image/png"),
        (data_url(PNG, "IMAGE/PNG;name=a.png"), "image/png"),
        (data_url(PNG).rstrip("="), "image/png"),
        (data_url(PNG).replace("+", "-").replace("/", "_").replace("image_png", "image/png"), "image/png"),
        (data_url(PNG).replace("+", "%2B").replace("=", "%3D"), "image/png"),
        (data_url(PNG)[:60] + "\r\n " + data_url(PNG)[60:], "image/png"),
        ("data:image/svg+xml,%3Csvg%2F%3E", "image/svg+xml"),
    ],
)
async def test_a_data_url_is_a_file_too(fetcher: Fetcher, url: str, expected: str) -> None:
    found = await fetcher.fetch(url, kinds=["image/"], param="image_url")
    assert (found.media_type, found.url) == (expected, "data:")
    assert found.data in (PNG, GIF, b"<svg/>")


@pytest.mark.gen_test
async def test_a_client_is_told_when_it_declares_another_type(fetcher: Fetcher) -> None:
    error = await expect_refusal(fetcher.fetch(data_url(PNG, "image/jpeg"), kinds=["image/"], param="image_url"))
    assert error.code == "wrong_media_type"
    assert "'image/jpeg'" in error.message
    assert "'image/png'" in error.message


@pytest.mark.gen_test
@pytest.mark.parametrize("encode", [data_url, lambda data: "data:image/png," + "%00" * len(data)])
async def test_a_data_url_above_the_limit_is_refused(fetcher: Fetcher, encode: Callable[[bytes], str]) -> None:
    narrow = change_rules(fetcher, max_bytes=1000)
    assert (
        await expect_refusal_code(narrow.fetch(encode(bytes(1001)), kinds=["image/"], param="image_url")) == "too_large"
    )
    assert (
        await expect_refusal_code(narrow.fetch(encode(bytes(9999)), kinds=["image/"], param="image_url")) == "too_large"
    )
    assert (
        await expect_refusal_code(narrow.fetch(encode(bytes(1000)), kinds=["image/"], param="image_url"))
        == "wrong_media_type"
    )


@pytest.mark.gen_test
async def test_a_long_data_url_is_decoded_beside_the_loop(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []
    to_thread = asyncio.to_thread

    async def noted(work: Any, *arguments: Any) -> Any:
        threads.append(work)
        return await to_thread(work, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    big = PNG.ljust(1_000_000, b"\0")
    assert (await fetcher.fetch(data_url(big), kinds=["image/"], param="image_url")).data == big
    assert (await fetcher.fetch(data_url(PNG), kinds=["image/"], param="image_url")).data == PNG
    assert len(threads) == 1
