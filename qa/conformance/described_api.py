"""Schemathesis against a running gateway and its own /openapi.json: valid, odd and invalid requests to every described operation.

The checks: no status from 500 on, no undocumented status or content type, bodies and headers as described, no answer about an
object that was deleted, `Allow` on a 405. Two are left out on purpose: `positive_data_acceptance` (the description is not as
strict as the gateway: what a model, a file or the state of an account must be is no JSON schema) and `negative_data_rejection`
(unknown query parameters and members are accepted, because the vendors' SDKs send new ones).
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.gateway import Gateway

ROOT = Path(__file__).parents[2]
KEY = "key-of-the-described-api-0123"
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "use_after_free", "ensure_resource_availability", "unsupported_method",
    "allow_header_conformance",
)  # fmt: skip
SLOW = r"images|/videos?(/|$)"
"""Operations that make pictures and films: seconds of work for a request."""
PROGRAM = "import sys; from schemathesis.cli import schemathesis; sys.argv[0] = 'schemathesis'; schemathesis()"


def make_conf() -> str:
    """The example conf, with an administrator's key: the routes below /admin/v1 are described too."""
    text = (ROOT / "conf/gate.yaml").read_text(encoding="utf-8")
    return text.replace("\nkeys: ", f"\nkeys:\n  - {{name: fuzz, key: {KEY}, role: administrator}}\n#", 1)


def load_description(url: str) -> dict[str, Any]:
    """/openapi.json. Before OpenAPI 3.2 a stream of events is described as a text, but schemathesis reads the schema of its media
    type as that of each event."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/openapi.json") as answer:
        description: dict[str, Any] = json.loads(answer.read())
    for operations in description["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                if "text/event-stream" in response.get("content", {}):
                    response["content"]["text/event-stream"]["schema"] = {"type": "object"}
    return description


def check(url: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run schemathesis against a gateway; its files are in `folder`."""
    file = folder / "openapi.json"
    file.write_text(json.dumps(load_description(url)), encoding="utf-8")
    headers = ["-H", f"Authorization: Bearer {KEY}", "-H", "anthropic-version: 2023-06-01"]
    command = [sys.executable, "-c", PROGRAM, "run", str(file), "-u", url, *headers, "-c", ",".join(CHECKS)]
    command += ["--no-color", "--warnings", "off", "--request-timeout", "60", "--continue-on-failure", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(folder: Path, *, seconds: float) -> int:
    """Run all phases for so long, print the report, and return the number of failures (at most 1)."""
    gateway = Gateway.start(make_conf(), folder)
    try:
        ended = check(gateway.url, folder, "--max-time", str(max(1, int(seconds))))
    finally:
        gateway.stop()
    print(ended.stdout[-20_000:], ended.stderr[-5_000:])
    return int(ended.returncode != 0)
