"""Times of requests from the ledger: to the first token, and in all. They come from a sample with a bounded number of rows.

The totals by hour and day have no times, because percentiles cannot be added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Select, literal_column, select
from sqlalchemy.engine import Row

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import usage
from tornado_gate.ledger.details import parse_details
from tornado_gate.ledger.rows import UsageQuery, find_first_id
from tornado_gate.types.value import Value

MAX_SLICES: Final = 120
"""The number of queries of one report, or one for each bar if there are more bars."""
MAX_ROWS: Final = 8000
"""The number of rows of one report. Each slice of time has an equal share, whose newest rows count."""
SAMPLE_FILTERS: Final = ("user", "team", "key", "model")


class Percentiles(NamedTuple):
    """Milliseconds: the median, and the value below which 95 % are."""

    p50: float
    p95: float


class ModelTimes(Value, frozen=True, kw_only=True):
    """The times of a model by bar. None: no request was measured. `requests` is the size of the sample."""

    model: str
    requests: int
    first: Sequence[Percentiles | None]
    total: Sequence[Percentiles | None]


def read_times(database: Database, query: UsageQuery, bar_seconds: int) -> list[ModelTimes]:
    """Return the times of each model with complete requests, the most used first. Blocks; raises DatabaseError.

    Of the filters of `query`, only SAMPLE_FILTERS count: the others have no index.
    """
    bars = max(1, int(query.end - query.start) // bar_seconds)
    first: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    total: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for bar, row in _read_sample(database, query, bars, bar_seconds):
        details = parse_details(row.details)
        total[row.model][bar].append(details["total_ms"])
        if details["first_byte_ms"] is not None:
            first[row.model][bar].append(details["first_byte_ms"])
    times = [
        ModelTimes(
            model=model,
            requests=sum(map(len, values.values())),
            first=[find_percentiles(first[model].get(bar, ())) for bar in range(bars)],
            total=[find_percentiles(values.get(bar, ())) for bar in range(bars)],
        )
        for model, values in total.items()
    ]
    return sorted(times, key=lambda each: (-each.requests, each.model))


def find_percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the percentiles by nearest rank; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return Percentiles(ordered[round(last * 0.5)], ordered[round(last * 0.95)])


def _read_sample(
    database: Database, query: UsageQuery, bars: int, bar_seconds: int
) -> Iterator[tuple[int, Row[tuple[str, str]]]]:
    """Yield rows with the number of their bar: the newest ones of each slice of each bar."""
    slices = max(1, MAX_SLICES // bars)
    rows = max(1, MAX_ROWS // (slices * bars))
    filters = {name: value for name in SAMPLE_FILTERS if (value := getattr(query, name))}
    with database.read() as connection:
        for number in range(bars * slices):
            start = query.start + number * bar_seconds / slices
            chosen = _select_rows(filters, start, start + bar_seconds / slices)
            for row in connection.execute(chosen.limit(rows)):
                yield number // slices, row


def _select_rows(filters: Mapping[str, str], start: float, end: float) -> Select[tuple[str, str]]:
    chosen = select(usage.c.model, usage.c.details).where(
        usage.c.id >= find_first_id(start),
        usage.c.id < find_first_id(end),
        usage.c.outcome == "complete",
        usage.c.model != "",
    )
    for name, value in filters.items():
        chosen = chosen.where(usage.c[name] == value)
        if name in ("user", "team"):  # their indexes have no empty values
            chosen = chosen.where(usage.c[name] != literal_column("''"))
    return chosen.order_by(usage.c.id.desc())
