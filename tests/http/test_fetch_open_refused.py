"""Files that upstreams have made: which addresses are refused, and what is noticed when servers misbehave."""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tornado.ioloop import IOLoop
from yarl import URL

from tests.support.fetching import LOOPBACK, VIDEO, expect_failure, make_fetcher, make_url, read_video
from tests.support.site import Names, Site, answer, tls_of_site_test
from tornado_gate.errors import UpstreamError
from tornado_gate.http.fetch import Fetcher, FetchRules
from tornado_gate.http.fetch.addresses import rules_for_host

MP4 = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + bytes(range(256)) * 4
JSON = b'{"error": {"message": "the key sk-1234 is not valid", "code": 401}}'
NOISE = random.Random(1).randbytes(4000)
"""What gzip cannot make smaller."""


# Where it is


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "url",
    [
        "http://inside.test/a.mp4",
        "http://10.1.2.3/a.mp4",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://2130706433/",
        "http://site.test:22/",
        "http://user:word@site.test/",
        "file:///etc/passwd",
        "data:video/mp4;base64,AAAA",
        "ftp://site.test/a.mp4",
        "a.mp4",
        "",
    ],
)
async def test_an_upstream_leads_nowhere_inside(fetcher: Fetcher, site: Site, url: str) -> None:
    site.answers["/"] = answer(status="302 Found", Location=url)
    for given in (url, make_url(site)) if ":" in url else (url,):
        error = await expect_failure(fetcher, given)
        assert error.code == "upstream_file_refused"
        assert not any(word in error.message for word in ("10.1.2.3", "169.254", "inside.test", "passwd", "data:"))


@pytest.mark.gen_test
async def test_a_name_that_rebinds_is_followed_neither_at_once_nor_at_a_redirect(site: Site) -> None:
    names = Names({"site.test": [["127.0.0.1"], ["10.0.0.1"]]})
    site.answers |= {"/": answer(MP4), "/moved": answer(status="302 Found", Location="/")}
    fetcher = make_fetcher(names)
    assert (await read_video(fetcher, make_url(site)))[1] == MP4
    assert (await expect_failure(fetcher, make_url(site))).code == "upstream_file_refused"
    names.answers["site.test"] = [["127.0.0.1"], ["10.0.0.1"]]
    assert (await expect_failure(fetcher, make_url(site, "/moved"))).code == "upstream_file_refused"
    assert len(site.asked) == 2


@pytest.mark.gen_test
async def test_the_providers_own_host_is_reached_though_it_is_private(names: Names, site: Site) -> None:
    names.answers["Other.test"] = names.answers["other.test"] = [["127.0.0.1"]]
    site.answers |= {"/": answer(MP4), "/other": answer(status="302 Found", Location=make_url(site, host="other.test"))}
    fetcher = make_fetcher(names, allow_networks=(), ports=frozenset({443}), schemes=frozenset({"https"}))
    own = f"Site.test:{site.port}"
    assert (await read_video(fetcher, make_url(site), allow_host=own))[1] == MP4
    for url in (make_url(site, host="other.test"), make_url(site, "/other"), make_url(site, host="127.0.0.1")):
        assert (await expect_failure(fetcher, url, allow_host=own)).code == "upstream_file_refused"
    for host in ("", "site.test", f"site.test:{site.port + 1}", f"e.test:{site.port}", f"other.site.test:{site.port}"):
        assert (await expect_failure(fetcher, make_url(site), allow_host=host)).code == "upstream_file_refused"


@pytest.mark.gen_test
async def test_the_providers_own_host_is_not_where_clouds_keep_secrets(names: Names, site: Site) -> None:
    names.answers["site.test"] = [["169.254.169.254"]]
    error = await expect_failure(make_fetcher(names), make_url(site), allow_host=f"site.test:{site.port}")
    assert error.code == "upstream_file_refused"


@pytest.mark.parametrize(
    ("url", "host", "own"),
    [
        ("https://site.test/a", "site.test:443", True),
        ("https://site.test/a", "site.test", True),
        ("http://site.test/a", "site.test", True),
        ("http://site.test:80/a", "site.test:80", True),
        ("http://[::1]:8000/a", "[::1]:8000", True),
        ("http://[::1]/a", "[::1]", True),
        ("https://site.test:8443/a", "site.test", False),
        ("http://site.test/a", "site.test:443", False),
        ("https://site.test.evil.test/", "site.test", False),
        ("https://site.test/", "", False),
    ],
)
def test_a_host_without_a_port_is_the_one_at_the_port_of_the_scheme(url: str, host: str, own: bool) -> None:
    rules = FetchRules()
    assert (rules_for_host(URL(url), rules, host) != rules) is own


@pytest.mark.gen_test
async def test_a_certificate_is_checked(io_loop: IOLoop, names: Names, tmp_path: Path) -> None:
    server, client = tls_of_site_test(tmp_path)
    site = Site()
    await site.start(server)
    site.answers["/"] = answer(MP4)
    rules = FetchRules(allow_networks=(LOOPBACK,))
    url = make_url(site).replace("http:", "https:")
    assert (await read_video(Fetcher(rules, resolve=names, tls=client), url))[1] == MP4
    error = await expect_failure(Fetcher(rules, resolve=names), url)
    assert error.code == "upstream_file_unreachable"
    assert "certificate" in error.message
    await site.stop()


# What goes wrong


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("403 Forbidden", "upstream_file_gone"),
        ("404 Not Found", "upstream_file_gone"),
        ("410 Gone", "upstream_file_gone"),
        ("401 Unauthorized", "upstream_file_unreachable"),
        ("500 Internal Server Error", "upstream_file_unreachable"),
        ("206 Partial Content", "upstream_file_unreachable"),
        ("302 Found", "upstream_file_unreachable"),
    ],
)
async def test_a_file_that_is_gone_is_told_from_one_that_cannot_be_had_now(
    fetcher: Fetcher, site: Site, status: str, code: str
) -> None:
    site.answers["/"] = answer(MP4 + b"secret", status)
    error = await expect_failure(fetcher, make_url(site))
    assert error.code == code
    assert "secret" not in error.message


@pytest.mark.gen_test
async def test_a_server_that_is_none_is_unreachable(fetcher: Fetcher, site: Site) -> None:
    site.answers |= {
        "/": b"SSH-2.0-OpenSSH_9.6\r\n",
        "/gone": b"",
        "/loop": answer(status="302 Found", Location="/loop"),
    }
    urls = [make_url(site), make_url(site, "/gone"), make_url(site, "/loop"), make_url(site, host="nowhere.test")]
    for url in urls:
        assert (await expect_failure(fetcher, url)).code == "upstream_file_unreachable"
    await site.stop()
    assert (await expect_failure(fetcher, make_url(site))).code == "upstream_file_unreachable"


@pytest.mark.gen_test
@pytest.mark.parametrize(
    "said",
    [
        answer(MP4, Content_Length=str(len(MP4) + 1)),
        answer(b"%x\r\n%s\r\n" % (len(MP4), MP4), Content_Length="", Transfer_Encoding="chunked"),
        answer(b"%x\r\n%s" % (len(MP4) + 9, MP4), Content_Length="", Transfer_Encoding="chunked"),
        answer(gzip.compress(MP4 + NOISE, mtime=0)[:-9], Content_Encoding="gzip"),
    ],
)
async def test_a_body_that_is_cut_off_never_looks_whole(fetcher: Fetcher, site: Site, said: bytes) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(said[:-20])
        await writer.drain()
        await go_on.wait()
        writer.write(said[-20:])

    site.answers["/"] = cut
    go_on = asyncio.Event()
    async with fetcher.open(make_url(site), kinds=VIDEO) as opened:
        go_on.set()
        for _ in range(2):  # who asks again is not told that this was the end
            with pytest.raises(UpstreamError) as caught:
                [chunk async for chunk in opened.chunks()]
            assert caught.value.code == "upstream_file_unreachable"


@pytest.mark.gen_test
async def test_a_file_above_the_limit_is_refused_before_and_while_it_comes(fetcher: Fetcher, site: Site) -> None:
    site.answers |= {"/": answer(MP4), "/unannounced": answer(MP4, Content_Length="")}
    most = len(MP4)
    assert (await read_video(fetcher, make_url(site), most_bytes=most))[1] == MP4
    assert (await read_video(fetcher, make_url(site, "/unannounced"), most_bytes=most))[1] == MP4
    for path in ("/", "/unannounced"):
        error = await expect_failure(fetcher, make_url(site, path), most_bytes=most - 1)
        assert error.code == "upstream_file_too_large"
        assert str(most - 1) in error.message


@pytest.mark.gen_test
async def test_a_server_that_never_answers_is_left_in_time(names: Names, site: Site) -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    site.answers["/"] = silent
    error = await expect_failure(make_fetcher(names, seconds=0.2), make_url(site))
    assert error.code == "upstream_file_unreachable"
    assert "0.2 seconds" in error.message


@pytest.mark.gen_test
@pytest.mark.parametrize("sent", [b"", MP4[:100], MP4])
async def test_a_server_that_pauses_too_long_is_left(names: Names, site: Site, sent: bytes) -> None:
    async def stuck(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(sent, Content_Length="100000"))
        await asyncio.Event().wait()

    site.answers["/"] = stuck
    error = await expect_failure(make_fetcher(names, gap_seconds=0.2), make_url(site))
    assert error.code == "upstream_file_unreachable"
    assert "0.2 seconds" in error.message


@pytest.mark.gen_test
async def test_the_whole_of_a_long_file_may_take_longer_than_the_way_to_it(names: Names, site: Site) -> None:
    go_on = asyncio.Event()

    async def halting(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(MP4, Content_Length=str(len(MP4) + 3)))
        await go_on.wait()
        writer.write(b"end")

    site.answers["/"] = halting
    async with make_fetcher(names, seconds=1.0).open(make_url(site), kinds=VIDEO) as opened:
        chunks = opened.chunks()
        await anext(chunks)
        waiting = asyncio.ensure_future(anext(chunks, b""))
        done, _ = await asyncio.wait([waiting], timeout=1.2)
        assert not done
        go_on.set()
        assert await waiting == b"end"


@pytest.mark.gen_test
async def test_a_name_that_takes_forever_to_look_up_is_given_up_in_time(site: Site) -> None:
    end = threading.Event()

    def resolve(name: str, port: int) -> Sequence[str]:
        end.wait(60)
        return ["127.0.0.1"]

    slow = make_fetcher(resolve, seconds=0.1)
    assert (await expect_failure(slow, make_url(site))).code == "upstream_file_unreachable"
    end.set()
    await slow.close()


@pytest.mark.gen_test
async def test_the_log_names_the_host_and_not_what_gives_access(
    fetcher: Fetcher, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.answers["/token-in-path?sig=token-in-query"] = answer(JSON, "500 Internal Server Error")
    with caplog.at_level(logging.DEBUG, "tornado_gate"):
        await expect_failure(fetcher, make_url(site, "/token-in-path?sig=token-in-query"))
        await expect_failure(fetcher, "http://user:token@[site.test/")
    text = caplog.text
    assert "site.test" in text
    assert "status 500" in text
    assert "token" not in text
