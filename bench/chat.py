"""Prints the CPU time per request of the gateway for the named cases.

Usage: .venv/bin/python bench/chat.py [CASE ...] [--rounds 3] [--seconds 1.0]. Without a name: chat, long, stream, messages.
The minimum of the rounds is shown, because other load only adds time. Compare on the same machine only; `make bench-self`
shows ratios.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SOME = ("chat", "long", "stream", "messages")


def main(options: argparse.Namespace) -> None:
    from bench.cases import CASES_BY_NAME
    from bench.measure import measure_cost, prepare
    from bench.side import load_facts, run_side, run_upstream

    prepare()
    print(f"{'':28}{'CPU µs':>8}{'per s':>8}")
    with run_upstream() as upstream, run_side(load_facts("ours"), upstream) as ours:
        for name in options.cases:
            found = [measure_cost(ours, CASES_BY_NAME[name], options.seconds) for _ in range(options.rounds)]
            micros, rate = min(one.micros for one in found), max(one.per_second for one in found)
            print(f"{CASES_BY_NAME[name].title:28}{micros:8.0f}{rate:8.0f}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))  # so that it runs from any folder, as the other scripts
    parser = argparse.ArgumentParser(description="Print the CPU time per request.")
    parser.add_argument("cases", nargs="*", default=list(SOME), metavar="CASE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    main(parser.parse_args())
