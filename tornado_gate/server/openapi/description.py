"""The API description of the current snapshot, made in a thread when it is first requested, and its handler."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import Any

import orjson

from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.types.value import Value


class BuiltDescription(Value, frozen=True, kw_only=True):
    """The document as a value and as JSON. `etag` is its digest, in quotes."""

    document: dict[str, Any]
    body: bytes
    compressed: bytes
    etag: str

    hidden_fields = frozenset({"document", "body", "compressed"})


def _build_description(snapshot: Snapshot) -> BuiltDescription:
    from tornado_gate.server.openapi.document import build_document  # apispec is loaded with the first request

    document = build_document(snapshot)
    body = orjson.dumps(document)
    digest = hashlib.sha256(body).hexdigest()[:32]
    return BuiltDescription(
        document=document, body=body, compressed=gzip.compress(body, 6, mtime=0), etag=f'"{digest}"'
    )


class ApiDescription:
    """The description of one process; a reload of conf makes a new one."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._number = 0
        self._building: asyncio.Future[BuiltDescription] | None = None

    async def get(self) -> BuiltDescription:
        """Return the description of the current snapshot."""
        snapshot = self._gate.snapshot
        if self._building is None or self._number != snapshot.number or _has_failed(self._building):
            self._number = snapshot.number
            self._building = asyncio.ensure_future(asyncio.to_thread(_build_description, snapshot))
        return await asyncio.shield(self._building)


def _has_failed(building: asyncio.Future[BuiltDescription]) -> bool:
    return building.done() and (building.cancelled() or building.exception() is not None)


class DescriptionHandler(GateHandler):
    """GET /openapi.json. Needs no key."""

    is_shared = True

    def initialize(self, gate: Gate, description: ApiDescription) -> None:  # type: ignore[override]  # has one argument more
        super().initialize(gate)
        self.description = description

    async def get(self) -> None:
        built = await self.description.get()
        self.set_header("Cache-Control", "no-cache")
        self.set_header("ETag", built.etag)
        self.set_header("Vary", "Accept-Encoding, Origin")
        if built.etag in self.request.headers.get("If-None-Match", ""):
            self.set_status(304)
            return
        self.set_header("Content-Type", "application/json")
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.set_header("Content-Encoding", "gzip")
            self.finish(built.compressed)
        else:
            self.finish(built.body)

    head = get
