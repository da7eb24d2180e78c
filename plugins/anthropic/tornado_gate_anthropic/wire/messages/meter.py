"""Reads usage and finish reason from verbatim responses without changing them. Pure.

Most frames contain neither usage nor a stop reason: they are searched by regex, not parsed. Quotation marks inside a JSON
string are escaped, so text from the model cannot match a member name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.streams import sse
from tornado_gate.types import IssuedObjects, Meter
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_anthropic.wire.messages.errors import find_error
from tornado_gate_anthropic.wire.messages.json_values import drop_null, read_string
from tornado_gate_anthropic.wire.messages.usage import parse_stop_reason, parse_usage

_METERED_FRAME: Final = re.compile(rb'"type"\s*+:\s*+"(?:message_start|message_delta|message_stop|error)"')


class MessagesStreamMeter:
    """The meter of one stream's raw frames. It sets usage and finish reason on `meter`.

    `finished` is True after a stop reason, `done` after the last event: ``message_stop`` or ``error``. `issued` receives the id
    of the container that the upstream keeps.
    """

    def __init__(self, meter: Meter, issued: IssuedObjects | None = None) -> None:
        self._meter = meter
        self._issued = issued
        self._usage: dict[str, Any] = {}
        self.finished = False
        self.done = False

    def note(self, raw: bytes) -> None:
        """Read one frame."""
        if _METERED_FRAME.search(raw) is None:
            return
        body = sse.parse_json(raw)
        if not isinstance(body, Mapping):
            return
        match body.get("type"):
            case "message_start":
                message = body.get("message")
                self._note_container(message)
                self._note_usage(message.get("usage") if isinstance(message, Mapping) else None)
            case "message_delta":
                self._note_usage(body.get("usage"))
                delta = body.get("delta")
                self._note_container(delta)
                if isinstance(delta, Mapping) and (raw_reason := read_string(delta.get("stop_reason"))):
                    self.finished = True
                    self._meter.record_finish(parse_stop_reason(raw_reason))
            case "message_stop" | "error":
                self.done = True

    def _note_container(self, holder: Any) -> None:
        if self._issued is not None:
            note_container(self._issued, holder)

    def _note_usage(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            self._usage |= drop_null(usage)
            self._meter.record_usage(parse_usage(self._usage))


def note_container(issued: IssuedObjects, holder: Any) -> None:
    """Note the container of a message or of a ``message_delta``."""
    container = holder.get("container") if isinstance(holder, Mapping) else None
    if isinstance(container, Mapping) and isinstance(container.get("id"), str):
        issued.ids.append(("container", container["id"]))
        issued.due = True


def note_body(meter: Meter, body: Any) -> None:
    """Set usage and finish reason of a whole response on `meter`.

    Raises the upstream's error, which may come with status 200, and UpstreamError for a body of another format.
    """
    if (error := find_error(body)) is not None:
        raise error
    counted = isinstance(body, Mapping) and isinstance(body.get("input_tokens"), int)
    if not counted and not (isinstance(body, Mapping) and is_array_of_objects(body.get("content"))):
        raise wrong_format_error()
    meter.record_usage(parse_usage(body.get("usage")))
    if raw := read_string(body.get("stop_reason")):
        meter.record_finish(parse_stop_reason(raw))
