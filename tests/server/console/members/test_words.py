"""Times, amounts and browsers in words."""

from __future__ import annotations

import pytest

from tornado_gate.ledger.rows import UsageRow
from tornado_gate.server.console import words

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1"
EDGE = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/150.0.0.0 Safari/537.36 Edg/150.0.0.0"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox 140 on Windows"),
        (SAFARI, "Safari 19 on iPhone"),
        (EDGE, "Edge 150 on macOS"),
        ("curl/8.9", "curl/8.9"),
        ("", "Unknown browser"),
        ("x" * 300, "x" * 60),
    ],
)
def test_browsers_are_named(agent: str, name: str) -> None:
    assert words.describe_browser(agent) == name


def test_ages_say_how_long_ago_and_when() -> None:
    now = 1_000_000.0
    assert words.format_age(None, now) == "never"
    assert words.format_age(now - 5, now) == "just now"
    assert words.format_age(now - 60, now) == "1 minute ago"
    assert words.format_age(now + 3 * 86400 + 5, now) == "in 3 days"
    assert words.format_age(now - 7300, now) == "2 hours ago"
    assert words.format_time(0) == "1970-01-01 00:00 UTC"
    assert words.format_time(1e20) == "far future"
    assert (words.format_wait(0.2), words.format_wait(30), words.format_wait(601)) == (
        "1 second",
        "30 seconds",
        "11 minutes",
    )
    assert (words.format_duration(8.4), words.format_duration(185), words.format_duration(7800)) == (
        "8 s",
        "3 min 5 s",
        "2 h 10 min",
    )


def test_amounts_keep_their_meaning() -> None:
    amounts = (None, 0.0, 12.345, 0.5, 0.1976, 0.00002, 0.0000097, 1234.5)
    assert [words.format_usd(amount) for amount in amounts] == [
        "unknown", "$0.00", "$12.35", "$0.50", "$0.1976", "$0.00002", "$0.0000097", "$1,234.50",
    ]  # fmt: skip
    assert [words.format_bytes(size) for size in (0, 999, 12_300, 2_500_000, 3e9)] == [
        "0 B",
        "999 B",
        "12 kB",
        "2.5 MB",
        "3.0 GB",
    ]  # type: ignore[arg-type]  # 3e9 is whole
    sums = [UsageRow(cost=346_000_000), UsageRow(cost=346_000_000, unpriced_requests=1), UsageRow(unpriced_requests=2)]
    assert [words.format_cost(row) for row in sums] == ["$0.3460", "$0.3460 + 1 unpriced", "2 unpriced"]
    assert words.join(("a", "b", "c"), 2) == "a, b and 1 more"
