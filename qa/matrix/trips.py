"""The result of a translation: the upstream request, or the answer of the embedded provider."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from qa.matrix.fields import FETCHED, LINK, PDF, PICTURES, Attached
from tornado_gate.codec.multipart import FormBody, FormReader, convert_fields_to_json
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Request, Upload, UpstreamRequest, Usage, replace
from tornado_gate_local.operations.work import OperationWork
from tornado_gate_local.workers import WorkerPool

_MARK: Final = re.compile(r"mark-[a-z][a-z0-9.-]*[a-z0-9]|bWFyay1[A-Za-z0-9+/=]+")
_SLOW: Final = ("make_image", "edit_image", "make_speech")
"""Functions that are not called: their orders are compared instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """One body after its translation. `sent` is comparable; `text` is the upstream request, "" for the embedded provider.

    `counted` is the usage; `forwarded` says that the verbatim lane was used.
    """

    sent: Any = None
    counted: Any = None
    text: str = ""
    body: Any = None
    losses: tuple[str, ...] = ()
    request: Request | None = None
    error: GateError | None = None
    forwarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemory:
    """An `Upload` whose bytes are in memory."""

    field: str
    filename: str
    media_type: str
    data: bytes = dataclasses.field(repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    async def read(self, size: int = -1) -> bytes:
        return self.data if size < 0 else self.data[:size]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


class Shelf:
    """An implementation of `call.fetcher` with one image, at LINK."""

    async def fetch(self, url: str, *, kinds: Collection[str], param: str) -> Any:
        assert url == LINK, f"'{param}' is fetched from {url}, not from {LINK}"
        return SimpleNamespace(media_type="image/png", data=base64.b64decode(FETCHED))

    async def read_own(self, url: str, *, kinds: Collection[str], param: str) -> None:
        return None

    def open(
        self, url: str, *, kinds: Collection[str], most_bytes: int | None = None, allow_host: str = ""
    ) -> AbstractAsyncContextManager[Any]:
        raise AssertionError(f"no request is sent here, so {url} cannot come from an upstream")


def uploads(body: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Upload, ...]]:
    """The text fields and the files of a form; a field with several files is named with ``[]``, as clients do."""
    fields: dict[str, Any] = {}
    files: list[Upload] = []
    for name, value in body.items():
        several = value if isinstance(value, list) else [value]
        if not any(isinstance(one, Attached) for one in several):
            fields[name] = value
            continue
        label = f"{name}[]" if isinstance(value, list) else name
        files += [
            InMemory(field=label, filename=one.filename, media_type=one.media_type, data=one.data) for one in several
        ]
    return fields, tuple(files)


async def trip_of(call: Call, request: Request, outgoing: UpstreamRequest, *, forwarded: bool) -> Trip:
    """The trip of an upstream request."""
    losses = tuple(call.losses)
    if not outgoing.url:  # the embedded provider, which has no upstream
        sent, counted = await _made(outgoing.context)
        return Trip(sent=sent, counted=counted, losses=tuple(call.losses), request=request)
    if isinstance(outgoing.body, FormBody):
        raw = b"".join([chunk async for chunk in outgoing.body.chunks()])
        body = await _form(outgoing.body.content_type, raw)
        text = raw.decode("latin-1")
    else:
        text = outgoing.body.decode() if isinstance(outgoing.body, bytes) else json.dumps(outgoing.json)
        body = json.loads(text)
    sent = (outgoing.url, body)
    return Trip(sent=sent, text=text, body=body, losses=losses, request=request, forwarded=forwarded)


async def _form(content_type: str, raw: bytes) -> dict[str, Any]:
    """A form as the gateway parses it; files are the values of their fields."""
    reader = FormReader(content_type, Path(tempfile.gettempdir()))
    try:
        await reader.feed(raw)
        await reader.finish()
        body = convert_fields_to_json(reader.fields)
        for file in reader.files:
            one = Attached(filename=file.filename, media_type=file.media_type, data=await file.read())
            if file.field.endswith("[]"):
                body.setdefault(file.field.removesuffix("[]"), []).append(one)
            else:
                body[file.field] = one
    finally:
        reader.close()
    return body


async def _made(plan: Any) -> tuple[Any, Any]:
    """The comparable result of the embedded provider, and its usage: a chat's answer, or the orders of its media functions."""
    if not isinstance(plan, OperationWork):
        whole = replace(plan.result, id=None, created=None)
        return (replace(whole, usage=Usage()), plan.streamed), whole.usage
    orders: list[Any] = []

    async def run(_: WorkerPool, function: Callable[..., Any], *args: Any) -> Any:
        if function.__name__ not in _SLOW:
            return function(*args)
        orders.append((function.__name__, args))
        return SimpleNamespace(data=bytes(100), media_type="", width=1, height=1, transparent=False, seconds=1.0)

    with mock.patch.object(WorkerPool, "run", run):
        events = [event async for event in plan.events()]
    usage = [getattr(event, "usage", None) for event in events]
    return (orders, [_timeless(event) for event in events]), usage


def _timeless(event: Any) -> Any:
    """An event without ids, times and usage."""
    names = set(event.__struct_fields__) & {"id", "created", "usage"}
    return replace(event, **dict.fromkeys(names)) if names else event


def _readable(value: Any) -> str:
    """For json.dumps: a file as the base64 of its bytes."""
    assert isinstance(value, Attached)
    return base64.b64encode(value.data).decode()


def marks(value: Any) -> list[str]:
    """The marks of a value that must occur in the upstream request."""
    text = json.dumps(value, default=_readable)
    known = [known for known in (*PICTURES, PDF) if known in text]
    return [mark for mark in _MARK.findall(text) if not any(mark in one for one in known)] + known


def arrived(mark: str, text: str) -> bool:
    """Whether `text` has a mark as it is, in base64 or decoded from base64; or the image at its URL."""
    forms = [mark, base64.b64encode(mark.encode()).decode()]
    if mark.startswith("bWFyay1") or mark in PICTURES:
        forms.append(base64.b64decode(mark).decode("latin-1"))
    if LINK.endswith(mark):
        forms += [FETCHED, base64.b64decode(FETCHED).decode("latin-1")]
    return any(form in text for form in forms)


@contextmanager
def no_chance() -> Iterator[None]:
    """Make the random ids of the embedded provider constant."""
    with mock.patch("secrets.token_hex", lambda length=32: "0" * 2 * length):
        yield
