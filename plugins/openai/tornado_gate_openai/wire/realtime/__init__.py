"""OpenAI's realtime API: events of a session in both dialects. No I/O.

The service's contract defines the beta dialect; the vendor's SDKs use the current dialect. `EventTranslator` converts between
a caller and an upstream with different dialects; `SessionConfig`, `check_client_event` and `read_audio` are for a provider
that implements the server side itself.
"""

from tornado_gate_openai.wire.realtime.dialects import BETA_PROTOCOL, detect_dialect, detect_session_update_dialect
from tornado_gate_openai.wire.realtime.event_checks import check_client_event, check_session, read_audio
from tornado_gate_openai.wire.realtime.events import (
    translate_client_to_beta,
    translate_client_to_current,
    translate_server_to_beta,
    translate_server_to_current,
)
from tornado_gate_openai.wire.realtime.items import check_item
from tornado_gate_openai.wire.realtime.names import WIRE_FORMAT, make_id
from tornado_gate_openai.wire.realtime.reports import make_error_event, parse_usage
from tornado_gate_openai.wire.realtime.schemas import (
    convert_item_to_beta,
    convert_item_to_current,
    convert_response_to_beta,
    convert_response_to_current,
)
from tornado_gate_openai.wire.realtime.session import SessionConfig, TurnDetection
from tornado_gate_openai.wire.realtime.texts import peek_type
from tornado_gate_openai.wire.realtime.translator import EventTranslator, parse_client_event

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
