"""The floor: bench/forwarder.py, which forwards bytes and only detects the ends of messages."""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="forwarder",
    title="floor: bytes forwarded (Python, httptools, uvloop)",
    work="passes bytes on",
    command=("$bin/python", "-m", "bench.forwarder", "$port", "$upstream"),
)
