"""Two gateways with one Valkey: they share the answers of the cache. Real processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Upstream, answer, sse
from tests.support.valkey import Valkey
from tornado_gate import PluginEntry
from tornado_gate.errors import ConfigError
from tornado_gate_cache import Cache
from tornado_gate_cache.shared_store import PREFIX, SharedAnswerStore
from tornado_gate_cache.store import Answer

CONF = """
plugins:
  openai: true
  cache: {{caches: {{chat: all}}, store: "{store}", keep_seconds: 600, answer_bytes: 10_000}}
providers:
  chat: {{plugin: openai, base_url: "{url}/v1", api_key: scripted-key-of-chat}}
models: {{of-chat: {{provider: chat, model: gpt-4o}}}}
keys:
  - {{name: ann, key: key-of-ann-0123456789, account: a}}
  - {{name: bob, key: key-of-bob-0123456789, account: b}}
"""
Nodes = tuple[Gateway, Gateway]


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def nodes(valkey: Valkey, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    conf = CONF.format(url=upstream_process.url, store=valkey.url)
    a, b = (Gateway.start(conf, tmp_path_factory.mktemp(name)) for name in ("a", "b"))
    yield a, b
    for gateway in (a, b):
        gateway.stop()


def ask(gateway: Gateway, text: str, key: str = "ann", **fields: Any) -> tuple[str, httpx.Response]:
    """Return the cache's header of the response to a chat, and the response."""
    body = {"model": "of-chat", "messages": [{"role": "user", "content": text}], **fields}
    headers = {"authorization": f"Bearer key-of-{key}-0123456789"}
    response = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False)
    assert response.status_code == 200, response.text
    return response.headers["x-gate-cache"], response


def read_failures(gateway: Gateway) -> float:
    text = httpx.get(gateway.url + "/metrics", trust_env=False).text
    name = "tornado_gate_cache_store_failures_total"
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def wait_for(check: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not check():
        assert time.monotonic() < ends


def test_an_answer_of_one_node_is_a_hit_at_the_other_for_its_account(nodes: Nodes, upstream: Upstream) -> None:
    a, b = nodes
    upstream.script(answer(completion("paid once")), answer(completion("for b")))
    result, paid = ask(a, "whole")
    assert result == "miss"
    wait_for(lambda: ask(a, "whole")[0] == "hit")
    result, free = ask(b, "whole")
    assert (result, free.content, free.headers["x-gate-cost"]) == ("hit", paid.content, "0")
    assert int(free.headers["age"]) < 60
    result, other = ask(b, "whole", "bob")
    assert (result, "for b" in other.text) == ("miss", True)


def test_a_stream_is_shared_and_too_large_an_answer_is_not(nodes: Nodes, upstream: Upstream) -> None:
    a, b = nodes
    stream = sse(chunk(role="assistant", content="Hello"), chunk(reason="stop"), usage_chunk(), DONE)
    upstream.script(answer(stream), answer(completion("x" * 10_001)), answer(completion("again")))
    _, paid = ask(a, "streamed", stream=True)
    wait_for(lambda: ask(a, "streamed", stream=True)[0] == "hit")
    result, free = ask(b, "streamed", stream=True)
    assert (result, free.text) == ("hit", paid.text)
    assert [ask(node, "large")[0] for node in nodes] == ["miss", "miss"]


@pytest.mark.qa
def test_a_store_that_hangs_or_is_gone_makes_misses_in_time(nodes: Nodes, upstream: Upstream, valkey: Valkey) -> None:
    a, _ = nodes
    upstream.script(answer(completion("new"), repeat=True))
    ask(a, "before")
    wait_for(lambda: ask(a, "before")[0] == "hit")
    failures = read_failures(a)
    valkey.hang()
    try:
        began = time.monotonic()
        assert ask(a, "before")[0] == "miss"
        waited = time.monotonic() - began
        assert waited < 20
        assert ask(a, "before")[0] == "miss", "without another wait"
    finally:
        valkey.go_on()
    assert read_failures(a) >= failures + 2
    valkey.kill()
    try:
        assert ask(a, "before")[0] == "miss"
    finally:
        valkey.start()
    wait_for(lambda: ask(a, "before")[0] == "hit")


@pytest.mark.gen_test
async def test_what_another_program_wrote_is_a_miss_and_answers_expire(valkey: Valkey) -> None:
    store = SharedAnswerStore(valkey.url, 600, 10_000)
    for value in (
        b"",
        b"{}\n",
        b"null\nbody",
        b'{"headers": 1, "stored": 1}\nbody',
        b'{"headers": {}, "stored": "x"}\n',
        b'{"headers": {"content-type": 5}, "stored": 1}\nbody',
    ):
        headers = {"content-type": "text/plain", "x-odd": "not UTF-8: \udcff"}
        store.add("ann", b"key", Answer(b"a\nb", headers, 5.0))
        while store._writes:
            await next(iter(store._writes))
        assert await store.find("ann", b"key") == Answer(b"a\nb", {"content-type": "text/plain"}, 5.0)
        assert await store.find("bob", b"key") is None
        (name,) = [name async for name in store._redis.scan_iter(f"{PREFIX}*:{b'key'.hex()}")]
        assert 590_000 < await store._redis.pttl(name) <= 600_000
        await store._redis.set(name, value)
        assert await store.find("ann", b"key") is None, value
        await store._redis.delete(name)
    store.add("ann", b"large", Answer(b"x" * 10_000, {}, 5.0))
    assert not store._writes, "no more than max_bytes waits to be written"
    await store._redis.aclose()


def test_a_fault_in_the_address_does_not_show_it() -> None:
    settings = {"store": "postgresql://user:password@host/1"}
    with pytest.raises(ConfigError) as raised:
        Cache().configure_plugin(PluginEntry(name="cache", settings=settings))
    ((path, message),) = raised.value.faults
    assert tuple(path) == ("store",)
    assert "valkey://host:6379" in message
    assert "password" not in message
