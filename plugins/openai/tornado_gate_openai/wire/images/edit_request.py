"""Edit requests: a form, or the equivalent JSON, to `ImageRequest`; and back to a form.

Source: openai-python 3.52, types/image_edit_params.py and image_input_reference_param.py.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.codec.media_types import get_extension
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch.pictures import check, parse_image_source, read_image
from tornado_gate.types import Call, Data, FileSource, ImageRequest, Link, Upload
from tornado_gate.types.value import Value
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.images.request import read_fields, render_shared_fields

EDITS: Final = formats.OPENAI_IMAGE_EDITS

_IMAGE_FIELD: Final = re.compile(r"image(\[\d*\])?")


class MemoryFile(Value, frozen=True, kw_only=True):
    """An `Upload` in memory."""

    field: str
    filename: str
    media_type: str
    data: bytes

    hidden_fields = frozenset({"data"})

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


class RenamedUpload(Value, frozen=True, kw_only=True):
    """An `Upload` under another field name, with the media type detected from its content."""

    of: Upload
    field: str
    media_type: str

    @property
    def filename(self) -> str:
        """The original name, or a generated one if it has no extension, which the vendor requires."""
        return self.of.filename if "." in self.of.filename else f"picture.{get_extension(self.media_type)}"

    @property
    def size(self) -> int:
        return self.of.size

    async def read(self, size: int = -1) -> bytes:
        return await self.of.read(size)

    def chunks(self) -> AsyncIterator[bytes]:
        return self.of.chunks()


def sort_files(files: Sequence[Upload]) -> tuple[list[Upload], list[Upload], list[Upload]]:
    """Return the files of a form in three lists: images to edit, masks, and others."""
    images = [file for file in files if _IMAGE_FIELD.fullmatch(file.field)]
    masks = [file for file in files if file.field == "mask"]
    return images, masks, [file for file in files if file not in images and file not in masks]


def parse_edit(body: Mapping[str, Any], files: Sequence[Upload] = ()) -> ImageRequest:
    """Return the common request for a validated body: the text fields of a form as JSON values, or JSON.

    In JSON, ``images`` are objects with ``image_url``; only the vendor can read a ``file_id``. Files in unknown form fields
    are kept in `extra`. Raises InvalidField for an image without data or a usable URL.
    """
    fields = read_fields(body)
    extra = fields["extra"]
    images, masks, others = sort_files(files)
    names: dict[str, str] = {"images": "image"}
    sources: list[FileSource] = list(images)
    mask: FileSource | None = masks[0] if masks else None
    if not images:
        names = {}
        sources = [_parse_reference(item, f"images.{index}") for index, item in enumerate(extra.pop("images", ()))]
        mask = _parse_reference(extra.pop("mask"), "mask") if "mask" in extra else mask
    extra |= {file.field: file for file in others}
    return ImageRequest(wire_format=EDITS, images=tuple(sources), mask=mask, names=names, **fields)


def _parse_reference(value: Mapping[str, Any], path: str) -> Data | Link:
    if value.get("image_url") is None:
        message = f"'{path}.file_id' is not supported by this model. Send '{path}.image_url' instead."
        raise InvalidField(f"{path}.file_id", message, code="unsupported_value")
    return parse_image_source(value["image_url"], f"{path}.image_url")


async def render_edit(call: Call, request: ImageRequest, *, answers_bytes: bool) -> FormBody:
    """Return the form of an edit request for an upstream; it always requests base64. Unsupported fields are dropped by name.

    `answers_bytes` is the same as in `render_request`. Images given by URL are fetched. Raises InvalidField for a file that
    is not an image.
    """
    body = render_shared_fields(call, request, EDITS, answers_bytes=answers_bytes)
    several = len(request.images) > 1
    files: list[Upload] = []
    for index, source in enumerate(request.images):
        param = f"{request.field_name('images')}.{index}" if several else request.field_name("images")
        param = request.names.get(f"images.{index}", param)
        files.append(await _make_upload(call, source, param, "image[]" if several else "image", f"image-{index + 1}"))
    if request.mask is not None:
        files.append(await _make_upload(call, request.mask, request.field_name("mask"), "mask", "mask"))
    files += [value for value in body.values() if hasattr(value, "chunks")]
    fields = {name: value for name, value in body.items() if not hasattr(value, "chunks")}
    return FormBody(dict(pair for name, value in fields.items() for pair in _iterate_form_fields(name, value)), files)


async def _make_upload(call: Call, source: FileSource, param: str, field_name: str, name: str) -> Upload:
    if isinstance(source, Data | Link):
        picture = await read_image(call, source, param)
        filename = f"{name}.{get_extension(picture.media_type)}"
        return MemoryFile(field=field_name, filename=filename, media_type=picture.media_type, data=picture.data)
    looked = await check(source, param)
    assert looked is not None, "`check` returns None only for URLs"
    return RenamedUpload(of=source, field=field_name, media_type=looked[0])


def _iterate_form_fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the form fields (name, value) of a JSON value; members of an object are named like ``svg[model]``."""
    match value:
        case Mapping():
            for member, inner in value.items():
                yield from _iterate_form_fields(f"{name}[{member}]", inner)
        case bool():
            yield name, "true" if value else "false"
        case list() | tuple():
            yield name, [str(item) for item in value]
        case _:
            yield name, str(value)
