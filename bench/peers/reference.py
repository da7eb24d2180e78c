"""The reference of CPU times: bench/reference.py."""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="reference",
    title="reference: a frozen relay (Tornado, aiohttp)",
    work="parses JSON, picks the upstream, forwards",
    command=("$bin/python", "-m", "bench.reference", "$port", "$upstream"),
)
