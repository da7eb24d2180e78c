"""OpenAI's realtime: what is on the wire of a conversation, in both of its dialects. Pure.

The beta dialect is the one that the service's contract shows, the current one that of the vendor's SDKs today. A `Translator`
stands between a caller and an upstream that differ; `Session`, `check_client_event` and `audio_of` are for a provider that
answers itself.
"""

from tornado_gate.wire.openai_realtime.dialects import BETA_PROTOCOL, dialect_of, dialect_of_session_update
from tornado_gate.wire.openai_realtime.event_checks import audio_of, check_client_event, check_session
from tornado_gate.wire.openai_realtime.events import (
    to_beta_client,
    to_beta_server,
    to_current_client,
    to_current_server,
)
from tornado_gate.wire.openai_realtime.items import check_item
from tornado_gate.wire.openai_realtime.names import WIRE_FORMAT, new_id
from tornado_gate.wire.openai_realtime.reports import error_event, usage_of
from tornado_gate.wire.openai_realtime.schemas import (
    item_to_beta,
    item_to_current,
    response_to_beta,
    response_to_current,
)
from tornado_gate.wire.openai_realtime.session import Session, TurnDetection
from tornado_gate.wire.openai_realtime.texts import peek_type
from tornado_gate.wire.openai_realtime.translator import Translator, parse_client

__all__ = [
    "BETA_PROTOCOL",
    "WIRE_FORMAT",
    "Session",
    "Translator",
    "TurnDetection",
    "audio_of",
    "check_client_event",
    "check_item",
    "check_session",
    "dialect_of",
    "dialect_of_session_update",
    "error_event",
    "item_to_beta",
    "item_to_current",
    "new_id",
    "parse_client",
    "peek_type",
    "response_to_beta",
    "response_to_current",
    "to_beta_client",
    "to_beta_server",
    "to_current_client",
    "to_current_server",
    "usage_of",
]
