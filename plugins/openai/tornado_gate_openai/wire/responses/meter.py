"""Usage and finish reasons of responses that the verbatim lane forwards unchanged. No I/O.

Most events contain neither, so events are searched with a pattern and parsed only if it matches. Quotation marks inside JSON
strings are escaped, so text written by a model cannot match a member's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.byte_search import search
from tornado_gate.errors import GateError
from tornado_gate.streams import sse
from tornado_gate.types import IssuedObjects, Meter
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_openai.wire.chat.response import read_string
from tornado_gate_openai.wire.responses import errors
from tornado_gate_openai.wire.responses.stored_items import list_issued
from tornado_gate_openai.wire.responses.usage import parse_reason, parse_usage

_METERED_TYPE: Final = re.compile(
    rb'"type"\s*+:\s*+"(?:error|response\.(?:created|queued|completed|incomplete|failed))"'
)
_ERROR_OBJECT: Final = re.compile(rb'"error"\s*+:\s*+\{')
_SEQUENCE_NUMBER: Final = re.compile(rb'"sequence_number"\s*+:\s*+(\d{1,9})')
_CALL_TYPES: Final = ("function_call", "custom_tool_call")
_UNFINISHED_STATUSES: Final = ("queued", "in_progress")
_END_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed", "error")


class ResponsesStreamMeter:
    """The meter of one stream's raw frames. It notes usage and finish reason on `meter`, and can end an interrupted stream.

    `finished` is True after a successful end, `done` after the last event. `issued` receives the objects that the upstream
    keeps; `stored` is whether the upstream stores the response; the response's ``store`` takes precedence.
    """

    def __init__(self, meter: Meter, issued: IssuedObjects | None = None, *, stored: bool = False) -> None:
        self._meter = meter
        self._issued = issued
        self._stored = stored
        self._response: Mapping[str, Any] = {}
        self._number = 0
        self.finished = False
        self.done = False

    @property
    def response(self) -> Mapping[str, Any]:
        """The last state of the response; empty before the first."""
        return self._response

    def note(self, raw: bytes) -> bool:
        """Note one frame. Always returns False, because this format has no frame that must be hidden from the client."""
        if (number := search(raw, b'"sequence_number"', _SEQUENCE_NUMBER)) is not None:
            self._number = int(number[1]) + 1
        if _is_metered(raw) and isinstance(body := sse.parse_json(raw), Mapping):
            self._note_body(body)
        return False

    def _note_body(self, body: Mapping[str, Any]) -> None:
        kind, response = body.get("type"), body.get("response")
        if isinstance(response, Mapping):
            self._response = response
            if self._issued is not None:
                note_issued(self._issued, response, stored=self._stored)
        if kind in ("response.completed", "response.incomplete"):
            note_body(self._meter, self._response)
            self.finished = True
        # After an `error` event a `response.failed` may still follow.
        self.done = self.done or kind in _END_EVENTS[:3] or (kind is None and errors.find_error(body) is not None)

    def render_ending(self, error: GateError) -> list[dict[str, Any]]:
        """Return the events that end an interrupted stream with `error`."""
        events = [errors.render_event(error, self._number)]
        if self._response:
            response = errors.make_failed_response(self._response, error)
            events.append({"type": "response.failed", "sequence_number": self._number + 1, "response": response})
        return events


def _is_metered(raw: bytes) -> bool:
    return search(raw, b'"type"', _METERED_TYPE) is not None or search(raw, b'"error"', _ERROR_OBJECT) is not None


def is_unfinished(body: Any) -> bool:
    """Return whether a response will be completed in the background. Its usage is not known yet."""
    return isinstance(body, Mapping) and not body.get("error") and body.get("status") in _UNFINISHED_STATUSES


def note_issued(issued: IssuedObjects, response: Mapping[str, Any], *, stored: bool) -> None:
    """Note the objects that the upstream keeps of a response.

    They are due with the last state of the response. A background response has them immediately, because it continues without
    its caller.
    """
    background, unfinished = response.get("background") is True, is_unfinished(response)
    issued.ids += [issued_id for issued_id in list_issued(response, stored) if issued_id not in issued.ids]
    issued.due = background or not unfinished
    issued.unmetered = background and unfinished


def note_body(meter: Meter, body: Any) -> None:
    """Note usage and finish reason of a whole response. Raises the error in the body, or UpstreamError for a wrong shape."""
    if (error := errors.find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping) or not is_array_of_objects(body.get("output")):
        raise wrong_format_error()
    meter.record_usage(parse_usage(body.get("usage")))
    meter.record_tier(body.get("service_tier"))
    _note_images(meter, body["output"])
    kinds = [item.get("type") for item in body["output"]]
    meter.record_searches(kinds.count("web_search_call"))
    calls = any(kind in _CALL_TYPES for kind in kinds)
    meter.record_finish(parse_reason(body, calls)[0])


def _note_images(meter: Meter, items: list[Mapping[str, Any]]) -> None:
    """Note the pictures that the tool has made, with the size and the quality of the last."""
    for item in items:
        if item.get("type") == "image_generation_call" and item.get("result"):
            meter.add_images(1)
            meter.record_variant(read_string(item.get("size")), read_string(item.get("quality")))
