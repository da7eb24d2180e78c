"""This checkout with default settings: authentication, checks, routing, metering, metrics and access log are on."""

from __future__ import annotations

from bench.side import SideFacts

KEY = "bench-key-of-the-caller"
PLUGINS = ("anthropic", "gemini", "local", "openai")
"""The plugins that are installed: those of `earlier.py`, under their names of today. Others would need more space."""
CONF = f"""
server: {{port: $port, data_dir: $folder/var}}
plugins: {{local: true, openai: true}}
providers:
  mock: {{plugin: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: bench-key}}
models:
  mocked: {{provider: mock}}
keys: [{{name: bench, key: {KEY}}}]
"""

FACTS = SideFacts(
    name="ours",
    title="tornado_gate (Python)",
    work="checks keys and bodies, routes, meters, logs each request",
    install=(
        ("$bin/python", "-m", "venv", "--without-pip", "$peers/ours"),
        ("$bin/python", "-m", "pip", "--python", "$peers/ours", "install", "-q", "$peers/source/core"),
    ),
    version=("$bin/tornado-gate", "--version"),
    command=("$bin/tornado-gate", "serve", "--conf", "$folder/gate.yaml"),
    files={"gate.yaml": CONF},
    headers={"Authorization": f"Bearer {KEY}"},
    size="$peers/ours",
)
