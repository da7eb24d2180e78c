"""The common data of requests whose client repeats their head on its connection (`http/server/head.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.guards.stream_policy import HEADER
from tornado_gate.http.server.head import HeaderFields
from tornado_gate.http.server.response_head import render_fields
from tornado_gate.ledger.entries import select_headers
from tornado_gate.pipeline.callers import KnownKey
from tornado_gate.pipeline.calls import CallerServices
from tornado_gate.pipeline.plans import Scope
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.handlers.answer import AnswerHandler
from tornado_gate.server.handlers.authenticated import remove_keys
from tornado_gate.server.handlers.exchange import CallerRequest
from tornado_gate.server.handlers.strict_header import HEADER as STRICT
from tornado_gate.server.handlers.strict_header import is_strict
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import Caller


class KnownHead:
    """The common data of requests with the same head, apart from the length of their body.

    `headers` are the headers for plugins, without the key. `request_id` is the caller's own id, or "". `body_bytes` is
    the length in `headers`. A body with more than `most_bytes` needs another way.
    `cors_fields` are the lines about the caller's origin in the head of a response.
    `has_plain_model`: the body names the model, and the key may use every model.
    """

    __slots__ = (
        "body_bytes",
        "caller",
        "client",
        "cors_fields",
        "format",
        "has_plain_model",
        "headers",
        "key",
        "key_digest",
        "ledger_headers",
        "matched",
        "most_bytes",
        "plans",
        "request",
        "request_id",
        "route",
        "services",
        "snapshot",
        "strict",
    )

    def __init__(self, handler: AnswerHandler, key: KnownKey, services: CallerServices) -> None:
        lowered, snapshot, caller = handler.lower_headers, handler.snapshot, handler.caller
        self.snapshot: Snapshot | None = snapshot
        self.request: CallerRequest = _copy_request(handler.request, lowered["content-length"])
        self.matched: MatchedRoute = handler.matched
        self.route = handler.route
        self.format = handler.format
        self.caller: Caller = caller
        self.client = handler.find_client()
        self.key = key
        self.key_digest = key.digest
        self.headers: Mapping[str, str] = remove_keys(lowered)
        self.ledger_headers = select_headers(self.headers)
        self.body_bytes = int(lowered["content-length"])
        self.most_bytes = min(SMALL_BYTES, snapshot.config.limits.body_bytes)
        self.request_id = handler.request_id if lowered.get("x-request-id") == handler.request_id else ""
        self.strict = STRICT in lowered and is_strict(lowered[STRICT])
        self.has_plain_model = handler.route.model == "body" and not caller.models
        self.services = services
        has_cors = snapshot.config.cors.origins
        self.cors_fields = render_fields(handler.find_cors_headers().items()) if has_cors else ""
        guarded_key = snapshot.guards.identify_key(caller) if snapshot.guards.lanes else ()
        plans = handler.gate.plans
        self.plans: Scope = plans.find_scope(handler.matched.served, caller, self.cors_fields, guarded_key)

    def get_headers(self, body_bytes: int) -> Mapping[str, str]:
        """Return the headers for plugins of a request with a body of this length."""
        return {**self.headers, "content-length": str(body_bytes)}

    def forget(self) -> None:
        """Forget the configuration, because it is no longer current. Otherwise the connection would keep its parts alive."""
        self.snapshot = None
        self.plans = {}


def _copy_request(request: CallerRequest, length: str) -> CallerRequest:
    """Return a copy for a `KnownHead`. Its headers have no note, which would refer to the `KnownHead` itself."""
    copied = copy(request)
    headers = request.headers
    assert isinstance(headers, HeaderFields)
    copied.headers = headers.copy_with_length(length)
    copied.headers.note = None
    return copied


def remember_head(handler: AnswerHandler) -> KnownHead | None:
    """Keep the data for the next requests with the head of `handler`. Return None for a request with different steps."""
    lowered, route, snapshot = handler.lower_headers, handler.route, handler.snapshot
    if (
        route.method != "POST"
        or not handler.key_digest
        or handler.form is not None
        or handler.is_plain
        or handler.request.query
        or HEADER in lowered
        or "content-length" not in lowered
        or snapshot is not handler.gate.snapshot  # its plans would belong to another snapshot
        or not isinstance(handler.request.headers, HeaderFields)
    ):
        return None
    key = handler.gate.callers.note_key(handler.key_digest, handler.caller)
    if key is None:
        return None
    services = handler.services.calls.make_services(handler.caller.account, handler.get_public_url())
    known = handler.request.headers.note = KnownHead(handler, key, services)
    return known
