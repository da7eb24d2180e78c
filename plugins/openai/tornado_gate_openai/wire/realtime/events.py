"""Conversion of events between the dialects, as JSON objects. No I/O; arguments are never changed.

A server event can become several events or none: the beta dialect reports an item once (``conversation.item.created``), the
current dialect when it is added and when it is done. Events that are the same in both dialects, and unknown events, are
returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate_openai.wire.realtime import schemas
from tornado_gate_openai.wire.realtime.names import BETA_NAMES, CURRENT_NAMES, make_id
from tornado_gate_openai.wire.realtime.schemas import FieldDropper, ignore_drop

Event = dict[str, Any]

CLIENT_TYPES: Final = frozenset(
    {"session.update", "transcription_session.update", "response.create", "conversation.item.create"}
)
"""Client events that differ between the dialects. All others are identical."""

_SESSION_TYPES: Final = {
    "transcription_session.created": "session.created",
    "transcription_session.updated": "session.updated",
}
_TRANSCRIPTION_TYPES: Final = {current: beta for beta, current in _SESSION_TYPES.items()}
_TRANSCRIPTION_SESSION: Final = "transcription"


def translate_client_to_current(event: Event, lose: FieldDropper = ignore_drop) -> Event:
    """Return a client event for an upstream with the current dialect. Raises InvalidField if it cannot be converted."""
    match event.get("type"):
        case "session.update":
            return _translate_member(
                event, "session", lambda session: _render_requested_session(session, "realtime", lose)
            )
        case "transcription_session.update":
            event = {**event, "type": "session.update"}
            return _translate_member(
                event, "session", lambda session: _render_requested_session(session, _TRANSCRIPTION_SESSION, lose)
            )
        case "response.create":
            return _translate_member(
                event, "response", lambda response: schemas.convert_response_create_to_current(response, lose)
            )
        case "conversation.item.create":
            return _translate_member(event, "item", schemas.convert_item_to_current)
        case _:
            return event


def translate_client_to_beta(event: Event, lose: FieldDropper = ignore_drop) -> Event:
    """Return a client event for an upstream with the beta dialect. Raises InvalidField if it cannot be converted."""
    match event.get("type"):
        case "session.update":
            return _session_update_to_beta(event, lose)
        case "response.create":
            return _translate_member(
                event, "response", lambda response: schemas.convert_response_create_to_beta(response, lose)
            )
        case "conversation.item.create":
            return _translate_member(event, "item", schemas.convert_item_to_beta)
        case _:
            return event


def _render_requested_session(session: Any, kind: str, lose: FieldDropper) -> Any:
    current = schemas.convert_session_to_current(session, kind)
    if not isinstance(current, dict):
        return current
    if kind == _TRANSCRIPTION_SESSION and "output_modalities" in current:
        lose("session.modalities")
        del current["output_modalities"]
    return schemas.drop_beta_only(current, "session", lose)


def _session_update_to_beta(event: Event, lose: FieldDropper) -> Event:
    session = event.get("session")
    if not isinstance(session, Mapping):
        return event
    transcribes = session.get("type") == _TRANSCRIPTION_SESSION
    keep = ("include",) if transcribes else ()
    settings = schemas.drop_current_only(schemas.convert_session_to_beta(session), "session", lose, keep)
    return {**event, "type": "transcription_session.update" if transcribes else event["type"], "session": settings}


def translate_server_to_current(event: Event) -> list[Event]:
    """Return the events for a caller with the current dialect.

    ``conversation.item.created`` becomes ``conversation.item.added`` and ``conversation.item.done``. If the item is still in
    progress, the second is left out, and `EventTranslator` sends it at ``response.output_item.done``.
    """
    kind = event.get("type")
    if not isinstance(kind, str):
        return [event]
    if kind in CURRENT_NAMES:
        return [{**event, "type": CURRENT_NAMES[kind]}]
    if kind == "conversation.item.created":
        return _add_done_event(
            _translate_member({**event, "type": "conversation.item.added"}, "item", schemas.convert_item_to_current)
        )
    if kind in _SESSION_TYPES:
        event = {**event, "type": _SESSION_TYPES[kind]}
        return [
            _translate_member(
                event, "session", lambda session: schemas.convert_session_to_current(session, _TRANSCRIPTION_SESSION)
            )
        ]
    if kind == "response.function_call_arguments.done":
        return [{**event, "name": event.get("name") or ""}]  # required in the current dialect, absent in beta
    return [_translate_member(event, *_MEMBERS_TO_CURRENT[kind])] if kind in _MEMBERS_TO_CURRENT else [event]


def translate_server_to_beta(event: Event) -> list[Event]:
    """Return the events for a caller with the beta dialect; an empty list for ``conversation.item.done``."""
    kind = event.get("type")
    if not isinstance(kind, str):
        return [event]
    if kind in BETA_NAMES:
        return [{**event, "type": BETA_NAMES[kind]}]
    if kind == "conversation.item.done":
        return []
    if kind == "conversation.item.added":
        return [_translate_member({**event, "type": "conversation.item.created"}, "item", schemas.convert_item_to_beta)]
    if kind in _TRANSCRIPTION_TYPES and _get_session_type(event) == _TRANSCRIPTION_SESSION:
        event = {**event, "type": _TRANSCRIPTION_TYPES[kind]}
        return [_translate_member(event, "session", schemas.convert_session_to_beta)]
    return [_translate_member(event, *_MEMBERS_TO_BETA[kind])] if kind in _MEMBERS_TO_BETA else [event]


def is_open(event: Event) -> bool:
    """Return whether the item of an event is still in progress."""
    item = event.get("item")
    return isinstance(item, Mapping) and item.get("status") == "in_progress"


def make_done_event(event: Event, previous: Any = None) -> Event:
    """Return ``conversation.item.done`` for the item of `event`; its event id is derived from the id of `event`."""
    event_id = event.get("event_id")
    result: Event = {
        "type": "conversation.item.done",
        "event_id": f"{event_id}_done" if isinstance(event_id, str) and event_id else make_id("event"),
        "item": event.get("item"),
    }
    return {**result, "previous_item_id": previous} if previous is not None else result


def _add_done_event(event: Event) -> list[Event]:
    if is_open(event) or not isinstance(event.get("item"), Mapping):
        return [event]
    return [event, make_done_event(event, event.get("previous_item_id"))]


def _get_session_type(event: Event) -> Any:
    session = event.get("session")
    return session.get("type") if isinstance(session, Mapping) else None


def _translate_member(event: Event, name: str, translate: Callable[[Any], Any]) -> Event:
    return {**event, name: translate(event[name])} if name in event else event


MemberTranslation = tuple[str, Callable[[Any], Any]]
"""The member of an event that differs, and the function that converts it."""

_MEMBERS_TO_CURRENT: Final[Mapping[str, MemberTranslation]] = {
    "session.created": ("session", schemas.convert_session_to_current),
    "session.updated": ("session", schemas.convert_session_to_current),
    "conversation.item.retrieved": ("item", schemas.convert_item_to_current),
    "response.created": ("response", schemas.convert_response_to_current),
    "response.done": ("response", schemas.convert_response_to_current),
    "response.output_item.added": ("item", schemas.convert_item_to_current),
    "response.output_item.done": ("item", schemas.convert_item_to_current),
    "response.content_part.added": ("part", schemas.rename_part),
    "response.content_part.done": ("part", schemas.rename_part),
}
_MEMBERS_TO_BETA: Final[Mapping[str, MemberTranslation]] = {
    "session.created": ("session", schemas.convert_session_to_beta),
    "session.updated": ("session", schemas.convert_session_to_beta),
    "conversation.item.created": ("item", schemas.convert_item_to_beta),
    "conversation.item.retrieved": ("item", schemas.convert_item_to_beta),
    "response.created": ("response", schemas.convert_response_to_beta),
    "response.done": ("response", schemas.convert_response_to_beta),
    "response.output_item.added": ("item", schemas.convert_item_to_beta),
    "response.output_item.done": ("item", schemas.convert_item_to_beta),
    "response.content_part.added": ("part", schemas.rename_part),
    "response.content_part.done": ("part", schemas.rename_part),
}

TO_CURRENT_TYPES: Final = frozenset(
    {*_MEMBERS_TO_CURRENT, *_SESSION_TYPES, "conversation.item.created", "response.function_call_arguments.done"}
)
"""Server events of the beta dialect that differ in more than their name."""

TO_BETA_TYPES: Final = frozenset({*_MEMBERS_TO_BETA, "conversation.item.added", "conversation.item.done"})
"""Server events of the current dialect that differ in more than their name."""
