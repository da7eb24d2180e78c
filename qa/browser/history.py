"""Two days of scripted requests in the ledger, so that pages with figures, charts and lists look as in use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tests.ledger.rows import make_stored_row
from tornado_gate.database.engine import Database
from tornado_gate.ledger.writing import StoredRow, write_rows

HOURS: Final = 48
MODELS: Final = (
    # name, provider, requests in a busy hour, milliseconds, nano-dollars of a request
    ("local-chat", "local", 9, 900, 18_000_000),
    ("slow-chat", "slow", 5, 4200, 41_000_000),
    ("local-embed", "local", 4, 120, 400_000),
    ("local-image-1", "local", 1, 9000, 40_000_000),
)
FAULTS: Final = (
    ("refused", 429, "budget_exceeded"),
    ("failed", 503, "upstream_unavailable"),
    ("refused", 400, "invalid_request"),
    ("failed", 504, "upstream_timeout"),
)


def write_history(database: Database, *, key: str, user: str, team: str = "", now: float | None = None) -> None:
    """Write the requests of the last two days: of one key, every ninth failed. Equal times give equal rows."""
    rows = list(list_rows(time.time() if now is None else now, key, user, team))
    write_rows(database, rows, may_repeat=False)


def list_rows(now: float, key: str, user: str, team: str) -> Iterator[StoredRow]:
    """Yield the rows, the oldest first."""
    number = 0
    for hour in range(HOURS, 0, -1):
        load = 1 + (hour * 7) % 5
        for model, provider, most, milliseconds, cost in MODELS:
            for part in range(-(-most * load // 5)):
                number += 1
                yield _make_row(
                    number, now - hour * 3600 + part * 97, (model, provider, milliseconds, cost), (key, user, team)
                )


def _make_row(number: int, moment: float, model: tuple[str, str, int, int], owner: tuple[str, str, str]) -> StoredRow:
    name, provider, milliseconds, cost = model
    key, user, team = owner
    outcome, status, code = FAULTS[number % len(FAULTS)] if number % 9 == 0 else ("complete", 200, "")
    total = milliseconds * (0.6 + (number * 13 % 17) / 10)
    return make_stored_row(
        moment,
        request_id=f"req_{number:06d}",
        key=key,
        key_name="nightly report",
        user=user,
        team=team,
        model=name,
        upstream_model=name,
        provider=provider,
        operation="images" if "image" in name else "embeddings" if "embed" in name else "chat",
        outcome=outcome,
        status=status,
        error_code=code,
        input_tokens=None if code else 400 + number * 31 % 900,
        output_tokens=None if code else 80 + number * 17 % 500,
        cost=0 if code else cost,
        first_byte_ms=None if code else total * 0.3,
        total_ms=total,
    )
