"""What every route that needs a key shares: the key, the limits, the body, a caller who may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tornado.http1connection import HTTP1Connection
from tornado.web import stream_request_body

from tornado_gate import auth, jsonbody
from tornado_gate.errors import GateError, TooLarge, Unavailable, UnsupportedMediaType
from tornado_gate.gate import Gate
from tornado_gate.handlers.base import GateHandler
from tornado_gate.routing import Matched
from tornado_gate.types import Call, Caller, WireRequest

DRAIN_BYTES = 64 * 1024 * 1024
"""How much of a refused body is read and thrown away, so that the client gets to see the answer."""

WITHOUT_BODY = frozenset({"GET", "DELETE"})
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
            headers=_without_keys(_headers(headers)),
        )

    async def prepare(self) -> None:
        """Everything that can be refused before the body is read."""
        limit = self.snapshot.config.limits.body_bytes
        self.connection.set_max_body_size(limit + DRAIN_BYTES)
        try:
            if self.gate.draining:
                self.set_header("Connection", "close")
                raise Unavailable("The gateway is shutting down; try again.", code="shutting_down")
            key = auth.find_key(_headers(self.request.headers), self.get_query_arguments(auth.KEY_PARAMETER))
            caller = await self.gate.authenticate(key)
            self.call = replace(
                self.known_call, caller=caller, memory=self.gate.memory.of(caller.account), fetcher=self.gate.fetcher
            )
            self.check_operation()
            self._check_body_headers(limit)
            self.rate_headers = self.gate.limits.admit(caller)
        except GateError as error:
            self.fail(error)

    @property
    def connection(self) -> HTTP1Connection:
        """The caller's connection, which is HTTP/1: what Tornado speaks."""
        assert isinstance(self.request.connection, HTTP1Connection)
        return self.request.connection

    @property
    def known_call(self) -> Call:
        assert self.call is not None, "initialize has made it"
        return self.call

    def _check_body_headers(self, limit: int) -> None:
        headers = self.request.headers
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Compressed bodies are not accepted; send the body as it is.")
        length = headers.get("Content-Length", "0")
        if length.isdecimal() and int(length) > limit:
            raise self._too_large(limit)
        has_body = length != "0" or "Transfer-Encoding" in headers
        if (
            self.route.method not in WITHOUT_BODY
            and has_body
            and not _is_json(headers.get("Content-Type", "application/json"))
        ):
            raise UnsupportedMediaType("This route takes a JSON body: send 'Content-Type: application/json'.")

    def _too_large(self, limit: int) -> TooLarge:
        return TooLarge(f"The body is larger than the {limit} bytes that are allowed.")

    def data_received(self, chunk: bytes) -> None:
        if self._finished:
            return
        self.body_bytes += len(chunk)
        limit = self.snapshot.config.limits.body_bytes
        if self.body_bytes > limit:
            self.body.clear()
            self.set_header("Connection", "close")
            self.fail(self._too_large(limit))
            return
        self.body.append(chunk)

    def check_operation(self) -> None:
        """Raises NotAllowed for a key that is narrowed to other operations."""
        auth.check_operation(self.known_call.caller, self.route.operation)

    async def answer(self) -> None:
        """What the handler does when the body is there. Cancelled when the caller leaves."""
        raise NotImplementedError

    async def get(self) -> None:
        await self._work()

    post = put = patch = delete = get  # the router has matched the method; no other comes here

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

    def wire(self) -> WireRequest:
        raw = b"".join(self.body)
        self.body.clear()
        query = {
            name: values[-1].decode("utf-8", "replace")
            for name, values in self.request.query_arguments.items()
            if name != auth.KEY_PARAMETER
        }
        return WireRequest(
            route=self.route,
            path=self.request.path,
            path_arguments=self.matched.arguments,
            query=query,
            headers=self.known_call.headers,
            raw=raw,
            json=MappingProxyType({}) if self.route.method in WITHOUT_BODY else jsonbody.load_object(raw),
        )


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _without_keys(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in auth.KEY_HEADERS}


def _is_json(content_type: str) -> bool:
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    charset = parameters.partition("charset=")[2].strip(' "')
    return (kind == "application/json" or kind.endswith("+json")) and charset in ("", "utf-8", "utf8")
