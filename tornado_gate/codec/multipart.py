"""Forms (multipart/form-data): an incremental reader that writes files to disk, and an encoder that streams from disk.

All files of a form are stored in one unnamed temporary file, which is unlinked at creation, so that nothing remains after a
crash. The memory for a form is limited to WRITE_BYTES plus its text fields.

`FormBody` is public, for plugins. `form_parser` splits a form into parts.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from tornado_gate.codec.form_parser import FormParser, invalid_form_error
from tornado_gate.codec.header_parameters import parse_header_parameters
from tornado_gate.errors import InvalidField, TooLarge, Unavailable
from tornado_gate.types import Upload
from tornado_gate.types.media_type import media_type
from tornado_gate.types.value import State

MAX_FIELD_BYTES = 1024 * 1024
"""Limit for all text fields of a form together."""
WRITE_BYTES = 1024 * 1024
"""Buffered file bytes before a write to disk."""
READ_BYTES = 256 * 1024
SLICE_BYTES = 64 * 1024
"""Bytes parsed per step: a step takes 0.1 ms at most, for any content."""
MAX_TURN_SECONDS = 0.002
"""The parser yields to the event loop after this time."""
MAX_BYTES_CLOSED_IN_LOOP = 64 * 1024 * 1024
"""A larger file is closed in a thread, because freeing its disk space takes 5 ms or more."""

_BOUNDARY = re.compile(rb"[ -~]{1,70}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"\\]")
_QUOTED = re.compile(rb'"(?:\\.|[^"\\])*(?:"|\\?\Z)', re.DOTALL)
_EXTENDED_NAME = re.compile(rb";\s*filename\*\s*=\s*([\w-]*)'[^']*'([^;\s]*)", re.IGNORECASE)
_PLAIN_ENCODINGS = (b"", b"binary", b"8bit", b"7bit")


class _Spool:
    """The unnamed temporary file of one form. All methods except `close` are called in threads.

    `close` may be called while a thread still reads or writes, after the caller has disconnected. Then the last thread closes the
    file. If `close` closed the descriptor immediately, the thread could use a descriptor that is another request's file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._size = 0
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    def append(self, data: bytes | bytearray) -> None:
        """Append `data`. Raises Unavailable if the write fails."""
        try:
            with self._use_descriptor(make=True) as descriptor:
                view = memoryview(data)
                while view:
                    written = os.pwrite(descriptor, view, self._size)
                    self._size += written
                    view = view[written:]
        except OSError as error:
            message = "The gateway could not write the uploaded file to its disk. Try again later."
            raise Unavailable(message, code="storage_unavailable") from error

    def read(self, position: int, size: int) -> bytes:
        """Return exactly `size` bytes from `position`. Raises Unavailable if the read fails."""
        try:
            with self._use_descriptor(make=False) as descriptor:
                data = os.pread(descriptor, size, position)
            if len(data) != size:
                raise OSError("the temporary file is shorter than the data written to it")
        except OSError as error:
            message = "The gateway could not read the uploaded file from its disk. Send the request again."
            raise Unavailable(message, code="storage_unavailable") from error
        return data

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._close_unused()

    @contextmanager
    def _use_descriptor(self, *, make: bool) -> Iterator[int]:
        with self._lock:
            if self._closed or (self._file is None and not make):
                raise OSError("the form is closed")
            if self._file is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # open until close()
            self._users += 1
            descriptor = self._file.fileno()
        try:
            yield descriptor
        finally:
            with self._lock:
                self._users -= 1
                if self._closed:
                    self._close_unused()

    def _close_unused(self) -> None:
        if self._file is not None and not self._users:
            if self._size <= MAX_BYTES_CLOSED_IN_LOOP:
                self._file.close()
            else:
                threading.Thread(target=self._file.close).start()


class DiskFile(State, eq=False):
    """An `Upload`: `size` bytes of the form's temporary file, from `start` on. Unreadable after the form is closed.

    Reads use explicit offsets, so several readers can read at the same time.
    """

    field: str
    filename: str
    media_type: str
    file: _Spool
    size: int = 0
    start: int = 0

    hidden_fields = frozenset({"file"})

    async def read(self, size: int = -1) -> bytes:
        """Return the first `size` bytes, or all for -1. Raises Unavailable after the form is closed."""
        count = self.size if size < 0 else min(size, self.size)
        return await asyncio.to_thread(self.file.read, self.start, count) if count else b""

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the file in chunks of READ_BYTES; may be called again. Raises Unavailable after the form is closed."""
        for position in range(0, self.size, READ_BYTES):
            count = min(READ_BYTES, self.size - position)
            yield await asyncio.to_thread(self.file.read, self.start + position, count)


class FormReader:
    """An incremental reader of a form. `feed` waits for disk writes, which applies back-pressure to the sender.

    After `feed` has raised, only `close` may be called.
    """

    def __init__(self, content_type: str, folder: Path) -> None:
        """Create a reader. Raises RequestError for a content type without a usable boundary."""
        _, options = parse_header_parameters(content_type.encode("utf-8", "replace"))
        boundary = options.get(b"boundary", b"")
        if not _BOUNDARY.fullmatch(boundary):
            raise invalid_form_error(
                "The Content-Type header has no valid boundary parameter. A form needs one of 1 to 70 characters."
            )
        self.fields: list[tuple[str, str]] = []
        self.files: list[DiskFile] = []
        self._parser = FormParser(boundary, self)
        self._part: _Part
        self._field_bytes = self._file_bytes = 0
        self._spool = _Spool(folder)
        self._gathered = bytearray()

    async def feed(self, data: bytes) -> None:
        """Parse the next bytes. Raises RequestError for an invalid form, TooLarge for a form above the limits."""
        turn = time.monotonic()
        for start in range(0, len(data), SLICE_BYTES):
            self._parser.write(data[start : start + SLICE_BYTES])
            if len(self._gathered) >= WRITE_BYTES:
                await self._write()
            elif time.monotonic() - turn > MAX_TURN_SECONDS:
                await asyncio.sleep(0)
            else:
                continue
            turn = time.monotonic()

    async def finish(self) -> None:
        """Finish after the last byte of the body. Raises RequestError if the final boundary is missing."""
        if not self._parser.is_complete:
            raise invalid_form_error("The body ends before the form's final boundary. Send the complete form.")
        if self._gathered:
            await self._write()

    def close(self) -> None:
        """Free the buffer and the disk space."""
        self._gathered = bytearray()
        self._spool.close()

    async def _write(self) -> None:
        gathered, self._gathered = self._gathered, bytearray()
        await asyncio.to_thread(self._spool.append, gathered)

    # Called by the parser

    def on_part(self, headers: dict[bytes, bytes]) -> None:
        """Begin a part."""
        part = self._part = _Part(headers)
        if part.filename is not None:
            part.file = DiskFile(part.name, part.filename, part.media_type, self._spool, start=self._file_bytes)
            self.files.append(part.file)

    def on_data(self, data: memoryview) -> None:
        """Add content to the part."""
        part = self._part
        if part.file is not None:
            part.file.size += len(data)
            self._file_bytes += len(data)
            self._gathered += data
            return
        self._field_bytes += len(data)
        if self._field_bytes > MAX_FIELD_BYTES:
            raise TooLarge(
                f"The text fields of the form are too large; at most {MAX_FIELD_BYTES} bytes in total are allowed."
            )
        part.text += data

    def on_part_end(self) -> None:
        """End the part."""
        part = self._part
        if part.file is None:
            try:
                self.fields.append((part.name, part.text.decode("utf-8")))
            except UnicodeDecodeError:
                message = f"'{part.name}' is not UTF-8 text. If it is a file, send its part with a filename."
                raise InvalidField(part.name, message) from None


class _Part:
    """The part of the form that is being parsed. `filename` is None for a text field; `media_type` is as declared."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.file: DiskFile | None = None
        self.text = bytearray()
        self.name, self.filename, self.media_type = _describe(headers)


def _describe(headers: Mapping[bytes, bytes]) -> tuple[str, str | None, str]:
    """Return (field name, file name or None for a text field, declared media type) of a part with these headers."""
    raw = headers.get(b"content-disposition", b"")
    disposition, options = parse_header_parameters(raw)
    name = options.get(b"name")
    if disposition != b"form-data" or not name:
        raise invalid_form_error(
            "A part of the form has no valid Content-Disposition header. Send 'Content-Disposition: form-data; name=\"…\"'."
        )
    if headers.get(b"content-transfer-encoding", b"").lower() not in _PLAIN_ENCODINGS:
        raise invalid_form_error(
            "A part of the form has a Content-Transfer-Encoding, which is not supported. Send the part without encoding."
        )
    declared = media_type(headers.get(b"content-type", b"").decode("latin-1"))
    shown = options[b"filename"].decode("utf-8", "replace") if b"filename" in options else _parse_extended_name(raw)
    return name.decode("utf-8", "replace")[:255], None if shown is None else shown[:255], declared


def _parse_extended_name(disposition: bytes) -> str | None:
    """Return the file name of a header that has only ``filename*=UTF-8''…``, as urllib3 sent until 1.25. RFC 5987 3.2."""
    match = _EXTENDED_NAME.search(_QUOTED.sub(b'""', disposition))
    if match is None:
        return None
    return unquote_to_bytes(match[2]).decode("latin-1" if match[1].lower() == b"iso-8859-1" else "utf-8", "replace")


def convert_fields_to_json(fields: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the text fields of a form as a body: a name that occurs several times, or ends in ``[]``, is an array."""
    arrays: dict[str, list[str]] = {}
    marked: set[str] = set()
    for name, value in fields:
        plain = name.removesuffix("[]") or name
        if plain != name:
            marked.add(plain)
        arrays.setdefault(plain, []).append(value)
    return {name: values if name in marked or len(values) > 1 else values[0] for name, values in arrays.items()}


class FormBody:
    """A form to send: a `StreamedBody`; `content_type` is the value of its Content-Type header.

    `fields` may hold strings, numbers, booleans and arrays of them; None is omitted, an object is sent as JSON.
    """

    def __init__(self, fields: Mapping[str, Any], files: Sequence[Upload]) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._pieces: list[bytes | Upload] = []
        for name, value in fields.items():
            array = isinstance(value, list | tuple)
            label = f"{name}[]" if array else name
            for item in value if array else [value]:
                if item is not None:
                    self._pieces.append(
                        f"--{boundary}\r\n{_render_field_name(label)}\r\n\r\n{_format_field_value(item)}\r\n".encode()
                    )
        for file in files:
            head = f'{_render_field_name(file.field)}; filename="{_quote(file.filename)}"\r\n'
            media_type = file.media_type or "application/octet-stream"
            self._pieces.append(f"--{boundary}\r\n{head}Content-Type: {_UNSAFE.sub('', media_type)}\r\n\r\n".encode())
            self._pieces += [file, b"\r\n"]
        self._pieces.append(f"--{boundary}--\r\n".encode())

    @property
    def length(self) -> int:
        return sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in self._pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                async for chunk in piece.chunks():
                    yield chunk


def _format_field_value(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _render_field_name(name: str) -> str:
    return f'Content-Disposition: form-data; name="{_quote(name)}"'


def _quote(text: str) -> str:
    return _UNSAFE.sub("_", text)
