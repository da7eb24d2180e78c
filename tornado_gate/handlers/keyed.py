"""What every route that needs a key shares: the key, the limits, the body, a caller who may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.web import stream_request_body

from tornado_gate import auth, forms, jsonbody
from tornado_gate.bodies import SMALL_BYTES
from tornado_gate.errors import GateError, TooLarge, Unavailable, UnsupportedMediaType
from tornado_gate.gate import Gate
from tornado_gate.handlers.base import GateHandler
from tornado_gate.keystore import digest
from tornado_gate.media import AnswerFiles
from tornado_gate.routing import Matched
from tornado_gate.types import Call, Caller, WireRequest

DRAIN_BYTES = 64 * 1024 * 1024
"""How much of a refused body is read and thrown away, so that the client gets to see the answer."""

WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
NOBODY = Caller(id="", account="")


@stream_request_body
class KeyedHandler(GateHandler):
    """Everything that can be refused before the body is read, then the body, then `answer`."""

    def initialize(self, gate: Gate, matched: Matched) -> None:  # type: ignore[override]  # Tornado passes what a route holds
        super().initialize(gate)
        self.matched = matched
        self.route = matched.served.route
        self.format = matched.served.format
        self.operation = self.route.operation
        self.body: list[bytes] = []
        self.body_bytes = 0
        self.reserved_bytes = 0
        self.body_read = False
        self.form: forms.FormReader | None = None
        self.rate_headers: dict[str, str] = {}
        self.work: asyncio.Task[None] | None = None
        self.call = self._call()

    def _call(self) -> Call:
        headers = self.request.headers
        return Call(
            id=self.request_id,
            operation=self.route.operation,
            format=self.format,
            caller=NOBODY,
            strict=headers.get("x-gate-strict", "") == "1",
            dialect=self.snapshot.config.dialect,
            headers=without_keys(headers_of(headers)),
        )

    async def prepare(self) -> None:
        """Everything that can be refused before the body is read."""
        try:
            is_form = self._is_form()
            self.limit = self.snapshot.config.limits.upload_bytes if is_form else self.snapshot.config.limits.body_bytes
            self.connection.set_max_body_size(self.limit + DRAIN_BYTES)
            if self.gate.draining:
                self.set_header("Connection", "close")
                raise Unavailable("The gateway is shutting down; try again.", code="shutting_down")
            key = auth.find_key(headers_of(self.request.headers), self.get_query_arguments(auth.KEY_PARAMETER))
            caller = await self.gate.authenticate(key)
            self.call = replace(
                self.known_call,
                caller=caller,
                memory=self.gate.memory.of(caller.account),
                fetcher=self.gate.fetcher,
                files=AnswerFiles(self.gate.media, self._public_url()),
                key_digest=digest(key),
            )
            self.check_operation()
            self._check_body_headers(is_form)
            self.rate_headers = self.gate.limits.admit(caller)
            if is_form:
                content_type = self.request.headers["Content-Type"]
                self.form = forms.FormReader(content_type, self.snapshot.config.server.data_dir / "uploads")
            else:
                await self._reserve()
        except GateError as error:
            self.fail(error)

    def _is_form(self) -> bool:
        content_type = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return self.route.multipart != "no" and content_type == "multipart/form-data"

    def _public_url(self) -> str:
        """What stands before the paths of the gateway, as this caller sees them."""
        return self.snapshot.config.server.public_url.rstrip("/") or f"{self.request.protocol}://{self.request.host}"

    async def _reserve(self) -> None:
        """Wait until there is room for a large body. One that does not say its length is counted as the largest."""
        length = self.request.headers.get("Content-Length", "0")
        size = self.limit if "Transfer-Encoding" in self.request.headers else int(length) if length.isdecimal() else 0
        if size > SMALL_BYTES:
            await self.gate.bodies.take(size)
            self.reserved_bytes = size

    def _release(self) -> None:
        """Give back what the body holds; called when the request has ended, however it did."""
        if self.form is not None:
            self.form.close()
        self.body.clear()
        self.gate.bodies.give(self.reserved_bytes)
        self.reserved_bytes = 0

    def fail(self, error: GateError) -> None:
        """A body that was not read ends its connection, which must be said, or the client's next request is lost on it."""
        super().fail(error) if self.body_read else self._fail_and_close(error)

    def _fail_and_close(self, error: GateError) -> None:
        headers = self.request.headers
        if headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers:
            error.headers = {**error.headers, "Connection": "close"}
        super().fail(error)

    def on_finish(self) -> None:
        self._release()
        super().on_finish()

    @property
    def connection(self) -> HTTP1Connection:
        """The caller's connection, which is HTTP/1: what Tornado speaks."""
        assert isinstance(self.request.connection, HTTP1Connection)
        return self.request.connection

    @property
    def known_call(self) -> Call:
        assert self.call is not None, "initialize has made it"
        return self.call

    def _check_body_headers(self, is_form: bool) -> None:
        headers = self.request.headers
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Compressed bodies are not accepted; send the body as it is.")
        length = headers.get("Content-Length", "0")
        if length.isdecimal() and int(length) > self.limit:
            raise self._too_large()
        has_body = length != "0" or "Transfer-Encoding" in headers
        if self.route.method in WITHOUT_BODY or is_form or not (has_body or self.route.multipart == "only"):
            return
        if self.route.multipart == "only":
            raise UnsupportedMediaType("This route takes a form: send 'Content-Type: multipart/form-data'.")
        if not _is_json(headers.get("Content-Type", "application/json")):
            wanted = "'Content-Type: application/json'" + (" or a form" if self.route.multipart == "too" else "")
            raise UnsupportedMediaType(f"This route takes a JSON body: send {wanted}.")

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than the {self.limit} bytes that are allowed.")

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Take the next bytes. The connection reads on when what is returned is done."""
        if self._finished:
            return None
        self.body_bytes += len(chunk)
        if self.body_bytes > self.limit:
            self._refuse(self._too_large())
        elif self.form is None:
            self.body.append(chunk)
        else:
            return self._feed(self.form, chunk)
        return None

    async def _feed(self, form: forms.FormReader, chunk: bytes) -> None:
        try:
            await form.feed(chunk)
        except GateError as error:
            self._refuse(error)

    def _refuse(self, error: GateError) -> None:
        """Answer before the body has ended."""
        self._release()
        if not self._finished:
            self.set_header("Connection", "close")
            self.fail(error)

    def check_operation(self) -> None:
        """Raises NotAllowed for a key that is narrowed to other operations."""
        auth.allowed_operations(self.known_call.caller, self.route.operations)

    async def answer(self) -> None:
        """What the handler does when the body is there. Cancelled when the caller leaves."""
        raise NotImplementedError

    async def get(self) -> None:
        self.body_read = True
        await self._work()

    head = post = put = patch = delete = get  # the router has matched the method; no other comes here

    async def _work(self) -> None:
        self.work = asyncio.ensure_future(self.answer())
        try:
            await self.work
        except asyncio.CancelledError:
            if not self._headers_written:
                self.set_status(499, "Client Closed Request")  # nobody reads it; metrics and the access log do

    def on_connection_close(self) -> None:
        """The caller left: stop, and close the upstream's connection, at once."""
        if self.work is not None:
            self.work.cancel()
        else:
            self._release()  # it left before its body had come

    async def wire(self) -> WireRequest:
        """What the caller sent. Raises RequestError for a body that is not what its type says."""
        raw = b"".join(self.body)
        self.body.clear()
        query = {
            name: values[-1].decode("utf-8", "replace")
            for name, values in self.request.query_arguments.items()
            if name != auth.KEY_PARAMETER
        }
        body: Mapping[str, Any] = MappingProxyType({})
        if self.form is not None:
            await self.form.finish()
            body = forms.as_json(self.form.fields)
        elif self.route.method not in WITHOUT_BODY:
            body = jsonbody.load_object(raw)
        return WireRequest(
            route=self.route,
            path=self.request.path,
            path_arguments=self.matched.arguments,
            query=query,
            headers=self.known_call.headers,
            raw=raw,
            json=body,
            files=tuple(self.form.files) if self.form is not None else (),
            form=self.form is not None,
        )


def headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """With names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def without_keys(headers: Mapping[str, str]) -> dict[str, str]:
    """What plugins may see: no key, in whatever form it came."""
    kept = {name: value for name, value in headers.items() if name not in auth.KEY_HEADERS}
    if auth.PROTOCOLS in kept:
        names = [name.strip() for name in kept[auth.PROTOCOLS].split(",")]
        kept[auth.PROTOCOLS] = ", ".join(name for name in names if not name.startswith(auth.KEY_PROTOCOL))
    return kept


def _is_json(content_type: str) -> bool:
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    charset = parameters.partition("charset=")[2].strip(' "')
    return (kind == "application/json" or kind.endswith("+json")) and charset in ("", "utf-8", "utf8")
