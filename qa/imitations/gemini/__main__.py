"""``python -m qa.imitations.gemini`` runs every scenario, and prints the figures and each fault."""

from __future__ import annotations

import sys

from qa.imitations.gemini.crossing import run_crossings
from qa.imitations.gemini.run import run_all

for name, report in (("Gemini", run_all()), ("Between Anthropic and Gemini", run_crossings())):
    for fault in report.list_faults():
        print(fault, file=sys.stderr)
    print(f"{name}: {report}")
