"""Realtime sessions that are recorded on the wire. Used only while conf has the section ``tapes``."""

from __future__ import annotations

from copy import copy
from typing import Any

from tornado_gate.http.websocket.connection import Receive
from tornado_gate.server.handlers.realtime import RealtimeHandler
from tornado_gate.tapes.exchanges import RecordingPools
from tornado_gate.tapes.recorder import Recorder
from tornado_gate.tapes.selection import HEADER_SENT, find_reason, read_wish
from tornado_gate.tapes.sessions import RecordedCaller, RecordedSocket
from tornado_gate.telemetry.redaction import make_mask
from tornado_gate.types import Call, Caller, WireRequest


class TapedRealtimeHandler(RealtimeHandler):
    """A handler that records the sessions that a rule or the header selects. All others are relayed as usual.

    A session that guards review, or that a client secret has opened, is not recorded.
    """

    _recorder: Recorder | None = None
    _wire: WireRequest | None = None

    async def _authenticate(self) -> tuple[Call, WireRequest]:
        call, wire = await super()._authenticate()
        self._wire = wire
        return call, wire

    def _admit(self, caller: Caller) -> None:
        super()._admit(caller)
        rules, call, wire = self.snapshot.config.tapes, self.call, self._wire
        if rules is None or call is None or wire is None:
            return
        wish = read_wish(wire.headers, caller)
        reason = find_reason(rules, wish, caller, call.model)
        if not reason or wire.json or (self.review is not None and self.review.guards):
            if reason == "header":
                self.set_header(HEADER_SENT, "skipped")
            return
        head = {
            **{"reason": reason, "request_id": call.id, "format": call.format, "operation": self.operation},
            **{"model": call.model, "key": caller.id, "account": caller.account, "dialect": call.dialect},
            **{"store": call.responses.store, "copies": call.responses.copies},
        }
        recorder = self._recorder = self.services.tapes.begin(rules, head, self.started)
        if reason == "header":
            self.set_header(HEADER_SENT, recorder.id if recorder else "skipped")
        if recorder is not None:
            recorder.note_request(wire)
            gate = copy(self.gate)
            pools: Any = RecordingPools(gate.pools, recorder, call.progress)
            gate.pools, self.gate = pools, gate

    def _set_own_headers(self) -> None:
        super()._set_own_headers()
        if self._recorder is not None and self.socket is not None and self.call is not None:
            self.socket = RecordedSocket(self.socket, self._recorder, make_mask(self.call.target))

    def open(self) -> None:
        """Start relaying, with a connection to the caller that records."""
        super().open()
        if self._recorder is not None and self.relay is not None:
            self._recorder.note("answer_head", status=self.get_status(), headers={})
            connection: Any = RecordedCaller(self.relay.caller, self._recorder)
            self.relay.caller = connection

    @property
    def on_message(self) -> Receive:  # type: ignore[override]  # as its base class
        """Return the function that receives each message of the caller, and records it."""
        receive, recorder = super().on_message, self._recorder
        if recorder is None:
            return receive

        def record(message: str | bytes) -> Any:
            recorder.note_data("caller_message", message.encode() if isinstance(message, str) else message)
            return receive(message)

        return record

    def on_finish(self) -> None:
        """Count and log the request, or the session at its end, and write the tape."""
        super().on_finish()
        recorder, self._recorder = self._recorder, None
        rules = self.snapshot.config.tapes
        if recorder is None or rules is None:
            return
        status = self.get_status()
        outcome = "failed" if status >= 500 or self.error_code else "refused" if status >= 400 else "complete"
        self.services.tapes.end(
            recorder,
            rules,
            is_withheld=False,
            status=status,
            outcome=outcome,
            error_code=self.error_code,
            guarded=False,
        )
