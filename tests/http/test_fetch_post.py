"""What somebody is to be told, posted to an address that a client gave: where it goes, and what counts as an answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.support.fetching import LOOPBACK, make_fetcher
from tests.support.site import Names, answer, tls_of_site_test
from tornado_gate.http.fetch import Fetcher, FetchRules, PostFailed

BODY = b'{"type":"video.completed"}'
JSON = {"Content-Type": "application/json"}


class Receiver:
    """A server that reads a whole request, remembers it, and then says exactly what a test wants."""

    def __init__(self) -> None:
        self.says: Any = answer(b"ok")
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.port = 0

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        self.got.append((first, headers, await reader.readexactly(int(headers["Content-Length"]))))
        try:
            if isinstance(self.says, bytes):
                writer.write(self.says)
                await writer.drain()
            else:
                await self.says(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()


@pytest.fixture
def receiver(io_loop: IOLoop) -> Iterator[Receiver]:
    receiver = Receiver()
    io_loop.run_sync(receiver.start)
    yield receiver
    io_loop.run_sync(receiver.stop)


async def post(
    fetcher: Fetcher, receiver: Receiver, path: str = "/hook?a=%2F", seconds: float = 10, account: str = ""
) -> int:
    return await fetcher.post(f"http://site.test:{receiver.port}{path}", BODY, JSON, seconds=seconds, account=account)


async def failure(fetcher: Fetcher, url: str, seconds: float = 10) -> str:
    with pytest.raises(PostFailed) as caught:
        await fetcher.post(url, BODY, JSON, seconds=seconds)
    return str(caught.value)


@pytest.mark.gen_test
async def test_a_body_arrives_as_it_is_with_the_headers_that_were_given(fetcher: Fetcher, receiver: Receiver) -> None:
    assert await post(fetcher, receiver) == 200
    [(first, headers, body)] = receiver.got
    assert (first, body) == ("POST /hook?a=%2F HTTP/1.1", BODY)
    assert headers["Host"] == f"site.test:{receiver.port}"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("tornado-gate/")
    assert not {"Cookie", "Authorization", "Referer"} & set(headers)


@pytest.mark.gen_test
@pytest.mark.parametrize("status", [200, 201, 204, 299, 400, 404, 410, 429, 500, 503])
async def test_a_status_is_given_whether_it_is_good_or_bad(fetcher: Fetcher, receiver: Receiver, status: int) -> None:
    receiver.says = answer(status=f"{status} Word", Content_Length="" if status == 204 else "0")
    assert await post(fetcher, receiver) == status


@pytest.mark.gen_test
@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(fetcher: Fetcher, receiver: Receiver, status: int) -> None:
    receiver.says = answer(status=f"{status} Moved", Location="/there")
    url = f"http://site.test:{receiver.port}/"
    assert "redirects" in await failure(fetcher, url)
    assert len(receiver.got) == 1


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://inside.test/", "public internet"),
        ("http://10.1.2.3/", "public internet"),
        ("http://169.254.169.254/", "public internet"),
        ("http://[::ffff:127.0.0.2]/", "public internet"),
        ("http://2130706433/", "valid URL"),
        ("http://site.test:6379/", "port"),
        ("http://user:word@site.test/", "user name"),
        ("file:///etc/passwd", "valid URL"),
        ("data:,a", "valid URL"),
        ("hook", "valid URL"),
        ("", "valid URL"),
        ("http://nowhere.test/", "cannot be resolved"),
    ],
)
async def test_nothing_is_posted_inside(fetcher: Fetcher, url: str, word: str) -> None:
    message = await failure(fetcher, url)
    assert word in message
    assert not any(part in message for part in ("10.1.2.3", "127.0.0.2", "169.254", "passwd", "data:"))


@pytest.mark.gen_test
async def test_a_name_that_rebinds_is_looked_up_for_each_post_and_only_once(receiver: Receiver) -> None:
    names = Names({"site.test": [["127.0.0.1"], ["10.0.0.1"]]})
    fetcher = make_fetcher(names)
    assert await post(fetcher, receiver) == 200
    assert names.asked == ["site.test"]
    assert "public internet" in await failure(fetcher, f"http://site.test:{receiver.port}/")
    assert len(receiver.got) == 1


@pytest.mark.gen_test
async def test_rules_of_schemes_and_ports_hold(names: Names, receiver: Receiver) -> None:
    url = f"http://site.test:{receiver.port}/"
    assert "valid URL" in await failure(make_fetcher(names, schemes=frozenset({"https"})), url)
    assert "port" in await failure(make_fetcher(names, ports=frozenset({443})), url)
    assert receiver.got == []


@pytest.mark.gen_test
async def test_a_certificate_is_checked(names: Names, tmp_path: Path) -> None:
    server, client = tls_of_site_test(tmp_path)
    receiver = Receiver()
    await receiver.start(server)
    url = f"https://site.test:{receiver.port}/"
    rules = FetchRules(allow_networks=(LOOPBACK,))
    assert await Fetcher(rules, resolve=names, tls=client).post(url, BODY, JSON, seconds=10) == 200
    assert "certificate" in await failure(Fetcher(rules, resolve=names), url)
    assert len(receiver.got) == 1
    await receiver.stop()


@pytest.mark.gen_test
@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.6\r\n"])
async def test_who_does_not_answer_in_http_has_not_answered(fetcher: Fetcher, receiver: Receiver, said: bytes) -> None:
    receiver.says = said
    message = await failure(fetcher, f"http://site.test:{receiver.port}/")
    assert "could not be read" in message
    assert "SSH" not in message


@pytest.mark.gen_test
async def test_a_receiver_that_says_nothing_is_left_in_time(fetcher: Fetcher, receiver: Receiver) -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    receiver.says = silent
    assert "0.2 seconds" in await failure(fetcher, f"http://site.test:{receiver.port}/", 0.2)


@pytest.mark.gen_test
@pytest.mark.parametrize("sent", [answer(b"o", Content_Length="1000"), answer(Content_Length="")])
async def test_a_status_counts_though_the_rest_of_the_answer_never_comes(
    fetcher: Fetcher, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("tornado_gate.http.fetch.fetcher.DISCARD_SECONDS", 0.2)

    async def stuck(writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await asyncio.Event().wait()

    receiver.says = stuck
    assert await post(fetcher, receiver, seconds=5) == 200
    receiver.says = answer(b"cut", Content_Length="1000")
    assert await post(fetcher, receiver) == 200


@pytest.mark.gen_test
async def test_an_answer_without_end_is_not_read_to_its_end(fetcher: Fetcher, receiver: Receiver) -> None:
    sent = 0
    left = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(answer(Content_Length=""))
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536
        finally:
            left.set()

    receiver.says = endless
    assert await post(fetcher, receiver) == 200
    await asyncio.wait_for(left.wait(), 60)
    assert sent < 20_000_000


@pytest.mark.gen_test
async def test_a_header_with_a_line_in_it_is_not_sent(fetcher: Fetcher, receiver: Receiver) -> None:
    with pytest.raises(PostFailed):
        await fetcher.post(f"http://site.test:{receiver.port}/", BODY, {"webhook-id": "a\r\nX: b"}, seconds=10)
    assert receiver.got == []


@pytest.mark.gen_test
async def test_no_more_are_posted_at_once_than_the_rules_say_and_clients_files_do_not_count(
    names: Names, receiver: Receiver
) -> None:
    open_now, most, go_on = 0, 0, asyncio.Event()

    async def counted(writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        if len(receiver.got) == 2:
            go_on.set()
        await go_on.wait()
        open_now -= 1
        writer.write(answer())

    receiver.says = counted
    fetcher = make_fetcher(names, parallel=2)
    for account in ("one", "another"):
        await fetcher._places.reserve(account, 1, 20, "")
    async with asyncio.timeout(60):
        posts = [post(fetcher, receiver, account=f"account {number}") for number in range(6)]
        assert await asyncio.gather(*posts) == [200] * 6
    assert most == 2


@pytest.mark.gen_test
async def test_slow_receivers_of_one_account_do_not_delay_another(names: Names, receiver: Receiver) -> None:
    both, go_on = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        if len(receiver.got) == 2:
            both.set()
        await go_on.wait()
        writer.write(answer())

    receiver.says = slow
    fetcher = make_fetcher(names, parallel=8)
    greedy = [asyncio.create_task(post(fetcher, receiver, account="greedy")) for _ in range(20)]
    await both.wait()  # a quarter of the places
    receiver.says = answer()
    assert await post(fetcher, receiver, account="other") == 200
    assert len(receiver.got) == 3
    receiver.says = slow
    go_on.set()
    assert await asyncio.gather(*greedy) == [200] * 20
