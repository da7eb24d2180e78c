"""The handler of GET and HEAD /media/<id>: a stored file, for clients with its signed address."""

from __future__ import annotations

from tornado.iostream import StreamClosedError

from tornado_gate.errors import GateError
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.files import send_file
from tornado_gate.storage.files import MediaStore, file_not_found_error


class MediaHandler(GateHandler):
    """A handler that sends a file from the disk.

    It needs no API key: the address has a signature for this file with an expiry time.
    """

    is_shared = True

    def initialize(self, gate: Gate, store: MediaStore) -> None:  # type: ignore[override]  # Tornado passes what a route holds
        super().initialize(gate)
        self.store = store
        self.operation = "media"

    async def get(self) -> None:
        with self.gate.requests.hold(self.snapshot):
            try:
                await self._serve_file()
            except GateError as error:
                self.fail(error)
            except StreamClosedError:
                pass  # the caller disconnected

    head = get

    async def _serve_file(self) -> None:
        file_id = self.request.path.removeprefix(self.store.address).removesuffix("/")
        expires, signature = (self.get_query_argument(name, "") for name in ("expires", "signature"))
        if not self.store.verify_signature(file_id, expires, signature):
            raise file_not_found_error()
        await send_file(self, self.store, file_id, int(expires))
