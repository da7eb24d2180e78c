"""What cache affinity gains, and what a target that hangs costs others.

Usage: python -m bench.affinity [--conversations N] [--turns N] [--seconds S]

1. Prompt-cache hit share: conversations of coding agents (long instructions and tools, turns that grow) at two accounts of three
   keys each, so six caches, of an upstream that imitates the vendors' caches and their usage fields
   (tests/support/prompt_caches.py). Printed: cached tokens / prompt tokens, as the caller's usage reports them.
2. Latency of a healthy model while another model's target accepts connections and never answers, with callers that go on asking
   for it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.gateway import Gateway
from tests.support.process import Child

CLIENT_KEY = "bench-client-key-0123456789"
KEYS = [f"sk-bench-{number}-0123456789" for number in range(3)]
INSTRUCTIONS = "You are a coding agent. Use the tools, answer briefly, and change nothing else. " * 60
TOOLS = [{"name": f"tool_{number}", "description": "Reads a file and returns it. " * 20} for number in range(8)]
SESSION = "x-claude-code-session-id"

CONF = """
plugins: {{openai: true, anthropic: true}}
server: {{access_log: false}}
providers:
  o1: {{plugin: openai, base_url: "{one}", api_keys: {keys}}}
  o2: {{plugin: openai, base_url: "{two}", api_keys: {keys}}}
  a1: {{plugin: anthropic, base_url: "{one}", api_keys: {keys}}}
  a2: {{plugin: anthropic, base_url: "{two}", api_keys: {keys}}}
  hanging: {{plugin: openai, base_url: "{hanging}", api_key: {keys[0]}}}
  fast: {{plugin: openai, base_url: "{mock}", api_key: {keys[0]}}}
models:
  o: {{targets: [{{provider: o1, model: m}}, {{provider: o2, model: m}}]{affinity}}}
  a: {{targets: [{{provider: a1, model: m}}, {{provider: a2, model: m}}]{affinity}}}
  hanging: {{provider: hanging}}
  healthy: {{provider: fast}}
keys: [{{name: bench, key: {client}}}]
"""


@contextmanager
def run_imitation() -> Iterator[str]:
    child = Child([sys.executable, "-m", "tests.support.prompt_caches"], folder=Path.cwd())
    try:
        yield child.wait_for_line(r"^(http://\S+)")[1]
    finally:
        child.stop()


@contextmanager
def run_gateway(
    affinity: str, one: str, two: str, hanging: str = "http://127.0.0.1:9", mock: str = ""
) -> Iterator[str]:
    conf = CONF.format(
        one=one, two=two, hanging=hanging, mock=mock or one, keys=KEYS, client=CLIENT_KEY, affinity=affinity
    )
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway.start(conf, Path(folder))
        try:
            yield gateway.url
        finally:
            gateway.stop()


def make_body(model: str, conversation: int, turn: int) -> dict[str, Any]:
    """The request of one turn: it repeats the conversation so far, as agents do."""
    texts = [f"In conversation {conversation}, file {number} has these lines. " * 60 for number in range(turn + 1)]
    messages: list[dict[str, Any]] = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    messages.pop()
    if model == "o":
        tools = [{"type": "function", "function": {**tool, "parameters": {"type": "object"}}} for tool in TOOLS]
        return {"model": model, "tools": tools, "messages": [{"role": "system", "content": INSTRUCTIONS}, *messages]}
    mark = {"cache_control": {"type": "ephemeral"}}
    messages[-1] = {"role": "user", "content": [{"type": "text", "text": texts[-1], **mark}]}
    tools = [{**tool, "input_schema": {"type": "object"}} for tool in TOOLS]
    system = [{"type": "text", "text": INSTRUCTIONS, **mark}]
    return {"model": model, "max_tokens": 10, "tools": tools, "system": system, "messages": messages}


def count_tokens(usage: dict[str, Any]) -> tuple[int, int]:
    """(cached, all) tokens of a prompt, in the vendor's usage fields."""
    if "prompt_tokens" in usage:
        return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]
    cached = usage["cache_read_input_tokens"]
    return cached, cached + usage["cache_creation_input_tokens"] + usage["input_tokens"]


async def measure_hit_share(url: str, model: str, conversations: int, turns: int, *, names_session: bool) -> float:
    path = "/v1/messages" if model == "a" else "/v1/chat/completions"
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "anthropic-version": "2023-06-01"}
    cached = prompts = 0
    async with aiohttp.ClientSession(headers=headers) as session:
        for turn in range(turns):
            for conversation in range(conversations):
                named = {SESSION: f"session-{conversation}"} if names_session else {}
                async with session.post(url + path, json=make_body(model, conversation, turn), headers=named) as answer:
                    answer.raise_for_status()
                    hit, prompt = count_tokens((await answer.json())["usage"])
                cached, prompts = cached + hit, prompts + prompt
    return cached / prompts


def compare_hit_shares(conversations: int, turns: int) -> None:
    print(f"prompt-cache hit share, {conversations} conversations of {turns} turns, 2 accounts with 3 keys each")
    for title, affinity, names_session in (
        ("without affinity", "", True),
        ("affinity by the agent's session header", ", affinity: true", True),
        ("affinity by the prompt's prefix", ", affinity: true", False),
    ):
        with run_imitation() as one, run_imitation() as two, run_gateway(affinity, one, two) as url:
            shares = [
                asyncio.run(measure_hit_share(url, model, conversations, turns, names_session=names_session))
                for model in ("o", "a")
            ]
        print(f"  {title:40s} OpenAI {shares[0]:6.1%}   Anthropic {shares[1]:6.1%}")


async def measure_latency(url: str, seconds: float) -> list[float]:
    body = {"model": "healthy", "messages": [{"role": "user", "content": "hi"}]}
    times: list[float] = []
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {CLIENT_KEY}"}) as session:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            started = time.perf_counter()
            async with session.post(url + "/v1/chat/completions", json=body) as answer:
                await answer.read()
                answer.raise_for_status()
            times.append(time.perf_counter() - started)
    return times


async def ask_hanging(url: str, number: int) -> None:
    """`number` callers ask for the model that hangs, until they are cancelled."""
    body = {"model": "hanging", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

    async def ask(session: aiohttp.ClientSession) -> None:
        while True:
            async with session.post(url + "/v1/chat/completions", json=body) as answer:
                await answer.read()

    connector = aiohttp.TCPConnector(limit=0)
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        await asyncio.gather(*(ask(session) for _ in range(number)))


async def compare_latency(url: str, seconds: float, callers: int) -> None:
    await measure_latency(url, 1.0)
    quiet, loud = [], []
    for _ in range(3):
        quiet += await measure_latency(url, seconds)
        task = asyncio.create_task(ask_hanging(url, callers))
        await asyncio.sleep(0.5)
        loud += await measure_latency(url, seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for title, times in (("alone", quiet), (f"{callers} callers wait for a hung target", loud)):
        quantiles = statistics.quantiles(times, n=100)
        print(f"  {title:40s} p50 {quantiles[49] * 1000:6.2f} ms   p99 {quantiles[98] * 1000:6.2f} ms   n {len(times)}")


async def serve_hanging(seconds: float, callers: int) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)  # reads and never answers
    from bench.side import run_upstream

    with run_upstream() as port:
        hanging = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        mock = f"http://127.0.0.1:{port}"
        with run_gateway("", mock, mock, hanging, mock) as url:
            await compare_latency(url, seconds, callers)
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--callers", type=int, default=50)
    given = parser.parse_args()
    print("load of the machine:", " ".join(f"{value:.1f}" for value in os.getloadavg()))
    compare_hit_shares(given.conversations, given.turns)
    print("latency of a healthy model")
    asyncio.run(serve_hanging(given.seconds, given.callers))


if __name__ == "__main__":
    main()
