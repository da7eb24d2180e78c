"""Stylesheet, scripts and images of the console. They are in memory, compressed, and addressed by content, so that
browsers keep them.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path

from tornado_gate.errors import NotFound
from tornado_gate.server.handlers.status import StatusHandler
from tornado_gate.server.paths import ASSETS
from tornado_gate.types.value import Value

FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(Value, frozen=True):
    media_type: str
    data: bytes
    compressed: bytes
    digest: str


@lru_cache(1)
def load_assets() -> dict[str, Asset]:
    """Return all files of the folder by name: a few dozen kilobytes."""
    assets = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _TYPES:
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()[:16]
            assets[path.name] = Asset(_TYPES[path.suffix], data, gzip.compress(data, mtime=0), digest)
    return assets


def get_asset_address(name: str) -> str:
    """Return the address of a file, which changes with its content."""
    return f"{ASSETS}{name}?v={load_assets()[name].digest}"


class AssetHandler(StatusHandler):
    """A file of the console. Needs no session."""

    def get(self) -> None:
        asset = load_assets().get(self.request.path.removeprefix(ASSETS))
        if asset is None:
            raise NotFound("The console has no such file.", code="unknown_route")
        self.set_header("Content-Type", asset.media_type)
        self.set_header("Vary", "Accept-Encoding")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        if self.get_query_argument("v", "") == asset.digest:
            self.set_header("Cache-Control", "public, max-age=31536000, immutable")
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            self.finish(asset.compressed)
        else:
            self.finish(asset.data)

    head = get
