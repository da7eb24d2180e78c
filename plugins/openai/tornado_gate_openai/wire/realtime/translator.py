"""Translation of one session between a caller and an upstream with different dialects: JSON texts in, JSON texts out.

No I/O; keeps state between events. Events that differ only in their name, such as audio events, are renamed in the text (see
`texts`). Events that are the same in both dialects are forwarded unchanged; only the others are parsed.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from cachetools import FIFOCache

from tornado_gate.codec.json_body import load_object
from tornado_gate.errors import InvalidField, RequestError
from tornado_gate.types import RealtimeDialect
from tornado_gate_openai.wire.realtime import events
from tornado_gate_openai.wire.realtime.names import BETA_NAMES, CURRENT_NAMES
from tornado_gate_openai.wire.realtime.schemas import (
    FieldDropper,
    convert_error_to_beta,
    convert_param_to_beta,
    convert_param_to_current,
    ignore_drop,
)
from tornado_gate_openai.wire.realtime.texts import find_type, parse_event, render_event, replace_type

MAX_REMEMBERED: Final = 1000
"""Most unfinished items and function names kept per session; the oldest are evicted."""


class EventTranslator:
    """The translator of one session's messages. `lose` is called with the path of each unsupported field of a client event."""

    def __init__(self, caller: RealtimeDialect, upstream: RealtimeDialect, lose: FieldDropper = ignore_drop) -> None:
        self.caller = caller
        self.upstream = upstream
        self._lose = lose
        to_current = caller == "current"
        self._names = CURRENT_NAMES if to_current else BETA_NAMES
        self._types = events.TO_CURRENT_TYPES if to_current else events.TO_BETA_TYPES
        self._open: FIFOCache[str, Any] = FIFOCache(MAX_REMEMBERED)
        self._functions: FIFOCache[str, Any] = FIFOCache(MAX_REMEMBERED)

    def translate_client_message(self, text: str) -> list[str]:
        """Return the messages for the upstream. Raises InvalidField for an event that is invalid or cannot be converted."""
        if self.caller == self.upstream:
            return [text]
        type_match = find_type(text)
        if type_match is not None and type_match.group(1) not in events.CLIENT_TYPES:
            return [text]
        event = parse_client_event(text)
        if event["type"] not in events.CLIENT_TYPES:
            return [text]
        translate = (
            events.translate_client_to_current if self.upstream == "current" else events.translate_client_to_beta
        )
        return [render_event(translate(event, self._lose))]

    def translate_server_message(self, text: str) -> list[str]:
        """Return the messages for the caller. Text that is not a valid event is returned unchanged."""
        if self.caller == self.upstream:
            return [text]
        if type_match := find_type(text):
            kind = type_match.group(1)
            if kind in self._names:
                return [replace_type(text, type_match, self._names[kind])]
            if kind not in self._types and kind != "error":
                return [text]
        event = parse_event(text)
        if event is not None and event["type"] == "error":
            return [self._translate_error(text, event)]
        if event is None or not (event["type"] in self._names or event["type"] in self._types):
            return [text]
        try:
            return [render_event(translated) for translated in self._translate_server_event(event)]
        except (InvalidField, orjson.JSONEncodeError):
            return [text]

    def _translate_error(self, text: str, event: events.Event) -> str:
        """Return an error event whose ``param`` and message are in the caller's dialect."""
        error = event.get("error")
        param = error.get("param") if isinstance(error, dict) else None
        if not isinstance(error, dict) or not isinstance(param, str):
            return text
        own = convert_param_to_beta(param) if self.caller == "beta" else convert_param_to_current(param)
        if own == param:
            return text
        message = error.get("message")
        if self.caller == "beta" and isinstance(message, str):
            error = {**error, "message": convert_error_to_beta(message, param, own)}
        return render_event({**event, "error": {**error, "param": own}})

    def _translate_server_event(self, event: events.Event) -> list[events.Event]:
        if self.caller == "beta":
            return events.translate_server_to_beta(event)
        translated = events.translate_server_to_current(event)
        match event["type"]:
            case "conversation.item.created" if events.is_open(event):
                self._remember(self._open, event, event.get("previous_item_id"))
            case "response.output_item.added":
                self._note_function(event)
            case "response.function_call_arguments.done":
                return [self._add_function_name(translated[0])]
            case "response.output_item.done" if (item_id := _get_item_id(event)) in self._open:
                return [events.make_done_event(translated[0], self._open.pop(str(item_id))), *translated]
            case "response.done":
                self._functions.clear()
        return translated

    def _note_function(self, event: events.Event) -> None:
        item = event.get("item")
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            self._remember(self._functions, event, item["name"])

    def _add_function_name(self, event: events.Event) -> events.Event:
        item_id = event.get("item_id")
        if event["name"] or not isinstance(item_id, str):
            return event
        return {**event, "name": self._functions.pop(item_id, "")}

    def _remember(self, where: FIFOCache[str, Any], event: events.Event, what: Any) -> None:
        if (item_id := _get_item_id(event)) is not None:
            where[item_id] = what


def parse_client_event(text: str) -> dict[str, Any]:
    """Return the event in a client message. Raises InvalidField if it is not a JSON object with a ``type``."""
    try:
        event = load_object(text.encode())
    except InvalidField:
        raise
    except (RequestError, UnicodeEncodeError) as error:
        message = error.message if isinstance(error, RequestError) else "The message is not valid UTF-8 text."
        raise InvalidField("", message.replace("The request body", "The message"), code="invalid_json") from None
    kind = event.get("type")
    if not isinstance(kind, str):
        code = "invalid_value" if "type" in event else "missing_required_parameter"
        raise InvalidField(
            "type", "'type' is missing or not a string. Send an event with a 'type' that is a string.", code=code
        )
    return event


def _get_item_id(event: events.Event) -> str | None:
    item = event.get("item")
    item_id = item.get("id") if isinstance(item, dict) else None
    return item_id if isinstance(item_id, str) else None
