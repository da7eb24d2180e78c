"""What the verbatim lane must know of events that it passes on as they came. Pure.

Most events hold nothing of the kind: those are searched, not parsed. Inside a JSON string a quotation mark is escaped, so
that no text a model writes can look like a member.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.errors import GateError
from tornado_gate.types import Meter
from tornado_gate.wire.openai_chat import parse_frame
from tornado_gate.wire.openai_responses import errors
from tornado_gate.wire.openai_responses.usage import parse_reason, parse_usage
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error

_METERED_FRAME: Final = re.compile(
    rb'"type"\s*+:\s*+"(?:error|response\.(?:created|completed|incomplete|failed))"|"error"\s*+:\s*+\{'
)
_SEQUENCE_NUMBER: Final = re.compile(rb'"sequence_number"\s*+:\s*+(\d{1,9})')
_CALL_TYPES: Final = ("function_call", "custom_tool_call")
_END_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed", "error")


class ResponsesStreamMeter:
    """Watches the raw frames of one stream, notes usage and finish reason on `meter`, and can end a stream that broke off.

    `finished` says that the response ended well, `done` that nothing may follow.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._response: Mapping[str, Any] = {}
        self._number = 0
        self.finished = False
        self.done = False

    def note(self, raw: bytes) -> bool:
        """Take one frame. Always False: this format has no frame that must be hidden."""
        if (number := _SEQUENCE_NUMBER.search(raw)) is not None:
            self._number = int(number[1]) + 1
        if _METERED_FRAME.search(raw) is not None and isinstance(body := parse_frame(raw), Mapping):
            self._note_body(body)
        return False

    def _note_body(self, body: Mapping[str, Any]) -> None:
        kind, response = body.get("type"), body.get("response")
        if isinstance(response, Mapping):
            self._response = response
        if kind in ("response.completed", "response.incomplete"):
            note_body(self._meter, self._response)
            self.finished = True
        # After an `error` event a `response.failed` may still follow.
        self.done = self.done or kind in _END_EVENTS[:3] or (kind is None and errors.find_error(body) is not None)

    def render_ending(self, error: GateError) -> list[dict[str, Any]]:
        """The events that end a stream which broke off."""
        events = [errors.render_event(error, self._number)]
        if self._response:
            response = errors.make_failed_response(self._response, error)
            events.append({"type": "response.failed", "sequence_number": self._number + 1, "response": response})
        return events


def note_body(meter: Meter, body: Any) -> None:
    """Note usage and finish reason of a whole response. Raises the error that an answer with status 200 may be."""
    if (error := errors.find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("output")):
        raise wrong_format_error()
    meter.usage = parse_usage(body.get("usage")) or meter.usage
    calls = any(item.get("type") in _CALL_TYPES for item in body["output"])
    meter.finish_reason = parse_reason(body, calls)[0]
