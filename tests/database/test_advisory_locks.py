"""The advisory locks of PostgreSQL: one number for each, as they are shared by everything that uses the database."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import tornado_gate

NUMBER = re.compile(r"^(_\w*LOCK)(?:: Final)? = ([0-9_]+)$", re.MULTILINE)


def test_no_two_advisory_locks_have_the_same_number() -> None:
    """A change of the configuration once waited for the partitions of the ledger, which move rows for up to 20 s."""
    sources = [path.read_text(encoding="utf-8") for path in Path(tornado_gate.__file__).parent.rglob("*.py")]
    users = [text for text in sources if "advisory" in text and "LOCK" in text]
    numbers = [int(number) for text in users for _, number in NUMBER.findall(text)]
    assert len(numbers) >= len([text for text in users if "_advisory_" in text])
    assert [number for number, count in Counter(numbers).items() if count > 1] == []
