"""``/v1/responses`` over WebSocket: the messages of a connection, as the vendor's WebSocket mode has them.

A ``response.create`` message is a body of ``POST /v1/responses`` without ``stream`` and ``background``; the events of its
stream are sent as messages. ``stream_id`` names a lane: requests of one lane run one after the other, requests of several lanes
in parallel. Their messages have the ``stream_id``. ``generate: false`` prepares a response without output. The last response of
each lane can be continued by ``previous_response_id`` though it is not stored: then the whole conversation is sent instead of
the id.

Source: the vendor's guide "WebSocket mode" (read 2026-11-22 in a copy of November), openai-python 3.52
(types/responses/responses_client_event.py, responses_server_event.py), and openai/codex, codex-rs/codex-api
(endpoint/responses_websocket.rs, read 2026-11-22), which sends ``response.processed`` too and reads ``headers`` of an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import raise_invalid
from tornado_gate.errors import GateError, InvalidField
from tornado_gate.types import Call, KeepBytes, SocketRequest
from tornado_gate_openai.format.socket_requests import CreateRequest, render_event
from tornado_gate_openai.format.socket_turns import TurnCache

MAX_LANES: Final = 32
"""Maximum number of different ``stream_id`` on a connection, as at the vendor."""

_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_ACKNOWLEDGEMENTS: Final = frozenset({"response.processed"})
"""Messages that ask for nothing."""


def open_socket(call: Call, keep_bytes: KeepBytes) -> ResponseSocket:
    """Return the adapter of a new connection."""
    return ResponseSocket(call, TurnCache(keep_bytes))


class ResponseSocket:
    """The adapter of one connection (a `MessageAdapter`)."""

    def __init__(self, call: Call, turns: TurnCache) -> None:
        self._call = call
        self._turns = turns
        self._lanes: set[str] = set()
        self._steers = 0

    def read_message(self, body: Mapping[str, Any], raw: bytes) -> SocketRequest | str:
        """Return the request of a ``response.create``, or the response to another message. Raises InvalidField."""
        kind = body.get("type")
        if kind == "response.create":
            return self._read_create(body, raw)
        if kind == "response.steer":
            return self._refuse_steer(body)
        if kind in _ACKNOWLEDGEMENTS:
            return ""
        shown = f"'{kind[:100]}'" if isinstance(kind, str) else "missing"
        raise InvalidField("type", f"'type' must be 'response.create', not {shown}.")

    def _read_create(self, body: Mapping[str, Any], raw: bytes) -> SocketRequest | str:
        lane = body.get("stream_id")
        if lane is not None and not (isinstance(lane, str) and _STREAM_ID.fullmatch(lane)):
            message = "'stream_id' must be 1 to 256 letters, digits, underscores, hyphens and periods, or be omitted"
            raise InvalidField("stream_id", message, code="invalid_stream_id")
        if lane is not None and lane not in self._lanes:
            if len(self._lanes) >= MAX_LANES:
                message = (
                    f"This connection has used {MAX_LANES} different 'stream_id'. Use one of them, or connect again."
                )
                error = InvalidField("stream_id", message, code="websocket_stream_limit_reached")
                return _render_gate_error(error, lane)
            self._lanes.add(lane)
        try:
            return CreateRequest(self._call, self._turns, body, raw, lane)
        except GateError as error:
            return _render_gate_error(error, lane)

    def _refuse_steer(self, body: Mapping[str, Any]) -> str:
        """Return the response to ``response.steer``, which contains the input again. Raises InvalidField."""
        if not isinstance(previous := body.get("previous_response_id"), str):
            raise_invalid("previous_response_id", "must be a string")
        self._steers += 1
        return render_event(
            {
                "type": "response.steer.failed",
                "sequence_number": self._steers - 1,
                "steer": {"previous_response_id": previous, "input": body.get("input")},
                "error": {
                    "type": "invalid_request_error",
                    "code": "steering_not_supported",
                    "message": "Responses of this gateway cannot be steered. Send the input with the next 'response.create'.",
                },
            }
        )

    def render_error(self, error: GateError) -> str:
        return _render_gate_error(error, None)

    def render_expiry(self, minutes: float) -> str:
        message = f"This WebSocket connection has reached its limit of {minutes:g} minutes. Open a new connection to continue."
        return _render_gate_error(InvalidField("", message, code="websocket_connection_limit_reached"), None)

    def close(self) -> None:
        self._turns.close()


def _render_gate_error(error: GateError, lane: str | None) -> str:
    event: dict[str, Any] = {"type": "error", "status": error.status, "error": error.body()}
    if error.headers:
        event["headers"] = {name.lower(): value for name, value in error.headers.items()}
    return render_event(event | ({} if lane is None else {"stream_id": lane}))
