"""Forms on a tape: the caller's form, and the body of the form that an upstream gets."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tornado_gate.codec.multipart import FormBody
from tornado_gate.http.client.connection import SizedBody
from tornado_gate.tapes.recorder import FormCopy
from tornado_gate.types import WireRequest


async def copy_form(wire: WireRequest, most_bytes: int) -> FormCopy:
    """Return the form of a request as a body that has the same fields and files, up to `most_bytes`."""
    form = FormBody(wire.json, wire.files)
    body = CopiedBody(form, most_bytes)
    async for _ in body.chunks():
        if len(body.copy) >= most_bytes:
            break
    return FormCopy(form.content_type, bytes(body.copy), form.length)


class CopiedBody:
    """A body that keeps a copy of its first `most_bytes` while it is sent."""

    def __init__(self, body: SizedBody, most_bytes: int) -> None:
        self._body = body
        self._most_bytes = most_bytes
        self.copy = bytearray()

    @property
    def length(self) -> int:
        return self._body.length

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body. A repetition begins a new copy."""
        self.copy = bytearray()
        async for chunk in self._body.chunks():
            self.copy += chunk[: self._most_bytes - len(self.copy)]
            yield chunk
