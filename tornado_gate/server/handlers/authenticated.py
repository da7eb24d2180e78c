"""The base handler of routes that need a key: authentication, limits, reading the body, callers who disconnect."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any

from tornado_gate.accounts.keys import digest_key
from tornado_gate.admission.body_budget import SMALL_BYTES, BodyClaim
from tornado_gate.codec import json_body, multipart
from tornado_gate.errors import GateError, TooLarge, UnsupportedMediaType
from tornado_gate.pipeline import auth
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.exchange import CallerRequest, Exchange
from tornado_gate.server.handlers.strict_header import HEADER as STRICT
from tornado_gate.server.handlers.strict_header import check_strict, is_strict
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import Call, Caller, Route, Upload, WireRequest
from tornado_gate.types.media_type import media_type

DRAIN_BYTES = 64 * 1024 * 1024
"""Bytes of a rejected body that are read and discarded, so that the client receives the error response."""

METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
ANONYMOUS_CALLER = Caller(id="", account="")
JSON_CONTENT_TYPE = "application/json"
_PROTOCOL_HEADER = auth.PROTOCOL_HEADER
_CREDENTIALS = frozenset((*auth.KEY_HEADERS, "cookie"))
"""Headers that plugins never get. Browsers send the console's session with every request to the gateway; no plugin needs it."""
EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


class AuthenticatedHandler(Exchange):
    """A handler that checks the request before it reads the body, reads the body, then calls `answer`.

    `may_be_shed`: an overloaded gateway refuses the request. `takes_key_in_query`: the parameter `key` is the API key.
    """

    may_be_shed = False
    takes_key_in_query = True

    body_bytes = limit = 0
    claim: BodyClaim | None = None
    is_body_paused = False
    form: multipart.FormReader | None = None
    is_plain = False  # the body is of one of the route's `content_types`
    is_open = False  # counted in `gate.overload`
    is_timed = False  # in `services.rates`
    parsed: Mapping[str, Any] | None = None  # the JSON of a small body, if it was parsed before `read_wire_request`
    caller = ANONYMOUS_CALLER
    key_digest = b""

    def __init__(self, services: Services, request: CallerRequest, matched: MatchedRoute) -> None:
        super().__init__(services.gate, request, matched.served.format, matched.served.route.operation)
        self.services = services
        self.matched = matched
        self.route = matched.served.route
        self.body: list[bytes] = []
        self.lower_headers = request.lowered

    def prepare(self) -> Awaitable[None] | None:
        """Check key, operation, headers and limits before the body. Raises GateError, directly or when awaited."""
        is_form = self._is_form()
        limits = self.snapshot.config.limits
        self.limit = limits.upload_bytes if is_form else limits.body_bytes
        self.connection.set_max_body_size(self.limit + DRAIN_BYTES)
        keys_in_query = self._get_keys_in_query() if self.request.query else ()
        if self.route.key != "required" and self._is_anonymous(keys_in_query):
            self.limit = 0  # the body of a caller without a key is not read
            self._admit(ANONYMOUS_CALLER, b"", is_form)
            return None
        key_digest = digest_key(auth.find_key(self.lower_headers, keys_in_query))
        caller = self.gate.callers.find_cached(key_digest)
        if caller is None:
            return self._authenticate_by_store(key_digest, is_form)
        self._admit(caller, key_digest, is_form)
        return None

    def _get_keys_in_query(self) -> list[str]:
        return self.get_query_values(auth.KEY_PARAMETER) if self.takes_key_in_query else []

    def _is_anonymous(self, keys_in_query: Iterable[str]) -> bool:
        """Return whether a request has no key on a route that needs none, or the route takes none."""
        return self.route.key == "none" or not auth.has_key(self.lower_headers, keys_in_query)

    async def _authenticate_by_store(self, key_digest: bytes, is_form: bool) -> None:
        self._admit(await self.gate.callers.authenticate_digest(key_digest), key_digest, is_form)

    def _admit(self, caller: Caller, key_digest: bytes, is_form: bool) -> None:
        """Check the caller's current permissions and limits, and prepare to read the body. Raises GateError."""
        self.caller = caller
        self.key_digest = key_digest
        if caller.addresses:
            common.check_address(caller, self.request, self.snapshot.config.server)
        self.check_operation()
        self._check_headers(is_form)
        if self.may_be_shed and self.route.method not in METHODS_WITHOUT_BODY:
            self.gate.overload.enter(caller.account)
            self.is_open = True
        if is_form:
            content_type = self.lower_headers["content-type"]
            self.form = multipart.FormReader(content_type, self.snapshot.config.server.data_dir / "uploads")
            self.claim = self.services.forms.open(caller.account)
        if common.has_body(self.lower_headers) and not getattr(self.connection, "has_whole_body", False):
            self.services.rates.add(self)
            self.is_timed = True

    def make_call(self, closing: AsyncExitStack) -> Call:
        """Return the call of this request, after authentication."""
        headers = self.lower_headers
        return self.services.calls.make(
            self.snapshot.config,
            self.request_id,
            self.operation,
            self.format,
            self.caller,
            remove_keys(headers),
            closing,
            self.started,
            strict=STRICT in headers and is_strict(headers[STRICT]),
            key_digest=self.key_digest,
            public_url=self.get_public_url(),
        )

    def make_partial_call(self) -> Call:
        return self.make_call(AsyncExitStack())

    def _is_form(self) -> bool:
        if self.route.multipart == "no":
            return False
        return media_type(self.lower_headers.get("content-type", "")) == "multipart/form-data"

    def get_public_url(self) -> str:
        """Return the base URL of the gateway as this caller sees it.

        It is server.public_url, or scheme and host that the caller used.
        """
        server = self.snapshot.config.server
        if server.public_url:
            return server.public_url
        if not server.trusted_proxies:
            return f"{self.request.protocol}://{self.request.host}"
        origin = common.find_request_origin(self.request, server)
        return f"{origin.protocol}://{origin.host}"

    def get_query_values(self, name: str) -> list[str]:
        """Return the values of the query parameter `name`."""
        values = self.request.query_arguments.get(name, ())
        return [value.decode("utf-8", "replace").strip() for value in values]

    def finish(self) -> None:
        """Finish the complete body."""
        if self.is_timed:
            self._stop_timing()
        super().finish()

    def _stop_timing(self) -> None:
        self.is_timed = False
        self.services.rates.remove(self)

    def release(self) -> None:
        """Release the memory and the temporary files of the body."""
        if self.is_timed:
            self._stop_timing()
        if self.is_open:
            self.is_open = False
            self.gate.overload.leave(self.caller.account)
        self.body.clear()
        if self.claim is not None:
            self.claim.release()
        if self.form is not None:
            self.form.close()

    def _check_headers(self, is_form: bool) -> None:
        headers = self.lower_headers
        if STRICT in headers:
            check_strict(headers[STRICT])
        if "content-encoding" in headers and headers["content-encoding"].lower() != "identity":
            raise UnsupportedMediaType("'Content-Encoding' is not supported for requests. Send the body uncompressed.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.limit:
            raise self._too_large_error()
        has_body = common.has_body(headers)
        if self.route.method in METHODS_WITHOUT_BODY or is_form or not (has_body or self.route.multipart == "only"):
            return
        if self.route.multipart == "only":
            raise UnsupportedMediaType("This route requires a form. Send 'Content-Type: multipart/form-data'.")
        content_type = headers.get("content-type", JSON_CONTENT_TYPE)
        if not _is_json(content_type):
            self.is_plain = media_type(content_type) in self.route.content_types
            if not self.is_plain:
                raise UnsupportedMediaType(_describe_accepted_types(self.route))

    def _too_large_error(self) -> TooLarge:
        return TooLarge(f"The request body exceeds the limit of {self.limit} bytes. Send a smaller body.")

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Append the next bytes of the body. Return an awaitable that ends when the connection may read more, or None."""
        if self.finished:
            return None
        self.body_bytes += len(chunk)
        if self.body_bytes > self.limit:
            self.refuse_body(self._too_large_error())
        elif self.form is not None:
            return self._feed(self.form, chunk)
        else:
            self.body.append(chunk)
            if self.body_bytes > SMALL_BYTES:
                return self._hold(len(chunk))
        return None

    def _hold(self, size: int) -> Awaitable[None] | None:
        """Count `size` more bytes of a large body. Return an awaitable that ends when there is memory for them, or None."""
        if self.claim is None:
            self.claim, size = self.services.bodies.open(self.caller.account), self.body_bytes
        waiting = self.claim.grow(size)
        return None if waiting is None else self._pause(waiting)

    async def _feed(self, form: multipart.FormReader, chunk: bytes) -> None:
        assert self.claim is not None
        waiting = self.claim.grow(len(chunk))
        if waiting is not None:
            await self._pause(waiting)
        if not self.finished:
            await self._pause(form.feed(chunk))

    async def _pause(self, waiting: Awaitable[None]) -> None:
        """Wait before more of the body is read; an error ends the request."""
        self.is_body_paused = True
        try:
            await waiting
        except GateError as error:
            self.refuse_body(error)
        finally:
            self.is_body_paused = False

    def refuse_body(self, error: GateError) -> None:
        """Send an error response before the body is complete."""
        self.release()
        if not self.finished:
            self.fail(error)

    def check_operation(self) -> None:
        """Raise NotAllowed for a key that is limited to other operations."""
        auth.filter_operations(self.caller, self.route.operations)

    def read_wire_request(self, call: Call) -> WireRequest:
        """Return the caller's request with its small JSON body. Raises RequestError for a body that is not a JSON object."""
        raw = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body.clear()
        has_no_body = self.route.method in METHODS_WITHOUT_BODY or self.is_plain or (self.route.empty_body and not raw)
        body = EMPTY_MAPPING if has_no_body else json_body.load_object(raw) if self.parsed is None else self.parsed
        return self._build_wire_request(call, raw, body, ())

    async def read_large_wire_request(self, call: Call) -> WireRequest:
        """Return the caller's request with its form or its large JSON body, for which it has a claim. Raises RequestError."""
        if self.form is not None:
            return await self._read_form(call, self.form)
        assert self.claim is not None
        pieces, self.body = self.body, []
        if self.route.method in METHODS_WITHOUT_BODY or self.is_plain:
            if self.is_plain:
                self.claim.complete()
            raw = await self.gate.worker.run(self.caller.account, b"".join, pieces)
            return self._build_wire_request(call, raw, EMPTY_MAPPING, ())
        limit = self.snapshot.config.limits.body_values
        body = await self.gate.worker.load_object(pieces, self.claim, limit)
        return self._build_wire_request(call, body.raw, body.json, (), is_quick=body.is_quick)

    async def _read_form(self, call: Call, form: multipart.FormReader) -> WireRequest:
        assert self.claim is not None
        await form.finish()
        self.claim.complete()
        return self._build_wire_request(call, b"", multipart.convert_fields_to_json(form.fields), tuple(form.files))

    def _build_wire_request(
        self,
        call: Call,
        raw: bytes,
        body: Mapping[str, Any],
        files: tuple[Upload, ...],
        *,
        is_quick: bool = False,
    ) -> WireRequest:
        return WireRequest(
            route=self.route,
            path=self.request.path,
            path_arguments=self.matched.arguments,
            query=parse_query(self.request) if self.request.query else EMPTY_MAPPING,
            query_lists=parse_query_lists(self.request) if self.request.query else EMPTY_MAPPING,
            headers=call.headers,
            raw=raw,
            json=body,
            files=files,
            form=self.form is not None,
            plain=self.is_plain,
            quick=is_quick,
        )


def parse_query(request: CallerRequest) -> Mapping[str, str]:
    """Return the last value of each query parameter, without the API key."""
    return {
        name: values[-1].decode("utf-8", "replace")
        for name, values in request.query_arguments.items()
        if name != auth.KEY_PARAMETER
    }


def parse_query_lists(request: CallerRequest) -> Mapping[str, tuple[str, ...]]:
    """Return all values of each query parameter whose name ends in ``[]``."""
    return {
        name: tuple(value.decode("utf-8", "replace") for value in values)
        for name, values in request.query_arguments.items()
        if name.endswith("[]")
    }


def remove_keys(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without API keys in any form and without cookies, as plugins get them."""
    kept = dict(headers)
    for name in _CREDENTIALS & kept.keys():
        del kept[name]
    if _PROTOCOL_HEADER in kept:
        names = [name.strip() for name in kept[_PROTOCOL_HEADER].split(",")]
        kept[_PROTOCOL_HEADER] = ", ".join(name for name in names if not auth.is_key_protocol(name))
    return kept


def _describe_accepted_types(route: Route) -> str:
    """Return the message for a body of another content type than the types of the route."""
    others = [*route.content_types, *(["a form"] if route.multipart == "too" else [])]
    if not route.content_types:
        accepted = " or ".join(["'Content-Type: application/json'", *others])
        return f"This route requires a JSON body. Send {accepted}."
    return f"This route does not accept the content type of the body. Send application/json, {' or '.join(others)}."


def _is_json(content_type: str) -> bool:
    if content_type == JSON_CONTENT_TYPE:
        return True
    kind, parameters = media_type(content_type), content_type.lower().partition(";")[2]
    charset = parameters.partition("charset=")[2].strip(' "')
    return (kind == "application/json" or kind.endswith("+json")) and charset in ("", "utf-8", "utf8")
