"""Search locked distributions for known vulnerabilities: ``python tools/audit.py FILE [OPTIONS OF pip-audit]``.

pip-audit has one exit code for a vulnerability and for a failed search. This one has two: 0: no vulnerability is known,
1: the listed ones are known, 2: the search failed, so nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ADVICE = (
    "The search needs the JSON API of PyPI; an index without it, such as a mirror, has no data. For a mirror of osv.dev: "
    'make audit AUDIT_ARGS="--vulnerability-service osv --osv-url URL"'
)


def main() -> int:
    file, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip_audit", "--strict", "--require-hashes", "--disable-pip", "-r", file]
        done = subprocess.run(
            [*command, "--format", "json", "--output", str(report), *options],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        found = _read_report(report)
    if not found or any("skip_reason" in row for row in found):
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        print(f"audit: nothing was searched: {lines[-1].strip() if lines else 'no report'}\n{ADVICE}", file=sys.stderr)
        return 2
    rows = [(row["name"], row["version"], vulnerability) for row in found for vulnerability in row["vulns"]]
    for name, version, vulnerability in rows:
        print(f"{name} {version}: {vulnerability['id']}, fixed in {', '.join(vulnerability['fix_versions']) or 'none'}")
    print(f"audit: {len(found)} distributions, {len(rows)} known vulnerabilities")
    return 1 if rows else done.returncode


def _read_report(report: Path) -> list[dict[str, Any]]:
    """Return the rows of a report; [] if the search failed."""
    try:
        rows: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
    except (OSError, ValueError, KeyError):
        return []
    return rows


if __name__ == "__main__":
    sys.exit(main())
