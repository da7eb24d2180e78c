"""Portkey's gateway. The caller selects the upstream: https://portkey.ai/docs/api-reference/inference-api/headers"""

from __future__ import annotations

from bench.side import SideFacts

FACTS = SideFacts(
    name="portkey",
    title="Portkey (Node)",
    work="maps headers and answers; the caller names the upstream",
    install=(
        ("npm", "install", "--no-audit", "--no-fund", "--prefix", "$peers/portkey", "@portkey-ai/gateway@1.15.2"),
    ),
    version=("$node", "-p", "require('$peers/portkey/node_modules/@portkey-ai/gateway/package.json').version"),
    command=(
        *("$node", "$peers/portkey/node_modules/@portkey-ai/gateway/build/start-server.js"),
        *("--port=$port", "--headless"),
    ),
    environment={"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "localhost,127.0.0.1"},
    headers={
        "Authorization": "Bearer bench-key",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": "http://127.0.0.1:$upstream/v1",
    },
    size="$peers/portkey/node_modules",
)
