"""What the ledger has of a video task that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.gates import FakeProvider, make_config, make_gate
from tornado_gate.config.prices import ANY_VARIANT, PriceEntry
from tornado_gate.ledger.entries import RowMaker
from tornado_gate.ledger.writing import COST
from tornado_gate.tasks.record import CANCELLED, TaskRecord
from tornado_gate.tasks.usage import _make_entry
from tornado_gate.types import VideoFile

REQUEST = {"prompt": "a cat", "seconds": 8.0, "n": 2}
STARTED = {"id": "operation-1"}
FILE = VideoFile(id="f", media_type="video/mp4", size=1, duration=8.0)


@pytest.mark.parametrize(
    ("ended", "outcome", "seconds"),
    [
        ({"status": "completed", "files": (FILE, FILE)}, "complete", 16),
        ({"error_code": "upstream_error", "operation": STARTED}, "failed", 0),
        ({"error_code": CANCELLED}, "failed", 0),
        ({"error_code": CANCELLED, "operation": STARTED, "progress": 25}, "aborted", 4),
        ({"error_code": CANCELLED, "operation": STARTED}, "aborted", 16),
    ],
)
def test_a_cancelled_video_costs_what_its_upstream_has_made(
    tmp_path: Path, ended: Mapping[str, Any], outcome: str, seconds: int
) -> None:
    config = make_config(tmp_path, prices={"m": PriceEntry(per_second={ANY_VARIANT: Decimal(1)})})
    gate = make_gate(tmp_path, config, fake=FakeProvider())
    record = TaskRecord(
        id="video_1", account="a", model="m", provider="fake", upstream_model="m", created_at=1.0, deadline=2.0,
        request=REQUEST, **{"status": "failed", **ended},
    )  # fmt: skip
    entry = _make_entry(gate, record)
    row = RowMaker().make_row(entry)
    assert (outcome, seconds * 10**9) == (row[9], row[COST])
