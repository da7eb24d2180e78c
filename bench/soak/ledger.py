"""Compares the ledger of a gateway that has ended with what was sent: every request once, and totals that are their sum."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sqlalchemy import select

from bench.soak.records import Journal
from tornado_gate.database.opening import open_database
from tornado_gate.database.usage_tables import usage
from tornado_gate.ledger.entries import VIDEO_TASK
from tornado_gate.ledger.made import counts_as_request
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import UsageQuery


def check_ledger(journal: Journal, data_dir: Path, address: str) -> tuple[list[str], dict[str, int]]:
    """(faults, figures). The gateway must have ended: it writes its last rows then."""
    database = open_database(data_dir, address)
    try:
        with database.read() as connection:
            found = connection.execute(
                select(usage.c.request_id, usage.c.operation, usage.c.model, usage.c.status)
            ).all()
        rows = Counter(row.request_id for row in found if row.operation != VIDEO_TASK)
        totals = sum(one.requests for one in Reports(database).usage(UsageQuery(start=0, end=4e9)))
    finally:
        database.close()
    faults = [
        f"{count} rows of request {name}" for name, count in rows.items() if count > 1 and name.startswith("soak")
    ]
    expected = lost = 0
    for request in journal.requests:
        if not request.recorded or request.outcome in ("OPEN", "cut") or not request.status:
            continue
        expected += 1
        if request.id in rows:
            continue
        if any(one.may_lose_row_of(request) for one in journal.disruptions):
            lost += 1
        else:
            faults.append(f"no row of request {request.id} ({request.kind}, {request.model}, {request.outcome})")
    counted = sum(counts_as_request(row.operation, row.model, row.status) for row in found)
    if totals != counted:
        faults.append(f"the totals count {totals} requests, the rows {counted}")
    return faults, {"expected": expected, "rows": len(found), "lost with a killed worker": lost}
