"""Requests that are recorded on the wire. Used only while conf has the section ``tapes``."""

from __future__ import annotations

from collections.abc import Awaitable
from copy import copy
from typing import Any, Final

from tornado_gate.config.tapes import TapesConfig
from tornado_gate.errors import GateError
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.server.dispatch import dispatch
from tornado_gate.server.handlers.answer import AnswerHandler
from tornado_gate.server.handlers.direct_answer import DirectAnswerHandler
from tornado_gate.storage.files import MediaFile
from tornado_gate.tapes.exchanges import RecordingPools
from tornado_gate.tapes.forms import copy_form
from tornado_gate.tapes.guarding import RecordingFormat, ReviewLog, may_keep_answer
from tornado_gate.tapes.recorder import Recorder, redact_answer_headers
from tornado_gate.tapes.selection import HEADER, HEADER_SENT, find_reason, matches_key, read_wish
from tornado_gate.types import Call, Caller, WireRequest
from tornado_gate.types.value import replace

_VIDEOS: Final = "videos"


class TapedAnswerHandler(DirectAnswerHandler):
    """A handler that records the requests that a rule or the header selects. All others are served as usual."""

    _recorder: Recorder | None = None
    _reviews: ReviewLog | None = None
    _keep_alive = b""
    _has_head = False
    _shown_tape = ""

    def _admit(self, caller: Caller, key_digest: bytes, is_form: bool) -> None:
        rules = self.snapshot.config.tapes
        if rules is None or not self._may_be_taped(rules, caller):
            super()._admit(caller, key_digest, is_form)
        else:  # without the data for repeated heads, whose requests would not come here
            AnswerHandler._admit(self, caller, key_digest, is_form)

    def _may_be_taped(self, rules: TapesConfig, caller: Caller) -> bool:
        """Return whether requests with this head may be recorded. Raises NotAllowed, InvalidField."""
        wish = read_wish(self.lower_headers, caller)
        return wish is not None or any(matches_key(rule, caller) for rule in rules.rules)

    def make_answer(self, call: Call, wire: WireRequest) -> Awaitable[PreparedAnswer | MediaFile]:
        """Return the response, and record it if the request is selected. Raises GateError."""
        rules, route = self.snapshot.config.tapes, wire.route
        if rules is None or route.model == "none" or route.operation == "models" or self._is_unrecorded_video(wire):
            return super().make_answer(call, wire)
        reason, model = self._find_reason(rules, call, wire)
        head = {
            **{"reason": reason, "request_id": call.id, "format": call.format, "operation": route.operation},
            **{"model": model, "key": call.caller.id, "account": call.caller.account, "dialect": call.dialect},
            **{"store": call.responses.store, "copies": call.responses.copies},
        }
        recorder = self.services.tapes.begin(rules, head, self.started) if reason else None
        if reason == "header":
            self._shown_tape = self.headers[HEADER_SENT] = recorder.id if recorder else "skipped"
        if recorder is None:
            return super().make_answer(call, wire)
        self._recorder = recorder
        return self._make_taped_answer(recorder, call, wire)

    def _is_unrecorded_video(self, wire: WireRequest) -> bool:
        """Return whether a request makes a video that guards review, or that may be the same as an earlier one's."""
        if wire.route.operation != _VIDEOS:
            return False
        return bool(self.snapshot.guards.lanes) or "idempotency-key" in self.lower_headers

    def _find_reason(self, rules: TapesConfig, call: Call, wire: WireRequest) -> tuple[str, str]:
        """Return why the request is recorded, "" if it is not, and the model that it names."""
        try:
            model = resolve_model_name(self.snapshot.config.defaults, wire, call.caller)
        except GateError:
            return "", ""  # the pipeline raises it again
        return find_reason(rules, self.lower_headers.get(HEADER), call.caller, model), model

    async def _make_taped_answer(self, recorder: Recorder, call: Call, wire: WireRequest) -> PreparedAnswer | MediaFile:
        """Serve the request with a gate and a format that record."""
        snapshot, gate = self.snapshot, copy(self.gate)
        pools: Any = RecordingPools(gate.pools, recorder, call.progress)
        gate.pools = pools
        if snapshot.guards.lanes:
            self._reviews = ReviewLog(gate.metrics)
            gate.guarding = self._reviews.watch(gate.guarding)
        else:
            recorder.note_request(wire, await copy_form(wire, recorder.room) if wire.form else None)
        wire_format = RecordingFormat(snapshot.formats[call.format], recorder)
        recorded = replace(snapshot, formats={**snapshot.formats, call.format: wire_format})
        services = replace(self.services, gate=gate)
        if wire.route.operation == _VIDEOS and (videos := services.tapes.videos) is not None:
            rules = snapshot.config.tapes or TapesConfig()
            tasks = videos.watch(self.services.tasks, self.gate.pools, recorder, rules)
            services = replace(services, tasks=tasks)
        answer = await dispatch(services, recorded, call, wire)
        if isinstance(answer, PreparedAnswer):
            self._keep_alive = answer.reply.keep_alive
        return answer

    # What the caller gets

    def make_first_headers(self) -> dict[str, str]:
        headers = super().make_first_headers()
        if self._shown_tape:
            headers[HEADER_SENT] = self._shown_tape
        return headers

    def write(self, chunk: bytes) -> Awaitable[None] | None:
        self._note_chunk(chunk)
        return super().write(chunk)

    def end(self, chunk: bytes = b"") -> None:
        self._note_chunk(chunk)
        super().end(chunk)

    def _note_chunk(self, chunk: bytes) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        if not self._has_head:
            self._has_head = True
            recorder.note("answer_head", status=self.status, headers=redact_answer_headers(self.headers, None))
        if chunk:
            recorder.note_data("answer_chunk", chunk, keep_alive=chunk == self._keep_alive)

    def _end_exchange(self) -> None:
        recorder, self._recorder = self._recorder, None
        super()._end_exchange()
        videos = self.services.tapes.videos
        if recorder is None or (videos is not None and videos.note_answered(recorder)):
            return
        rules = self.snapshot.config.tapes or TapesConfig()
        outcome = self.outcome or ("failed" if self.status >= 500 else "refused" if self.status >= 400 else "complete")
        error_code = self.error_code or (self.call.progress.error_code if self.call is not None else "")
        is_single = recorder.exchanges <= 1 and outcome == "complete" and not error_code
        is_kept = self._reviews is None or may_keep_answer(
            self.snapshot.guards.lanes, self._reviews, self.call, is_single=is_single
        )
        self.services.tapes.end(
            recorder, rules, is_withheld=not is_kept, status=self.status, outcome=outcome, error_code=error_code,
            guarded=self._reviews is not None,
        )  # fmt: skip
