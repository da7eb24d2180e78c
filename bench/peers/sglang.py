"""sglang-router, with one worker. https://docs.sglang.ai/advanced_features/router.html"""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="sglang",
    title="sglang-router (Rust)",
    work="parses JSON, picks a worker; no keys",
    install=(
        ("$bin/python", "-m", "venv", "--without-pip", "$peers/sglang"),
        ("$bin/python", "-m", "pip", "--python", "$peers/sglang", "install", "-q", "sglang-router==0.3.2"),
    ),
    version=(
        "$peers/sglang/bin/python",
        "-c",
        "from importlib.metadata import version; print(version('sglang-router'))",
    ),
    command=(
        *("$peers/sglang/bin/python", "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", "$port"),
        *("--worker-urls", "http://127.0.0.1:$upstream", "--policy", "round_robin"),
        *("--disable-retries", "--disable-circuit-breaker", "--log-level", "error", "--prometheus-port", "$spare"),
        *("--max-concurrent-requests", "100000"),
    ),
    size="$peers/sglang",
)
