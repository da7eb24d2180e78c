"""What a guard of texts adds: to whole answers, to streams, and to requests out of its scope.

Usage: python -m bench.text_guards [--count N]

The guard masks e-mail addresses (`docs/how-to/guards.md`). Each case is measured alternately without guards, with a guard whose
scope does not have the request, and with one and two guards that review it; printed are medians.
CPU time is that of the gateway's process.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.upstream import Answer, Pause, Upstream, answer
from tests.support.wire_answers import make_answer, make_request

KEY = "bench-client-key-0123456789"
GUIDE = Path(__file__).parents[1] / "docs" / "how-to" / "guards.md"
CONF = """
plugins: {{openai: true{guards}}}
server: {{access_log: false}}
providers:
  up: {{plugin: openai, base_url: "{url}/v1", api_key: none}}
models:
  m: {{provider: up}}
  others: {{provider: up}}
keys: [{{name: bench, key: {key}}}]
"""
VARIANTS = {
    "without": "",
    "out of scope": ", discreet: {models: [others]}",
    "one guard": ", discreet: {required: true}",
    "two guards": ", discreet: {required: true}, discreet2: {required: true}",
}
WORDS = "Write to nobody, because the answer is in the next sentence. "
PIECES = [WORDS[start : start + 5] for start in range(0, len(WORDS), 5)] * 10
TICKS = os.sysconf("SC_CLK_TCK")


class Case(NamedTuple):
    title: str
    stream: bool
    answer: Answer
    requests: int


class Figures(NamedTuple):
    """Milliseconds: to the first text, to the end, and of CPU time."""

    first: float
    whole: float
    cpu: float


def make_cases(count: int) -> list[Case]:
    plain = make_answer("chat", PIECES, stream=True)
    slow = make_answer("chat", PIECES, stream=True)
    slow_steps = [step for frame in slow.steps for step in (frame, Pause(0.01))]
    return [
        Case("whole answer of 600 characters", False, repeat(make_answer("chat", PIECES, stream=False)), count),
        Case("whole answer of 200 KB", False, repeat(make_answer("chat", [WORDS * 3400], stream=False)), count // 4),
        Case("stream of 120 events at once", True, repeat(plain), count),
        Case("stream of 120 events, 10 ms apart", True, repeat(answer(*slow_steps, headers=slow.headers)), 5),
    ]


def repeat(given: Answer) -> Answer:
    return answer(*given.steps, headers=given.headers, repeat=True)


@contextmanager
def run_gateway(upstream: Upstream, guards: str) -> Iterator[Gateway]:
    (source,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
        if "tornado_gate_discreet" in block
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("discreet", "discreet2"):
            environment = install_module(Path(folder, "site"), name, source)
        conf = CONF.format(url=upstream.url, key=KEY, guards=guards)
        gateway = Gateway.start(conf, Path(folder), environment=environment)
        try:
            yield gateway
        finally:
            gateway.stop()


def read_cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(client: httpx.Client, case: Case, process: int) -> Figures:
    path, body = make_request("chat", "m", "Hello, who are you?", stream=case.stream)
    firsts: list[float] = []
    wholes: list[float] = []
    cpu = read_cpu_seconds(process)
    for _ in range(case.requests):
        begun, first, received = time.perf_counter(), 0.0, b""
        with client.stream("POST", path, json=body) as response:
            assert response.status_code == 200, response.read()
            for chunk in response.iter_raw():
                received += chunk
                if not first and b"Write" in received:
                    first = time.perf_counter() - begun
        wholes.append(time.perf_counter() - begun)
        firsts.append(first)
    spent = read_cpu_seconds(process) - cpu
    return Figures(statistics.median(firsts) * 1e3, statistics.median(wholes) * 1e3, spent / case.requests * 1e3)


def main(options: argparse.Namespace) -> None:
    upstream = Upstream.start()
    with ExitStack() as stack:
        stack.callback(upstream.stop)
        gateways = {name: stack.enter_context(run_gateway(upstream, conf)) for name, conf in VARIANTS.items()}
        headers = {"authorization": f"Bearer {KEY}"}
        clients = {
            name: stack.enter_context(httpx.Client(base_url=one.url, headers=headers, trust_env=False, timeout=60))
            for name, one in gateways.items()
        }
        for case in make_cases(options.count):
            upstream.reset()
            upstream.script(case.answer)
            print(case.title)
            rounds: dict[str, list[Figures]] = {name: [] for name in VARIANTS}
            for _ in range(options.rounds):
                for name, gateway in gateways.items():
                    rounds[name].append(measure(clients[name], case, gateway.child.process.pid))
            for name, found in rounds.items():
                figures = Figures(*(statistics.median(column) for column in zip(*found, strict=True)))
                print(
                    f"  {name:14s} first text {figures.first:8.2f} ms   end {figures.whole:8.2f} ms   CPU {figures.cpu:6.2f} ms"
                )


def parse_options(arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(description="What a guard of texts adds to requests.")
    parser.add_argument("--count", type=int, default=100, help="requests of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(parse_options(sys.argv[1:]))
