"""`make audit` tells a known vulnerability from a search that failed. The database is an imitation of osv.dev's API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ADVISORY: dict[str, Any] = {
    "id": "GHSA-aaaa-bbbb-cccc",
    "summary": "An example",
    "details": "An example",
    "modified": "2026-01-01T00:00:00Z",
    "published": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "pluggy", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}
"""An entry of osv.dev, as its schema 1.7 has it."""


@contextmanager
def serve_database(vulnerable: str, status: int = 200) -> Iterator[str]:
    """Serve a database with an advisory about one package; yield the address of its queries."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_vulnerable = query["package"]["name"] == vulnerable
            body = json.dumps({"vulns": [ADVISORY]} if is_vulnerable else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        server.server_close()


def audit(address: str, cache: Path) -> subprocess.CompletedProcess[str]:
    options = f"--vulnerability-service osv --osv-url {address} --cache-dir {cache}"
    command = ["make", "-s", "audit", f"AUDIT_ARGS={options}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)


@pytest.mark.qa
def test_a_vulnerability_is_not_a_failed_search(tmp_path: Path) -> None:
    with serve_database("") as address:
        sound = audit(address, tmp_path / "sound")
    assert (sound.returncode, "distributions, 0 known vulnerabilities" in sound.stdout) == (0, True), sound.stderr
    with serve_database("pluggy") as address:
        found = audit(address, tmp_path / "found")
    assert "pluggy " in found.stdout
    assert ": GHSA-aaaa-bbbb-cccc, fixed in 99.0" in found.stdout
    assert "Error 1" in found.stderr
    with serve_database("", status=503) as address:
        silent = audit(address, tmp_path / "silent")
    away = audit(address, tmp_path / "away")  # nobody listens there any more
    for failed in (silent, away):
        assert failed.stderr.startswith("audit: nothing was searched: "), failed.stderr
        assert "Error 2" in failed.stderr
        assert "Traceback" not in failed.stderr
        assert failed.stdout == ""
