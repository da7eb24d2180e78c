"""The evaluation of the alert rules by Prometheus' own promtool, with samples of a gateway that really fails.

``make check-rules`` runs it by hand: promtool comes with Prometheus, which pip cannot install. Each fault of
`tests.deploy.faults` is made. Its change of /metrics is repeated each minute. promtool must find that the rule does not fire
before the fault, and fires during it. The run takes half a minute, because of a stream that begins late.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.faults import Seen, see_faults
from tests.deploy.rules import ALERTS, list_selectors, read_rules
from tests.support.upstream import Upstream

SLOW_SECONDS = 9.0
CALM_MINUTES = 20
FAULT_MINUTES = 15
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def main() -> int:
    promtool = shutil.which("promtool")
    if promtool is None:
        print(
            "promtool is not installed. It is a part of Prometheus, such as Debian's package prometheus.",
            file=sys.stderr,
        )
        return 2
    subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True)
    upstream = Upstream.start()
    with tempfile.TemporaryDirectory(prefix="tornado-gate-") as folder:
        seen = see_faults(upstream, Path(folder), SLOW_SECONDS)
        upstream.child.stop()
        tests = [make_test(name, rule, seen[name]) for name, rule in read_rules().items()]
        file = Path(folder) / "tests.yml"
        file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": tests}), encoding="utf-8")
        done = subprocess.run([promtool, "test", "rules", str(file)], check=False)
    print(f"{len(tests)} rules, {'all of them fire' if not done.returncode else 'not all of them as they must'}")
    return done.returncode


def make_test(name: str, rule: dict[str, Any], seen: Seen) -> dict[str, Any]:
    """Return a test of promtool: calm minutes with the samples before the fault, then minutes with the fault."""
    metrics = {selector.metric for selector in list_selectors(rule["expr"])}
    before, during = read_samples(seen.before, metrics), read_samples(seen.during, metrics)
    queries = [
        {
            "eval_time": f"{CALM_MINUTES - 1}m",
            "expr": f'count(ALERTS{{alertname="{name}"}}) or vector(0)',
            "exp_samples": [{"labels": "{}", "value": 0}],
        },
        {
            "eval_time": f"{CALM_MINUTES + FAULT_MINUTES - 1}m",
            "expr": f'clamp_max(count(ALERTS{{alertname="{name}", alertstate="firing"}}), 1)',
            "exp_samples": [{"labels": "{}", "value": 1}],
        },
    ]
    series = [
        {
            "series": render_series(*key),
            "values": render_values(key[0], before.get(key), during.get(key), bool(seen.during)),
        }
        for key in sorted(before.keys() | during.keys())
    ]
    return {"name": name, "interval": "1m", "input_series": series, "promql_expr_test": queries}


def read_samples(text: str, metrics: set[str]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in metrics
    }


def render_series(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in labels) + "}"


def render_values(name: str, before: float | None, during: float | None, is_served: bool) -> str:
    """Return the values of a series. A counter grows each minute by what the fault has added; a gauge keeps its value."""
    calm = f"_x{CALM_MINUTES}" if before is None else f"{before:g}x{CALM_MINUTES - 1}"
    if not is_served or during is None:
        return f"{calm} _x{FAULT_MINUTES}"
    if name.endswith(("_total", "_bucket")):
        step = during - (before or 0.0)
        return f"{calm} {during:g}+{step:g}x{FAULT_MINUTES - 1}"
    return f"{calm} {during:g}x{FAULT_MINUTES - 1}"


if __name__ == "__main__":
    raise SystemExit(main())
