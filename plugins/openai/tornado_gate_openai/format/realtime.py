"""Realtime voice: the caller's side of a session, and client secrets.

Source: openai-python 3.52, resources/realtime/ and types/realtime/client_secret_create_params.py.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation
from tornado_gate.pipeline.embedding_batches import sum_usage
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
    Usage,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_openai.fields.client_secrets import check_secret
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.replies import JSON_TYPE
from tornado_gate_openai.wire.realtime import (
    BETA_PROTOCOL,
    WIRE_FORMAT,
    EventTranslator,
    detect_dialect,
    detect_session_update_dialect,
    make_error_event,
    parse_client_event,
    parse_usage,
    peek_type,
)

log = logging.getLogger(__name__)

ROUTES: Final = paths.REALTIME_ROUTES
REALTIME_PROTOCOL: Final = "realtime"

_AUDIO_MESSAGE: Final = "input_audio_buffer.append"
_TYPE_CHARACTERS: Final = 256
_TEXT_CHARACTERS_PER_TOKEN: Final = 4
_HEARD_CHARACTERS_PER_TOKEN: Final = 6400
"""Of sound in base64: 24,000 samples of 2 bytes a second; a token is 100 ms of the user's sound and 50 ms of the assistant's.
Source: OpenAI's guide "Managing costs" (developers.openai.com/api/docs/guides/realtime-costs), 2026-11."""
_SPOKEN_CHARACTERS_PER_TOKEN: Final = 3200

USUAL_SECONDS = 600


class UnreportedUsage:
    """An estimate of what a session has used since the last ``response.done``: a caller may leave before it.

    Only a response that was requested or has begun counts: it reads the conversation so far, and everything that the caller
    sent.
    """

    __slots__ = ("_context", "_heard", "_is_asked", "_produced", "_read", "_spoken")

    def __init__(self) -> None:
        self._context = 0
        self._begin()

    def _begin(self) -> None:
        self._is_asked = False
        self._read = self._heard = self._produced = self._spoken = 0

    def note_client_message(self, kind: str | None, text: str) -> None:
        if kind == _AUDIO_MESSAGE:
            self._heard += len(text)
        else:
            self._read += len(text)
            self._is_asked = self._is_asked or kind == "response.create"

    def note_server_message(self, text: str) -> None:
        """Count a piece of a response. Its type is at the beginning of the event, before the sound."""
        end = text.find('.delta"', 0, _TYPE_CHARACTERS)
        if end < 0:
            return
        if text.startswith("audio", end - 5):
            self._spoken += len(text)
        else:
            self._produced += 1

    def note_done(self, usage: Usage | None) -> None:
        """The upstream has reported what a response used."""
        if usage is not None:
            self._context = usage.total_tokens or 0
        self._begin()

    def estimate(self) -> Usage:
        if not (self._is_asked or self._produced or self._spoken):
            return Usage()
        heard, spoken = self._heard // _HEARD_CHARACTERS_PER_TOKEN, self._spoken // _SPOKEN_CHARACTERS_PER_TOKEN
        return Usage(
            input_tokens=self._context + self._read // _TEXT_CHARACTERS_PER_TOKEN + heard,
            output_tokens=self._produced + spoken,
            audio_input_tokens=heard,
            audio_output_tokens=spoken,
        )


class OpenAIRealtimeAdapter:
    """A `RealtimeAdapter`. Its dialect is the handshake's, unless the first ``session.update`` uses the other dialect."""

    def __init__(self, call: Call, request: RealtimeRequest, subprotocol: str) -> None:
        self.request = request
        self.subprotocol = subprotocol
        self._call = call
        self._caller = request.dialect
        self._settled = call.dialect != "auto"
        self._unreported = UnreportedUsage()
        call.meter.estimate_rest_by(self._unreported.estimate)
        self._translator = EventTranslator(request.dialect, request.dialect, call.drop_field)

    def set_upstream_dialect(self, dialect: RealtimeDialect) -> None:
        self._translator = EventTranslator(self._caller, dialect, self._call.drop_field)

    def translate_client_message(self, text: str) -> list[str]:
        kind = peek_type(text)
        if kind is None:
            parse_client_event(text)  # raises InvalidField for the invalid message
        self._unreported.note_client_message(kind, text)
        if not self._settled and kind in ("session.update", "transcription_session.update"):
            self._detect_caller_dialect(text)
        return self._translator.translate_client_message(text)

    def _detect_caller_dialect(self, text: str) -> None:
        self._settled = True
        dialect = detect_session_update_dialect(parse_client_event(text))
        if dialect is not None and dialect != self._caller:
            self._caller = dialect
            self._translator = EventTranslator(dialect, self._translator.upstream, self._call.drop_field)

    def translate_server_message(self, text: str) -> list[str]:
        if '"response.done"' in text:
            try:
                self._note_usage(text)
            except Exception:  # a session must not end because its usage cannot be parsed
                log.exception("could not parse the usage of a realtime response; it is not counted")
        else:
            self._unreported.note_server_message(text)
        return self._translator.translate_server_message(text)

    def _note_usage(self, text: str) -> None:
        if peek_type(text) == "response.done":
            usage = parse_usage(orjson.loads(text))
            self._unreported.note_done(usage)
            self._call.meter.record_usage(sum_usage([self._call.meter.usage, usage]))

    def render_error(self, error: GateError, event_id: str = "") -> str:
        return orjson.dumps(make_error_event(error, event_id or None, self._caller)).decode()


def open_session(call: Call, wire: WireRequest) -> OpenAIRealtimeAdapter:
    """Return the adapter of the caller's side. The core has removed the API key from the subprotocols in the headers."""
    protocols = [name.strip() for name in wire.headers.get("sec-websocket-protocol", "").split(",")]
    dialect = detect_dialect(wire.headers, wire.query, protocols)
    if call.dialect != "auto":
        dialect = "beta" if call.dialect == "contract" else "current"
    session = wire.json.get("session")
    if session and call.dialect == "auto" and BETA_PROTOCOL not in protocols:
        dialect = "current"  # only the current API has client secrets, and a browser page cannot send its SDK's headers
    request = RealtimeRequest(
        model=call.model,
        dialect=dialect,
        wire_format=WIRE_FORMAT,
        session=session if isinstance(session, Mapping) else {},
    )
    return OpenAIRealtimeAdapter(call, request, REALTIME_PROTOCOL if REALTIME_PROTOCOL in protocols else "")


# Client secrets


def parse(call: Call, wire: WireRequest) -> Request:
    """Parse the body into a client secret request. Raises InvalidField."""
    if wire.route.socket:
        raise InvalidField(
            "",
            "This route accepts WebSocket connections only. Connect with a WebSocket client.",
            code="upgrade_required",
        )
    body = wire.json
    check_secret(body)
    seconds = (body.get("expires_after") or {}).get("seconds") or USUAL_SECONDS
    return ClientSecretRequest(seconds=seconds, model=body["session"]["model"], session=body["session"])


def reply(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a client secret request."""
    return Reply(content_type=JSON_TYPE, chunks=_render_secret(events))


async def _render_secret(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, ClientSecret):
            secret: dict[str, Any] = {
                "value": event.value, "expires_at": event.expires_at, "session": _describe_session(event.session)
            }  # fmt: skip
            yield orjson.dumps(secret)


def _describe_session(session: Mapping[str, Any]) -> dict[str, Any]:
    """The session with the members that are required in responses (types/realtime/realtime_session_create_response.py, 3.52)."""
    return {**session, "object": "realtime.session", "id": f"sess_{make_unique_id()}"}


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | None:
    """Return None: these routes have no verbatim lane over HTTP."""
    return None


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Never called, because `forward` returns None."""
    raise UnsupportedOperation("Realtime routes have no verbatim lane over HTTP.")
