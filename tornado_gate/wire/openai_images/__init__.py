"""OpenAI's pictures on the wire: both halves of generations and edits, and the table of the families of models.

Nothing that a caller must be told is checked here but what a picture is. Pictures are bytes in the vocabulary and base64
on the wire, which is made and read in slices: see `codec`.
"""

from tornado_gate.wire.openai_images.base64_slices import decode, encode
from tornado_gate.wire.openai_images.edit_request import (
    EDITS,
    MemoryFile,
    Renamed,
    parse_edit,
    pictures_in,
    render_edit,
)
from tornado_gate.wire.openai_images.families import (
    FAMILIES,
    NO_FAMILY,
    Family,
    family_named,
    family_of,
    owners,
    uses_family_three,
)
from tornado_gate.wire.openai_images.request import WIRE_FORMAT, is_true, parse_request, render_request
from tornado_gate.wire.openai_images.response import (
    Fetch,
    Place,
    format_of,
    media_type_of,
    parse_response,
    render_response,
)
from tornado_gate.wire.openai_images.streams import What, failure_of, parse_events, render_events
from tornado_gate.wire.openai_images.usage import added, parse_usage, render_usage

__all__ = [
    "EDITS",
    "FAMILIES",
    "NO_FAMILY",
    "WIRE_FORMAT",
    "Family",
    "Fetch",
    "MemoryFile",
    "Place",
    "Renamed",
    "What",
    "added",
    "decode",
    "encode",
    "failure_of",
    "family_named",
    "family_of",
    "format_of",
    "is_true",
    "media_type_of",
    "owners",
    "parse_edit",
    "parse_events",
    "parse_request",
    "parse_response",
    "parse_usage",
    "pictures_in",
    "render_edit",
    "render_events",
    "render_request",
    "render_response",
    "render_usage",
    "uses_family_three",
]
