"""One process against two, and one node against two that share PostgreSQL and Valkey: requests per second and CPU time.

Usage: python -m bench.nodes [--seconds N] [--rounds N]. Prints a table. All processes of gateways share one core; the engines,
the upstream and the load share the other one. So two processes or nodes give no more requests than one here. Their CPU time per
request tells what another core or machine adds, and what the engines carry.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.cases import CASES_BY_NAME, Case
from bench.load import LoadGenerator
from bench.measure import WARM_SHARE, prepare, run_in_loop
from bench.meter import read_cpu_seconds
from bench.peers.ours import FACTS, KEY
from bench.side import RunningSide, run_side, run_upstream
from tests.support.postgres import PostgresServer
from tests.support.valkey import Valkey

LIMITED_KEY = "bench-key-with-limits"
CONF = """
server: {{port: $port, data_dir: $folder/var, processes: {processes}}}
{engines}
plugins: {{openai: true}}
providers:
  mock: {{plugin: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-key}}
models:
  mocked: {{provider: mock}}
keys:
  - {{name: bench, key: {key}}}
  - {{name: limited, key: {limited}, requests_per_minute: 100000000, budget: {{usd_per_day: 1000000}}}}
"""
CASE = CASES_BY_NAME["chat"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Requests per second, and the CPU µs of one request in the nodes, in PostgreSQL and in Valkey."""

    per_second: float
    nodes: float
    postgres: float
    valkey: float


@dataclass(frozen=True, slots=True)
class Form:
    """A way to run the gateway. `has_engines`: with PostgreSQL and Valkey instead of files."""

    title: str
    nodes: int = 1
    processes: int = 1
    has_engines: bool = True


FORMS = (
    Form("1 process, no engines", has_engines=False),
    Form("2 processes, no engines", processes=2, has_engines=False),
    Form("1 node"),
    Form("2 nodes", nodes=2),
)


@dataclass(frozen=True, slots=True)
class Site:
    """The running nodes and engines; the engines are process ids."""

    nodes: tuple[RunningSide, ...]
    postgres: int
    valkey: int

    def read_cpu(self) -> tuple[float, float, float]:
        """Return the CPU seconds of the nodes, of PostgreSQL and of Valkey."""
        nodes = sum(read_cpu_seconds(node.process) for node in self.nodes)
        return nodes, read_cpu_seconds(self.postgres), read_cpu_seconds(self.valkey)


@contextlib.contextmanager
def run_site(form: Form, upstream: int) -> Iterator[Site]:
    """Run the nodes of a form on new engines."""
    postgres, valkey = PostgresServer(), Valkey()
    address = postgres.create("nodes")
    engines = f'database: "{address}"\nlimits: {{store: "{valkey.url}"}}' if form.has_engines else ""
    conf = CONF.format(engines=engines, processes=form.processes, key=KEY, limited=LIMITED_KEY)
    try:
        with contextlib.ExitStack() as stack:
            nodes = [
                stack.enter_context(run_side(FACTS, upstream, files={"gate.yaml": conf})) for _ in range(form.nodes)
            ]
            yield Site(tuple(nodes), postgres.process_id, valkey.process_id)
    finally:
        valkey.kill()
        postgres.close()


def measure(site: Site, case: Case, headers: Mapping[str, str], seconds: float) -> Figures:
    """Divide the connections of the case among the nodes, and measure. Raises BadAnswer if a response is wrong."""

    async def run() -> Figures:
        loads = [LoadGenerator(node.port, case.request(headers), case.expected) for node in site.nodes]
        try:
            for load in loads:
                await load.open(case.connections // len(loads))
            await asyncio.gather(*(load.run(seconds * WARM_SHARE) for load in loads))
            before = site.read_cpu()
            results = [result.check() for result in await asyncio.gather(*(load.run(seconds) for load in loads))]
            used = [now - then for now, then in zip(site.read_cpu(), before, strict=True)]
        finally:
            for load in loads:
                load.close()
        answers = sum(result.answers for result in results)
        return Figures(answers / max(result.seconds for result in results), *(cpu / answers * 1e6 for cpu in used))

    return run_in_loop(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    prepare()
    print(
        "| load | form | requests/s | gateway, CPU µs | PostgreSQL, CPU µs | Valkey, CPU µs |\n|---|---|---|---|---|---|"
    )
    with run_upstream() as upstream:
        for form in FORMS:
            with run_site(form, upstream) as site:
                for title, key in (("chat, no limits", KEY), ("chat, a rate and a budget", LIMITED_KEY)):
                    headers = {"Authorization": f"Bearer {key}"}
                    rounds = [measure(site, CASE, headers, options.seconds) for _ in range(options.rounds)]
                    columns = [
                        statistics.median(getattr(figures, name) for figures in rounds)
                        for name in Figures.__dataclass_fields__
                    ]
                    print(
                        f"| {title} | {form.title} | {' | '.join(f'{value:,.0f}' for value in columns)} |", flush=True
                    )


if __name__ == "__main__":
    main()
