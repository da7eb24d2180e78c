"""OpenAI's realtime: what is on the wire of a conversation, in both of its dialects. Pure.

The beta dialect is the one that the service's contract shows, the current one that of the vendor's SDKs today. A `Translator`
stands between a caller and an upstream that differ; `Session`, `check_client_event` and `audio_of` are for a provider that
answers itself.
"""

from tornado_gate.wire.openai_realtime.dialects import BETA_PROTOCOL, detect_dialect, detect_session_update_dialect
from tornado_gate.wire.openai_realtime.event_checks import check_client_event, check_session, read_audio
from tornado_gate.wire.openai_realtime.events import (
    translate_client_to_beta,
    translate_client_to_current,
    translate_server_to_beta,
    translate_server_to_current,
)
from tornado_gate.wire.openai_realtime.items import check_item
from tornado_gate.wire.openai_realtime.names import WIRE_FORMAT, make_id
from tornado_gate.wire.openai_realtime.reports import make_error_event, parse_usage
from tornado_gate.wire.openai_realtime.schemas import (
    convert_item_to_beta,
    convert_item_to_current,
    convert_response_to_beta,
    convert_response_to_current,
)
from tornado_gate.wire.openai_realtime.session import SessionConfig, TurnDetection
from tornado_gate.wire.openai_realtime.texts import peek_type
from tornado_gate.wire.openai_realtime.translator import EventTranslator, parse_client_event

__all__ = [
    "BETA_PROTOCOL",
    "WIRE_FORMAT",
    "EventTranslator",
    "SessionConfig",
    "TurnDetection",
    "check_client_event",
    "check_item",
    "check_session",
    "convert_item_to_beta",
    "convert_item_to_current",
    "convert_response_to_beta",
    "convert_response_to_current",
    "detect_dialect",
    "detect_session_update_dialect",
    "make_error_event",
    "make_id",
    "parse_client_event",
    "parse_usage",
    "peek_type",
    "read_audio",
    "translate_client_to_beta",
    "translate_client_to_current",
    "translate_server_to_beta",
    "translate_server_to_current",
]
