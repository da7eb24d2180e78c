"""Convert the content parts of a message to the common types and back. No I/O.

Unknown members of a part are kept in its `extra`; unknown members of the object inside a part (``image_url``,
``input_audio``, ``file``) in `extra` under that object's name. A part of an unknown type or shape becomes a `VendorPart`.

Source: openai-python 3.52, types/chat/chat_completion_content_part_*.py.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tornado_gate.codec.media_types import get_extension
from tornado_gate.codec.text_files import DataUrl, UnreadableFile, check_source, parse_data_url
from tornado_gate.types import Audio, Data, File, FileReference, Image, Link, Part, Refusal, Source, Text, VendorPart
from tornado_gate.types.media_type import media_type as without_parameters

WIRE_FORMAT = "openai-chat"

_MEDIA_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav", "pcm16": "audio/pcm"}
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav", "audio/pcm": "pcm16"}


def select_unknown(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Return the members of `value` whose names are not in `known`."""
    if not value.keys() - known:
        return {}
    return {name: member for name, member in value.items() if name not in known}


def select_unknown_members(
    value: Mapping[str, Any], *known: str, inside: str, inner: tuple[str, ...]
) -> dict[str, Any]:
    """Return the unknown members of `value`, with the unknown members of the object ``value[inside]`` under its name, for
    `extra`.
    """
    extra = select_unknown(value, *known, inside)
    if deeper := select_unknown(value[inside], *inner):
        extra[inside] = deeper
    return extra


def add_extra(value: dict[str, Any], extra: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Add `extra`, as returned by `select_unknown_members`, to `value` and return it. Members of `value` take precedence."""
    for name, member in extra.items():
        if name == inside and isinstance(member, Mapping):
            value[name] = {**member, **value.get(name, {})}
        else:
            value.setdefault(name, member)
    return value


def drop_none(**members: Any) -> dict[str, Any]:
    """Return the members that are not None, in order."""
    return {name: member for name, member in members.items() if member is not None}


def parse_parts(content: Any) -> tuple[Part, ...]:
    """Return the parts of a content that is a string, an array of part objects, or null."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(parse_part(value) for value in content)


def parse_part(value: Mapping[str, Any]) -> Part:
    """Return the part for one part object."""
    inner: Any = value.get(str(value.get("type")))
    match value.get("type"), inner:
        case "text", str(text):
            return Text(text=text, extra=select_unknown(value, "type", "text"))
        case "refusal", str(text):
            return Refusal(text=text, extra=select_unknown(value, "type", "refusal"))
        case "image_url" | "input_audio" | "file" as kind, dict():
            return _parse_medium(kind, value, inner) or VendorPart(wire_format=WIRE_FORMAT, value=value)
        case _:
            return VendorPart(wire_format=WIRE_FORMAT, value=value)


def _parse_medium(kind: str, value: Mapping[str, Any], inner: Mapping[str, Any]) -> Part | None:
    match kind, inner:
        case "image_url", {"url": str(url)}:
            extra = select_unknown_members(value, "type", inside="image_url", inner=("url", "detail"))
            return Image(source=_parse_url(url), detail=inner.get("detail"), extra=extra)
        case "input_audio", {"data": str(sound), "format": str(name)}:
            extra = select_unknown_members(value, "type", inside="input_audio", inner=("data", "format"))
            return Audio(source=Data(media_type=_MEDIA_TYPES.get(name, f"audio/{name}"), base64=sound), extra=extra)
        case "file", {"file_data": str(text)}:
            extra = select_unknown_members(value, "type", inside="file", inner=("file_data", "filename"))
            return File(source=_parse_file_data(text), name=inner.get("filename"), extra=extra)
        case "file", {"file_id": str(file_id)}:
            extra = select_unknown_members(value, "type", inside="file", inner=("file_id", "filename"))
            return File(source=FileReference(id=file_id), name=inner.get("filename"), extra=extra)
    return None


def _parse_url(url: str) -> Source:
    return _parse_data(url) or Link(url=url)


def _parse_file_data(text: str) -> Data:
    """Parse ``file_data``, documented as plain base64 (without media type) but in practice often a data URL."""
    data = _parse_data(text)
    if data is None:
        check_source("", text)
        return Data(media_type="", base64=text)
    return data


def _parse_data(text: str) -> Data | None:
    """The file in a data URL; None for another string. Raises UnreadableFile."""
    try:
        url = parse_data_url(text)
        if url is None:
            return None
        if url.is_base64 and url.data.find("%") < 0:
            check_source(url.declared, url.data)
            return Data(media_type=url.declared, base64=url.data)
        return _encode(url)
    except UnreadableFile as fault:
        raise UnreadableFile(fault.reason, text) from None


def _encode(url: DataUrl) -> Data:
    """The file in a data URL with percent-encoded characters. Raises UnreadableFile."""
    encoded = base64.b64encode(url.decode()).decode()
    declared = url.declared or ("" if url.is_base64 else "text/plain")  # RFC 2397: the default
    check_source(declared, encoded)
    return Data(media_type=declared, base64=encoded)


def parse_image(value: Any) -> Image | None:
    """Return the image of an ``image_url`` part in a response (OpenRouter's extension), or None for any other value."""
    try:
        part = parse_part(value) if isinstance(value, dict) else None
    except UnreadableFile:
        return None
    return part if isinstance(part, Image) else None


def render_part(part: Part, own: bool, stored_here: bool = False) -> dict[str, Any] | None:
    """Return one part object, or None if this format does not support the part.

    `own` is True if the part came in this format; only then `extra` and unknown part types are rendered. `stored_here` is True
    if file ids belong to this vendor; ids of another vendor are not rendered.
    """
    if isinstance(part, File) and isinstance(part.source, FileReference) and not (own or stored_here):
        return None
    value = _render_part(part, own)
    if value is None or not own or isinstance(part, VendorPart):
        return value
    return add_extra(value, part.extra, inside=value["type"])


def _render_part(part: Part, own: bool) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case Image() | Audio() | File():
            return _render_medium(part, own)
        case VendorPart(wire_format=wire_format, value=value) if own and wire_format == WIRE_FORMAT:
            return dict(value)
        case _:
            return None


def _render_medium(part: Image | Audio | File, own: bool) -> dict[str, Any] | None:
    match part:
        case Image(source=Data() | Link() as source, detail=detail):
            return {"type": "image_url", "image_url": drop_none(url=_render_url(source), detail=detail)}
        case Audio(source=Data(media_type=media_type, base64=sound)):
            return {"type": "input_audio", "input_audio": {"data": sound, "format": _get_audio_format(media_type)}}
        case File(source=Data() as source, name=name):
            file_data = _render_url(source) if source.media_type else source.base64
            name = name if own else name or make_file_name(source)
            return {"type": "file", "file": drop_none(file_data=file_data, filename=name)}
        case File(source=FileReference(id=file_id), name=name):
            return {"type": "file", "file": drop_none(file_id=file_id, filename=name)}
    return None


def make_file_name(source: Data) -> str:
    """A name for a file without one: the vendor rejects file data without a name."""
    return f"file.{get_extension(source.media_type)}"


def _render_url(source: Data | Link) -> str:
    return source.url if isinstance(source, Link) else f"data:{source.media_type};base64,{source.base64}"


def _get_audio_format(media_type: str) -> str:
    return _AUDIO_FORMATS.get(media_type, without_parameters(media_type).removeprefix("audio/"))
