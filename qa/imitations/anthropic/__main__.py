"""``python -m qa.imitations.anthropic`` runs every scenario, and prints the figures and each fault."""

from __future__ import annotations

import sys

from qa.imitations.anthropic.run import run_all

report = run_all()
for fault in report.list_faults():
    print(fault, file=sys.stderr)
print(f"Anthropic: {report}")
