"""Places and memory for fetched files: bounded for a request, for an account and in all, and released in every case."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack

import pytest

from tests.support.fetching import expect_refusal, fetch_image, make_fetcher
from tests.support.site import Names, Site, answer
from tornado_gate.errors import Unavailable
from tornado_gate.http.fetch.fetcher import COPIES
from tornado_gate.http.fetch.shares import SharedResource

PNG = b"\x89PNG\r\n\x1a\n" + bytes(1000)
SIZE = len(PNG)


def unsized(body: bytes) -> bytes:
    """A response whose head does not announce its length."""
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body


def is_free(resource: SharedResource) -> bool:
    return not (resource.held or resource._held_by or resource._queues)


@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("respond", [answer, unsized])
async def test_the_files_of_one_request_are_bounded_together(names: Names, site: Site, respond: object) -> None:
    site.answers["/"] = respond(PNG)  # type: ignore[operator]
    fetcher = make_fetcher(names, request_bytes=3 * SIZE, max_bytes=2 * SIZE)
    async with AsyncExitStack() as closing:
        request = fetcher.for_request("account", closing)
        for _ in range(3):
            assert (await fetch_image(request, site)).data == PNG
        error = await expect_refusal(fetch_image(request, site))
        assert error.code == "too_large"
        assert "files of this request" in error.message
        assert str(3 * SIZE) in error.message
        assert fetcher.memory._held_by == {"account": 3 * SIZE * COPIES}
        assert (await fetch_image(fetcher.for_request("account", closing), site)).data == PNG
    assert is_free(fetcher.memory)
    assert is_free(fetcher._places)


@pytest.mark.gen_test(timeout=60)
async def test_a_second_attempt_has_the_whole_bound_again(names: Names, site: Site) -> None:
    site.answers["/"] = answer(PNG)
    fetcher = make_fetcher(names, request_bytes=SIZE)
    closing = AsyncExitStack()
    request = fetcher.for_request("account", closing)
    for _ in range(3):
        await fetch_image(request, site)
        await closing.aclose()
        assert is_free(fetcher.memory)


@pytest.mark.gen_test(timeout=60)
async def test_a_fetch_that_fails_or_is_cancelled_holds_nothing(names: Names, site: Site) -> None:
    waiting = asyncio.Event()

    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(PNG)[:-1])
        await writer.drain()
        waiting.set()
        await asyncio.Event().wait()

    async def broken(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(PNG)[:-1])

    site.answers |= {"/half": half, "/broken": broken, "/missing": answer(status="404 Not Found")}
    fetcher = make_fetcher(names)
    async with AsyncExitStack() as closing:
        request = fetcher.for_request("account", closing)
        for path in ("/broken", "/missing"):
            await expect_refusal(fetch_image(request, site, path))
        task = asyncio.create_task(fetch_image(request, site, "/half"))
        await waiting.wait()
        task.cancel()
        await asyncio.wait([task])
        assert is_free(fetcher.memory)
        assert is_free(fetcher._places)


@pytest.mark.gen_test(timeout=60)
async def test_a_fetch_that_outlives_its_request_leaves_nothing_reserved(names: Names, site: Site) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        begun.set()
        await go_on.wait()
        writer.write(answer(PNG))

    site.answers["/"] = slow
    fetcher = make_fetcher(names)
    closing = AsyncExitStack()
    request = fetcher.for_request("account", closing)
    task = asyncio.create_task(fetch_image(request, site))
    await begun.wait()
    await closing.aclose()
    go_on.set()
    assert (await task).data == PNG
    del request, task, closing
    gc.collect()
    assert is_free(fetcher.memory)


@pytest.mark.gen_test(timeout=60)
async def test_slow_addresses_of_one_account_do_not_delay_another(names: Names, site: Site) -> None:
    both, go_on = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        if len(site.asked) == 2:
            both.set()
        await go_on.wait()
        writer.write(answer(PNG))

    site.answers |= {"/slow": slow, "/": answer(PNG)}
    fetcher = make_fetcher(names, parallel=8)
    async with AsyncExitStack() as closing:
        greedy = [
            asyncio.create_task(fetch_image(fetcher.for_request("greedy", closing), site, "/slow")) for _ in range(20)
        ]
        await both.wait()
        assert (await fetch_image(fetcher.for_request("other", closing), site)).data == PNG
        assert len(site.asked) == 3  # 2 of the 8 places for one account, and the other
        go_on.set()
        assert [found.data for found in await asyncio.gather(*greedy)] == [PNG] * 20


@pytest.mark.gen_test(timeout=60)
async def test_without_a_place_in_time_the_request_is_a_503(names: Names, site: Site) -> None:
    site.answers["/"] = answer(PNG)
    fetcher = make_fetcher(names, seconds=0.05)
    async with AsyncExitStack() as closing:
        request = fetcher.for_request("account", closing)
        for resource in (fetcher._places, fetcher.memory):
            await resource.reserve("account", resource.total, 1, "")
            with pytest.raises(Unavailable) as caught:
                await fetch_image(request, site)
            assert (caught.value.status, caught.value.code) == (503, "overloaded")
            assert caught.value.retry_after
            resource.release("account", resource.total)
    assert is_free(fetcher._places)
    assert is_free(fetcher.memory)


# The resource itself


async def reserve(resource: SharedResource, account: str, size: int) -> None:
    await resource.reserve(account, size, 30, "busy")


@pytest.mark.gen_test(timeout=60)
async def test_one_account_holds_a_quarter_and_the_accounts_take_turns() -> None:
    resource, order = SharedResource(8), list[str]()

    async def hold(account: str) -> None:
        await reserve(resource, account, 1)
        order.append(account)

    tasks = [asyncio.create_task(hold(account)) for account in ["a"] * 6 + ["b"] * 3 + ["c"]]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(order) == ["a", "a", "b", "b", "c"]
    while order.count("a") < 6:
        resource.release("a", 1)
        await asyncio.sleep(0)
    assert not resource._queues.get("a")
    resource.release("b", 1)
    await asyncio.gather(*tasks)


@pytest.mark.gen_test(timeout=60)
async def test_a_large_reservation_is_not_overtaken_by_small_ones_of_others() -> None:
    resource = SharedResource(100)
    for account in "abcd":
        await reserve(resource, account, 25)
    large = asyncio.create_task(reserve(resource, "large", 50))
    await asyncio.sleep(0)
    small = asyncio.create_task(reserve(resource, "small", 1))
    await asyncio.sleep(0)
    resource.release("a", 25)
    await asyncio.sleep(0)
    assert not large.done()
    assert not small.done()
    resource.release("b", 25)
    await large
    resource.release("large", 50)
    await small


@pytest.mark.gen_test(timeout=60)
async def test_more_than_the_bound_is_granted_when_nothing_else_is_held() -> None:
    resource = SharedResource(10)
    await reserve(resource, "a", 50)
    other = asyncio.create_task(reserve(resource, "b", 1))
    await asyncio.sleep(0)
    assert not other.done()
    resource.release("a", 50)
    await other
    resource.release("b", 1)
    assert is_free(resource)


@pytest.mark.gen_test(timeout=60)
async def test_a_reservation_that_is_cancelled_while_it_is_granted_is_released() -> None:
    resource = SharedResource(4)
    await reserve(resource, "a", 1)
    waiting = asyncio.create_task(reserve(resource, "a", 1))
    await asyncio.sleep(0)
    resource.release("a", 1)  # grants it
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert is_free(resource)
