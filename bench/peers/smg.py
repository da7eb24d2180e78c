"""smg, with one worker. https://docs.sglang.ai/advanced_features/router.html"""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="smg",
    title="smg (Rust)",
    work="parses JSON, picks a worker; no keys",
    install=(
        ("$bin/python", "-m", "venv", "--without-pip", "$peers/smg"),
        ("$bin/python", "-m", "pip", "--python", "$peers/smg", "install", "-q", "smg==1.13.0"),
    ),
    version=("$peers/smg/bin/python", "-c", "from importlib.metadata import version; print(version('smg'))"),
    command=(
        *("$peers/smg/bin/python", "-m", "smg.launch_router", "--host", "127.0.0.1", "--port", "$port"),
        *("--worker-urls", "http://127.0.0.1:$upstream", "--policy", "round_robin"),
        *("--disable-retries", "--disable-circuit-breaker", "--log-level", "error", "--prometheus-port", "$spare"),
        *("--max-concurrent-requests", "100000"),
    ),
    size="$peers/smg",
)
