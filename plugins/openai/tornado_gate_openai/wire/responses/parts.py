"""Convert the content parts of a message to the common types and back. No I/O.

Unknown members of a part are kept in its `extra`, except members that are null or an empty array. Log probabilities of texts in
earlier turns are dropped. A part of an unknown type or shape becomes a `VendorPart`.

Source: openai-python 3.52, types/responses/response_input_*_param.py and response_output_*_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Audio, Data, File, FileReference, Image, Link, Part, Refusal, Source, Text, VendorPart
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat import parts as chat_parts
from tornado_gate_openai.wire.chat.parts import add_extra, drop_none

WIRE_FORMAT: Final = formats.OPENAI_RESPONSES
SUMMARY_PREFIX: Final = "tornado-gate.summary.1."
"""The start of ``encrypted_content`` of the gateway's compaction items; base64 of JSON with the summary follows."""

_TEXT_TYPES: Final = ("input_text", "output_text", "text")  # "text" is defined by the service's contract


def select_unknown_non_null(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Return the members of `value` whose names are not in `known` and that are neither null nor an empty array."""
    return {name: member for name, member in value.items() if name not in known and member is not None and member != []}


def parse_content(content: Any) -> tuple[Part, ...]:
    """Return the parts of a content that is a string, an array of part objects, or null."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(parse_part(value) for value in content)


def parse_part(value: Mapping[str, Any]) -> Part:
    """Return the part for one part object."""
    match value:
        case {"type": kind, "text": str(text)} if kind in _TEXT_TYPES:
            return Text(text=text, extra=select_unknown_non_null(value, "type", "text", "logprobs"))
        case {"type": "refusal", "refusal": str(text)}:
            return Refusal(text=text, extra=select_unknown_non_null(value, "type", "refusal"))
        case {"type": "input_image"}:
            return _parse_image(value)
        case {"type": "input_file"}:
            return _parse_file(value)
        case {"type": "input_audio", "input_audio": {"data": str(), "format": str()}}:
            part = chat_parts.parse_part(value)  # the only part that is the same in chat
            return part if isinstance(part, Audio) else _parse_vendor_part(value)
        case _:
            return _parse_vendor_part(value)


def _parse_vendor_part(value: Mapping[str, Any]) -> VendorPart:
    return VendorPart(wire_format=WIRE_FORMAT, value=value)


def _parse_image(value: Mapping[str, Any]) -> Part:
    url, file_id, detail = value.get("image_url"), value.get("file_id"), value.get("detail")
    if isinstance(url, str):
        return Image(
            source=_parse_source(url),
            detail=detail,
            extra=select_unknown_non_null(value, "type", "image_url", "detail"),
        )
    if isinstance(file_id, str):
        return Image(
            source=FileReference(id=file_id),
            detail=detail,
            extra=select_unknown_non_null(value, "type", "file_id", "detail"),
        )
    return _parse_vendor_part(value)


def _parse_source(url: str) -> Source:
    image = chat_parts.parse_part({"type": "image_url", "image_url": {"url": url}})
    return image.source if isinstance(image, Image) else Link(url=url)


def _parse_file(value: Mapping[str, Any]) -> Part:
    name = value.get("filename")
    match value:
        case {"file_data": str(text)}:
            file = chat_parts.parse_part({"type": "file", "file": {"file_data": text}})
            source: Source = file.source if isinstance(file, File) else Data(media_type="", base64=text)
            return File(source=source, name=name, extra=select_unknown_non_null(value, "type", "file_data", "filename"))
        case {"file_id": str(file_id)}:
            source = FileReference(id=file_id)
            return File(source=source, name=name, extra=select_unknown_non_null(value, "type", "file_id", "filename"))
        case {"file_url": str(url)}:
            return File(
                source=Link(url=url), name=name, extra=select_unknown_non_null(value, "type", "file_url", "filename")
            )
        case _:
            return _parse_vendor_part(value)


def render_part(part: Part, own: bool, *, answered: bool = False, stored_here: bool = False) -> dict[str, Any] | None:
    """Return one part object, or None if this format does not support the part there.

    `own` is True if the part came in this format; only then `extra` and unknown part types are rendered. `answered` is True for
    parts of assistant messages, which can only be text and refusals. `stored_here` is True if file ids belong to this vendor;
    ids of another vendor are not rendered.
    """
    if isinstance(part, Image | File) and isinstance(part.source, FileReference) and not (own or stored_here):
        return None
    value = _render_answered(part) if answered else _render_asked(part, own)
    if value is None and own and isinstance(part, VendorPart) and part.wire_format == WIRE_FORMAT:
        return dict(part.value)
    if value is None or not own or isinstance(part, VendorPart):
        return value
    return add_extra(value, part.extra, inside=value["type"])


def _render_answered(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text, extra=extra):
            return {"type": "output_text", "text": text, "annotations": extra.get("annotations", [])}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case _:
            return None


def _render_asked(part: Part, own: bool) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image(source=FileReference(id=file_id), detail=detail):
            return {"type": "input_image", "file_id": file_id} | drop_none(detail=detail)
        case Image(detail=detail):
            return {"type": "input_image", "image_url": _render_as_chat(part)["url"]} | drop_none(detail=detail)
        case File(source=FileReference(id=file_id), name=name):
            return {"type": "input_file", "file_id": file_id} | drop_none(filename=name if own else None)
        case File(source=Link(url=url), name=name):
            return {"type": "input_file", "file_url": url} | drop_none(filename=name if own else None)
        case File(source=Data() as source, name=name):
            name = name if own else name or chat_parts.make_file_name(source)
            return {"type": "input_file", "file_data": _render_as_chat(part)["file_data"]} | drop_none(filename=name)
        case Audio(source=Data()):
            return {"type": "input_audio", "input_audio": _render_as_chat(part)}
        case _:
            return None


def _render_as_chat(part: Image | File | Audio) -> dict[str, Any]:
    """Return the object inside the chat format's part for `part`; its data has the same form in both formats."""
    value = chat_parts.render_part(part, own=False)
    assert value is not None, "the chat format supports every image, file and audio part with data or a URL"
    inner: dict[str, Any] = value[value["type"]]
    return inner
