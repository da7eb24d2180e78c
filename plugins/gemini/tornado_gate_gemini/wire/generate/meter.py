"""Reads usage and finish reason from verbatim responses without changing them. Pure.

Most chunks contain neither usage nor a finish reason: they are searched by regex, not parsed. Quotation marks inside a JSON
string are escaped, so text from the model cannot match a member name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tornado_gate.errors import GateError
from tornado_gate.types import Meter
from tornado_gate.wire.schemas import is_array_of_objects, wrong_format_error
from tornado_gate_gemini.wire.generate.errors import find_error
from tornado_gate_gemini.wire.generate.json_values import read_object, read_objects, read_string
from tornado_gate_gemini.wire.generate.names import convert_to_camel_case
from tornado_gate_gemini.wire.generate.usage import find_block_reason, parse_finish_reason, parse_usage

_METERED_CHUNK: Final = re.compile(
    rb'"(?:usage_?[mM]etadata|error|finish_?[rR]eason|prompt_?[fF]eedback)"\s*+:', re.ASCII
)


_IMAGE_TYPE: Final = re.compile(rb'"mime_?[tT]ype"\s*+:\s*+"image/', re.ASCII)


class GenerateStreamMeter:
    """The meter of one stream's chunks as JSON text. It sets usage, finish reason and the number of images on `meter`.

    `finished` is True after a finish reason; `error` is the error that ended the stream.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._calls_tools = False
        self.finished = False
        self.error: GateError | None = None

    def note(self, raw: bytes) -> None:
        """Read the text of one chunk."""
        self._calls_tools = self._calls_tools or b'"functionCall"' in raw
        if b'"inline' in raw:
            self._meter.add_images(len(_IMAGE_TYPE.findall(raw)))
        if _METERED_CHUNK.search(raw) is None:
            return
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return
        self.error = find_error(body)
        if self.error is None and isinstance(body, Mapping):
            self._note_body(convert_to_camel_case(body))

    def _note_body(self, body: Mapping[str, Any]) -> None:
        note_usage(self._meter, body)
        if reason := finish_of(body, self._calls_tools):
            self.finished = True
            self._meter.record_finish(reason)


_RESPONSE_MEMBERS = frozenset({"promptFeedback", "usageMetadata", "totalTokens"})
"""Members of a response without candidates: a blocked prompt, or a token count."""


def note_body(meter: Meter, body: Any) -> None:
    """Set usage, finish reason and the number of images of a whole response on `meter`.

    Raises the upstream's error, which may come with status 200, and UpstreamError for a body of another format.
    """
    if (error := find_error(body)) is not None:
        raise error
    if not isinstance(body, Mapping):
        raise wrong_format_error()
    body = convert_to_camel_case(body)
    if not is_array_of_objects(body.get("candidates", [] if _RESPONSE_MEMBERS & body.keys() else None)):
        raise wrong_format_error()
    note_usage(meter, body)
    meter.add_images(count_images(body))
    meter.record_finish(finish_of(body))


def count_images(body: Mapping[str, Any]) -> int:
    """The number of images in the candidates of a response."""
    contents = (read_object(candidate.get("content")) for candidate in read_objects(body.get("candidates")))
    parts = (part for content in contents for part in read_objects(content.get("parts")))
    return sum(str(read_object(part.get("inlineData")).get("mimeType")).startswith("image/") for part in parts)


def note_usage(meter: Meter, body: Mapping[str, Any]) -> None:
    """Set the usage of a body or chunk on `meter`, if it has any."""
    meter.record_usage(parse_usage(body.get("usageMetadata")))


def finish_of(body: Mapping[str, Any], calls_tools: bool = False) -> str:
    """The finish reason of the last candidate that has one, or of a blocked prompt, else ""."""
    for candidate in reversed(read_objects(body.get("candidates"))):
        if raw := read_string(candidate.get("finishReason")):
            parts = read_objects(read_object(candidate.get("content")).get("parts"))
            return parse_finish_reason(raw, calls_tools or any("functionCall" in part for part in parts))
    return "content_filter" if find_block_reason(body) else ""
