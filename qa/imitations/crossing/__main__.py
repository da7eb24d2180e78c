"""``python -m qa.imitations.crossing [PART-OF-A-NAME]`` runs every conversation, and prints each fault and the table."""

from __future__ import annotations

import sys

from qa.imitations.crossing.run import run_all
from qa.imitations.crossing.table import render_table

reports = run_all(only=sys.argv[1] if len(sys.argv) > 1 else "")
for report in reports.values():
    for fault in report.list_faults():
        print(fault, file=sys.stderr)
print(render_table(reports))
