"""Conversations by voice: the caller's end of a session, and client secrets.

Source: openai-python 3.52, resources/realtime/ and types/realtime/client_secret_create_params.py.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.checks import wrong
from tornado_gate.codec.fields import Body, Integer, Object, String, check
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation
from tornado_gate.gateway.embedding_batches import summed
from tornado_gate.types import (
    Call,
    ClientSecret,
    ClientSecretRequest,
    RealtimeDialect,
    RealtimeRequest,
    Reply,
    Request,
    StreamEvent,
    UpstreamResponse,
    Verbatim,
    WireRequest,
)
from tornado_gate.wire.openai_realtime import (
    BETA_PROTOCOL,
    WIRE_FORMAT,
    Translator,
    dialect_of,
    dialect_of_session_update,
    error_event,
    parse_client,
    peek_type,
    usage_of,
)
from tornado_gate_format_openai import paths
from tornado_gate_format_openai.replies import JSON

log = logging.getLogger(__name__)

ROUTES: Final = paths.REALTIME
PROTOCOL: Final = "realtime"

LEAST_SECONDS, MOST_SECONDS, USUAL_SECONDS = 10, 7200, 600


class Side:
    """A `RealtimeSide`. The dialect is that of the handshake, unless the first ``session.update`` is written in the other."""

    def __init__(self, call: Call, request: RealtimeRequest, subprotocol: str) -> None:
        self.request = request
        self.subprotocol = subprotocol
        self._call = call
        self._caller = request.dialect
        self._settled = call.dialect != "auto"
        self._translator = Translator(request.dialect, request.dialect, call.lose)

    def connected(self, dialect: RealtimeDialect) -> None:
        self._translator = Translator(self._caller, dialect, self._call.lose)

    def client(self, text: str) -> list[str]:
        kind = peek_type(text)
        if kind is None:
            parse_client(text)  # says what is wrong with it
        if not self._settled and kind in ("session.update", "transcription_session.update"):
            self._settle(text)
        return self._translator.client(text)

    def _settle(self, text: str) -> None:
        self._settled = True
        dialect = dialect_of_session_update(parse_client(text))
        if dialect is not None and dialect != self._caller:
            self._caller = dialect
            self._translator = Translator(dialect, self._translator.upstream, self._call.lose)

    def server(self, text: str) -> list[str]:
        if '"response.done"' in text:
            try:
                self._count(text)
            except Exception:  # whatever it is: no conversation ends because its cost cannot be counted
                log.exception("the usage of a session was not counted")
        return self._translator.server(text)

    def _count(self, text: str) -> None:
        if peek_type(text) == "response.done":
            usage = usage_of(orjson.loads(text))
            self._call.meter.usage = summed([self._call.meter.usage, usage])

    def error(self, error: GateError, event_id: str = "") -> str:
        return orjson.dumps(error_event(error, event_id or None, self._caller)).decode()


def open_session(call: Call, wire: WireRequest) -> Side:
    """The caller's end. What it offers as subprotocols is in the headers, without its key."""
    protocols = [name.strip() for name in wire.headers.get("sec-websocket-protocol", "").split(",")]
    dialect = dialect_of(wire.headers, wire.query, protocols)
    if call.dialect != "auto":
        dialect = "beta" if call.dialect == "contract" else "current"
    session = wire.json.get("session")
    if session and call.dialect == "auto" and BETA_PROTOCOL not in protocols:
        dialect = "current"  # it has a client secret, of which the older API knows nothing; a page cannot name its SDK
    request = RealtimeRequest(
        model=call.model,
        dialect=dialect,
        wire_format=WIRE_FORMAT,
        session=session if isinstance(session, Mapping) else {},
    )
    return Side(call, request, PROTOCOL if PROTOCOL in protocols else "")


# Client secrets


class _Expiry(Body):
    anchor = String(choices=("created_at",), allow_none=True)
    seconds = Integer(least=LEAST_SECONDS, most=MOST_SECONDS, allow_none=True)


class _Session(Body):
    type = String(choices=("realtime",), required=True)
    model = String(required=True)


class SecretBody(Body):
    """The body of ``POST /v1/realtime/client_secrets``."""

    session = Object(_Session, required=True)
    expires_after = Object(_Expiry, allow_none=True)


_SECRET: Final = SecretBody()


def parse(call: Call, wire: WireRequest) -> Request:
    """The request for a client secret. Raises InvalidField."""
    if wire.route.socket:
        raise InvalidField("", "This route is a WebSocket: connect with one.", code="upgrade_required")
    body = wire.json
    check(_SECRET, body)
    if not body["session"]["model"]:
        wrong("session.model", "must not be empty")
    seconds = (body.get("expires_after") or {}).get("seconds") or USUAL_SECONDS
    return ClientSecretRequest(seconds=seconds, model=body["session"]["model"], session=body["session"])


def reply(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a request for a client secret."""
    return Reply(content_type=JSON, chunks=_secret(events))


async def _secret(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, ClientSecret):
            told: dict[str, Any] = {
                "value": event.value, "expires_at": event.expires_at, "session": dict(event.session)
            }  # fmt: skip
            yield orjson.dumps(told)


def forward(call: Call, wire: WireRequest) -> Verbatim | None:
    """Nothing here goes up as it came over HTTP."""
    return None


def forwarded(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """Never called, because `forward` declines."""
    raise UnsupportedOperation("This route has no answer that passes as it came.")
