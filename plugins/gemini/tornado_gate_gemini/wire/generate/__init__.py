"""Gemini generateContent wire format: requests, responses and streams, in both directions. Pure; no validation.

The server half (`parse_request`, `render_response`, `render_stream`) is for the format plugin, the client half
(`render_request`, `render_count`, `parse_response`, `parse_stream`) for providers whose upstream uses this format.
`GenerateStreamMeter`, `ArraySplitter` and `note_body` read verbatim responses. `convert_to_camel_case` and
`restore_spelling` translate between the two spellings of member names.

Image and speech models use the same method: `parse_images`, `parse_speech`, `render_images`, `render_speech` and their
stream variants are the server half, the modules `image_client` and `speech_client` the client half.
"""

from tornado_gate.streams.json_array import ArraySplitter, iterate_elements
from tornado_gate_gemini.wire.generate.base64_slices import decode_in_slices, encode_in_slices
from tornado_gate_gemini.wire.generate.errors import find_error, get_status_name, parse_error
from tornado_gate_gemini.wire.generate.image_client import (
    choose_shape,
    drop_unsupported,
    parse_image_response,
    render_image_request,
)
from tornado_gate_gemini.wire.generate.json_values import CALL_SIGNATURE_START
from tornado_gate_gemini.wire.generate.media_requests import parse_images, parse_speech
from tornado_gate_gemini.wire.generate.media_responses import render_images, render_speech, stream_images, stream_speech
from tornado_gate_gemini.wire.generate.messages import SIGNATURE_DUMMY, sign_calls
from tornado_gate_gemini.wire.generate.meter import GenerateStreamMeter, note_body
from tornado_gate_gemini.wire.generate.model_features import MODERN_FEATURES, GeminiModelFeatures
from tornado_gate_gemini.wire.generate.names import (
    WIRE_FORMAT,
    convert_to_camel_case,
    may_have_snake_names,
    restore_spelling,
)
from tornado_gate_gemini.wire.generate.parts import guess_media_type, is_uploaded_file
from tornado_gate_gemini.wire.generate.request import parse_request, render_count, render_request
from tornado_gate_gemini.wire.generate.response import parse_response, render_response
from tornado_gate_gemini.wire.generate.speech_client import parse_speech_events, render_speech_request
from tornado_gate_gemini.wire.generate.stream_parser import parse_stream
from tornado_gate_gemini.wire.generate.stream_renderer import render_stream
from tornado_gate_gemini.wire.generate.usage import parse_finish_reason, parse_usage, render_finish_reason, render_usage

__all__ = [
    "CALL_SIGNATURE_START",
    "MODERN_FEATURES",
    "SIGNATURE_DUMMY",
    "WIRE_FORMAT",
    "ArraySplitter",
    "GeminiModelFeatures",
    "GenerateStreamMeter",
    "choose_shape",
    "convert_to_camel_case",
    "decode_in_slices",
    "drop_unsupported",
    "encode_in_slices",
    "find_error",
    "get_status_name",
    "guess_media_type",
    "is_uploaded_file",
    "iterate_elements",
    "may_have_snake_names",
    "note_body",
    "parse_error",
    "parse_finish_reason",
    "parse_image_response",
    "parse_images",
    "parse_request",
    "parse_response",
    "parse_speech",
    "parse_speech_events",
    "parse_stream",
    "parse_usage",
    "render_count",
    "render_finish_reason",
    "render_image_request",
    "render_images",
    "render_request",
    "render_response",
    "render_speech",
    "render_speech_request",
    "render_stream",
    "render_usage",
    "restore_spelling",
    "sign_calls",
    "stream_images",
    "stream_speech",
]
