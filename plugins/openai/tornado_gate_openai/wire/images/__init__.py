"""OpenAI's images API: parsing and rendering of generations and edits, and the table of model families.

Only the image files are validated here; other validation is the format plugin's task. Images are bytes in the common types
and base64 on the wire, encoded and decoded in slices: see `base64_slices`.
"""

from tornado_gate_openai.wire.images.base64_slices import decode, encode
from tornado_gate_openai.wire.images.edit_request import (
    EDITS,
    MemoryFile,
    RenamedUpload,
    parse_edit,
    render_edit,
    sort_files,
)
from tornado_gate_openai.wire.images.families import (
    FAMILIES,
    NO_FAMILY,
    ModelFamily,
    describe_owners,
    find_family,
    find_family_by_model,
    uses_family_three,
)
from tornado_gate_openai.wire.images.request import WIRE_FORMAT, is_true, parse_request, render_request
from tornado_gate_openai.wire.images.response import (
    ImageFetcher,
    ImageSaver,
    find_media_type,
    get_format,
    parse_response,
    render_response,
)
from tornado_gate_openai.wire.images.streams import StreamKind, find_frame_error, parse_stream, render_stream
from tornado_gate_openai.wire.images.usage import parse_usage, render_usage, sum_usages

__all__ = [
    "EDITS",
    "FAMILIES",
    "NO_FAMILY",
    "WIRE_FORMAT",
    "ImageFetcher",
    "ImageSaver",
    "MemoryFile",
    "ModelFamily",
    "RenamedUpload",
    "StreamKind",
    "decode",
    "describe_owners",
    "encode",
    "find_family",
    "find_family_by_model",
    "find_frame_error",
    "find_media_type",
    "get_format",
    "is_true",
    "parse_edit",
    "parse_request",
    "parse_response",
    "parse_stream",
    "parse_usage",
    "render_edit",
    "render_request",
    "render_response",
    "render_stream",
    "render_usage",
    "sort_files",
    "sum_usages",
    "uses_family_three",
]
