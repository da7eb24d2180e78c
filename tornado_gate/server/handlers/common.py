"""Functions that all handlers share: request id, default headers, error bodies, metrics and the access log."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Protocol

import orjson
from tornado.httputil import HTTPServerRequest

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.config.model import ServerConfig
from tornado_gate.errors import GateError, InternalError, MethodNotAllowed, NotFound, RequestError
from tornado_gate.http import nearness
from tornado_gate.http.forwarded import Origin, find_origin
from tornado_gate.ledger.entries import NO_HEADERS, select_headers
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.observers import tell_observers
from tornado_gate.pipeline.pricing import record_usage
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.telemetry.entries import NO_CALLER, Entry, find_outcome
from tornado_gate.telemetry.logs import log_access
from tornado_gate.types import NO_TARGET, Call, Caller, Charge, Meter, Progress

log = logging.getLogger(__name__)


def lower_header_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names. Do not change the dict: `http.server.front` shares it."""
    lowered: dict[str, str] | None = getattr(headers, "lowered", None)  # set by `http.server.front`
    return {name.lower(): headers[name] for name in headers} if lowered is None else lowered


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

_VALID_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,128}")


def get_request_id(headers: Mapping[str, str]) -> str:
    """Return the caller's `X-Request-Id` if it is valid, else a new id. `headers` have lower-case names or ignore case."""
    caller_id = headers.get("x-request-id")
    return caller_id if caller_id and _VALID_ID.fullmatch(caller_id) else make_request_id()


def make_request_id() -> str:
    """Return a new id: microseconds since 1970, then 40 random bits.

    Ids in the order of time make the ledger's index of them cheap.
    """
    return f"req_{time.time_ns() // 1000:014x}{make_unique_id()[:10]}"


def has_body(headers: Mapping[str, str]) -> bool:
    """Return whether a request with these headers has a body. `headers` have lower-case names or ignore case."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def make_default_headers(request_id: str) -> dict[str, str]:
    """Return the headers of every response, with names as they are sent."""
    return {
        "X-Request-Id": request_id,
        "Request-Id": request_id,  # read by the SDKs of some vendors
        "Cache-Control": "private, no-store",
        "X-Content-Type-Options": "nosniff",
    }


def render_error_envelope(snapshot: Snapshot, format: str, call: Call | None, error: GateError) -> bytes:
    """Return the error body in the format of the route, or the gateway's own error body for a path without a format."""
    wire_format = snapshot.formats.get(format)
    if wire_format is not None:
        try:
            return wire_format.translate_error(call, error)
        except GateError:
            pass  # the format failed too; its lane has logged it
    return orjson.dumps({"error": error.body()})


def make_error_from_tornado(request: HTTPServerRequest, status: int) -> GateError:
    """Return the error for a request that Tornado itself rejects with `status`."""
    if status == 404:
        return NotFound(
            f"The route '{request.path[:200]}' does not exist. Check the path and the base URL.", code="unknown_route"
        )
    if status == 405:
        return MethodNotAllowed(request.method or "", ["GET"])
    if 400 <= status < 500:
        return RequestError("The request is not valid HTTP. Check its request line, headers and body.", status=status)
    return InternalError()


class RequestLine(Protocol):
    """The fields of a request that metrics, links and the access log need, of Tornado's request or a `CallerRequest`."""

    @property
    def method(self) -> str | None: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    # CallerRequest computes these; HTTPServerRequest has them as attributes.
    @property
    def remote_ip(self) -> str | None: ...
    @property
    def protocol(self) -> str: ...
    @property
    def host(self) -> str: ...


class EndedRequest(Protocol):
    """A request that has ended. `started` is in seconds of the monotonic clock; `call` is None if it ended before its call.

    `error_code` is the code of an error response, "" otherwise. `outcome` is "aborted" if the caller left, "" otherwise.
    `end_user` and `recorded_body` are for the ledger: the caller's user in the body, and the body if conf requires it;
    `ledger_headers` is the result of `select_headers`, if it is known. `find_client` returns the caller's address.
    """

    gate: Gate
    snapshot: Snapshot

    @property
    def request(self) -> RequestLine: ...

    call: Call | None
    request_id: str
    format: str
    operation: str
    started: float
    sent_bytes: int
    error_code: str
    outcome: str
    end_user: str
    recorded_body: bytes
    ledger_headers: Mapping[str, str] | None

    def find_client(self) -> str: ...

    @property
    def status(self) -> int: ...


def find_request_origin(request: RequestLine, server: ServerConfig) -> Origin:
    """Return the caller's IP address, and the scheme and host that the caller used, behind the proxies that conf trusts."""
    peer = Origin(request.remote_ip or "", request.protocol, request.host)
    if not server.trusted_proxies:
        return peer
    return find_origin(peer, lower_header_names(request.headers), server.trusted_proxies)


def is_from_this_machine(request: HTTPServerRequest, server: ServerConfig) -> bool:
    """Return whether only a program on this machine can have sent the request: see `http.nearness`."""
    return nearness.is_from_this_machine(
        listener=server.host,
        peer=request.remote_ip or "",
        host=request.headers.get("Host", ""),
        version=request.version,
        header_names=request.headers,
    )


def check_address(caller: Caller, request: RequestLine, server: ServerConfig) -> None:
    """Raise NotAllowed when the caller's key is limited to other addresses than the address of the request."""
    if caller.addresses:
        auth.check_address(caller, find_request_origin(request, server).address)


def record_request(ended: EndedRequest) -> None:
    """Count a request in the metrics, and write it to the usage ledger and the access log."""
    gate, call = ended.gate, ended.call
    request, server = ended.request, ended.snapshot.config.server
    seconds = time.monotonic() - ended.started
    if call is None:
        caller, meter, progress, charge, headers = NO_CALLER, Meter(), Progress(), Charge(), NO_HEADERS
        model, operation, target = "", ended.operation, NO_TARGET
    else:
        caller, model = call.caller, call.model
        meter, progress, charge = call.meter, call.progress, call.charge
        known = ended.ledger_headers
        headers = select_headers(call.headers) if known is None else known
        operation = call.operation or ended.operation  # images, for generateContent at a model for images
        target = progress.target if call.target is NO_TARGET else call.target
    error_code = ended.error_code or progress.error_code
    status = ended.status
    outcome = ended.outcome or ("complete" if status < 400 and not error_code else find_outcome(status, error_code))
    entry = Entry(
        time.time_ns() // 1000,
        ended.request_id,
        caller,
        target,
        model or progress.model,
        operation,
        ended.format,
        status,
        error_code,
        outcome,
        meter,
        progress,
        charge,
        seconds * 1000,
        headers,
        ended.end_user,
        b"",
        ended.snapshot.prices,
        "",
        request.method or "",
        request.path,
        ended.find_client() if server.access_log else "",
        ended.sent_bytes,
        target.model or model,
    )
    gate.metrics.requests.add(entry)
    if meter.images and not progress.cached:
        gate.metrics.requests.count_images(target.model, target.provider, meter.images)
    if caller.id:
        record_usage(gate.admission, gate.ledger, entry, ended.recorded_body)
    else:
        charge.release_body()
    if call is not None and call.additions.observers is not None:
        tell_observers(call, status, error_code, outcome, seconds)
    if server.access_log:
        log_access(entry)
