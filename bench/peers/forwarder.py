"""The floor: bench/forwarder.py, which passes bytes on and looks at nothing but where messages end."""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="forwarder",
    title="floor: bytes forwarded (Python, httptools, uvloop)",
    work="passes bytes on",
    command=("$bin/python", "-m", "bench.forwarder", "$port", "$upstream"),
)
