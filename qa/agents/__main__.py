"""``python -m qa.agents``: run all agents, print a table, write docs/recipes/agents.md. Exits with 1 if a run fails.

With ``--agents``, ``--upstreams`` or ``--scenarios`` only some are run, and the page is not written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue

from qa.agents.agents import AGENTS, Agent
from qa.agents.probes import probe
from qa.agents.report import PAGE, render_faults, render_table, write_page
from qa.agents.runs import Outcome, run
from qa.agents.scenarios import SCENARIOS
from qa.agents.site import UPSTREAMS, running_site

Run = tuple[Agent, str, str]
JOBS = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m qa.agents")
    parser.add_argument("--agents", nargs="*", help=", ".join(agent.name for agent in AGENTS))
    parser.add_argument("--upstreams", nargs="*", choices=UPSTREAMS)
    parser.add_argument("--scenarios", nargs="*", choices=list(SCENARIOS))
    options = parser.parse_args()
    plan = make_plan(options.agents, options.upstreams, options.scenarios)
    folder = Path(tempfile.mkdtemp(prefix="agents-"))
    with tempfile.TemporaryDirectory() as inner, running_site(Path(inner)) as site:
        probes = list(probe(site))
    outcomes = run_all(plan, folder)
    outcomes.sort(
        key=lambda one: [(agent.name, upstream, scenario) for agent, upstream, scenario in plan].index(_name(one))
    )
    print("\n" + render_table(outcomes), *render_faults(outcomes), *(one for one in probes if one.fault), sep="\n")
    if not (options.agents or options.upstreams or options.scenarios):
        write_page(outcomes, probes)
        print(f"\nwritten: {PAGE}")
    (folder / "outcomes.json").write_text(json.dumps([asdict(one) for one in outcomes]), encoding="utf-8")
    print(f"requests, outputs and outcomes: {folder}")
    sys.exit(any(one.faults for one in outcomes) or any(one.fault for one in probes))


def _name(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.agent, outcome.upstream, outcome.scenario


def make_plan(
    agents: Sequence[str] | None, upstreams: Sequence[str] | None, scenarios: Sequence[str] | None
) -> list[Run]:
    """The runs, in the order of the table."""
    return [
        (agent, upstream, scenario)
        for agent in AGENTS
        if not agents or agent.name in agents
        for upstream in UPSTREAMS
        if not upstreams or upstream in upstreams
        for scenario in SCENARIOS
        if (not scenarios or scenario in scenarios) and scenario in agent.scenarios
    ]


def run_all(plan: Sequence[Run], folder: Path) -> list[Outcome]:
    """Run all, each worker with a gateway and upstreams of its own; prints each outcome."""
    work: SimpleQueue[Run] = SimpleQueue()
    for one in plan:
        work.put(one)
    outcomes: list[Outcome] = []

    def work_off(number: int) -> None:
        with tempfile.TemporaryDirectory() as inner, running_site(Path(inner)) as site:
            while True:
                try:
                    agent, upstream, scenario = work.get_nowait()
                except Empty:
                    break
                outcome = run(site, agent, upstream, scenario, folder / f"{agent.name}-{upstream}-{scenario}")
                outcomes.append(outcome)
                print(describe(outcome, len(outcomes), len(plan)), flush=True)
            (folder / f"gateway{number}.log").write_text(site.gateway.logs, encoding="utf-8")

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(work_off, range(JOBS)))
    return outcomes


def describe(outcome: Outcome, number: int, total: int) -> str:
    """The line of progress of one run."""
    state = "ok" if not outcome.faults else f"FAILED: {outcome.faults[0][:500]}"
    where = f"{outcome.agent} {outcome.upstream} {outcome.scenario}"
    return f"{number}/{total} {where}: {outcome.requests} requests, {outcome.seconds:.0f} s, {state}"


if __name__ == "__main__":
    main()
