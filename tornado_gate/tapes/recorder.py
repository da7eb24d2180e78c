"""The lines of a tape while its request runs. `docs/deployment/observability.md` describes the file.

The lines stay in memory until the request has ended, because only then it is known what guards have replaced.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson

from tornado_gate._version import __version__
from tornado_gate.codec.secret_words import MASK, is_secret_name, is_secret_value, mask_address
from tornado_gate.telemetry.redaction import SecretMask
from tornado_gate.types import WireRequest
from tornado_gate.types.value import Value

VERSION: Final = 1
LINE_BYTES: Final = 200
"""The size that each line counts in addition to its data."""
ANSWERS: Final = frozenset({"upstream_chunk", "answer_chunk"})
"""Lines with parts of responses. Their data are withheld if a guard has replaced a part."""
MESSAGES: Final = frozenset({"caller_message", "upstream_sent", "upstream_message", "answer_message"})
"""Lines with messages of a session, in the order in which they pass the gateway."""
_MANY: Final = ANSWERS | MESSAGES
"""Lines that a tape without room leaves out."""
_EXCHANGES: Final = frozenset(
    {"target", "upstream_request", "upstream_head", "upstream_end", "upstream_close", "fetched"}
)
"""Lines that a tape leaves out when it has EXCHANGE_BYTES more than it may: a video task asks its upstream for hours."""
EXCHANGE_BYTES: Final = 64 * 1024


class Line(Value, frozen=True):
    """A line of a tape. `data` are bytes of the wire, in which `mask` hides secrets."""

    members: Mapping[str, Any]
    data: bytes | None = None
    mask: SecretMask | None = None


class FormCopy(NamedTuple):
    """The beginning of the body of a form, as it may be sent again; `size` in bytes is that of the whole body."""

    content_type: str
    data: bytes
    size: int


class Recorder:
    """The lines of one request. Data beyond `most_bytes` are counted and left out, further exchanges a little later.

    `started` is the time of the request's first byte on the monotonic clock. `has_request`: the caller's request is recorded.
    `exchanges` is the number of requests to upstreams.
    """

    def __init__(self, identity: str, head: Mapping[str, Any], started: float, most_bytes: int) -> None:
        self.id = identity
        self.started = started
        self.has_request = False
        self._most_bytes = most_bytes
        self._lines: list[Line] = []
        self.exchanges = 0
        self._size = self._omitted = 0
        first = {"version": VERSION, "id": identity, "time": round(time.time(), 3), "gateway": __version__}
        self.note("tape", **first, **head)

    def note(self, kind: str, **members: Any) -> None:
        """Add a line without data."""
        self._add(Line({"kind": kind, "at": self.read_clock(), **members}), len(_dump(members)))

    @property
    def room(self) -> int:
        """Return the number of bytes that the next line may have."""
        return max(0, self._most_bytes - self._size - LINE_BYTES)

    def note_data(
        self, kind: str, data: bytes, mask: SecretMask | None = None, *, size: int | None = None, **members: Any
    ) -> None:
        """Add a line with bytes of the wire, as far as there is room for them. `size`: their number, if `data` is a beginning."""
        kept = data[: self.room] if len(data) > self.room else data
        cut_bytes = (len(data) if size is None else size) - len(kept)
        self._omitted += cut_bytes
        if not kept and data and kind in _MANY:
            return
        cut = {"cut_bytes": cut_bytes} if cut_bytes else {}
        line = Line({"kind": kind, "at": self.read_clock(), **members, **cut}, bytes(kept), mask)
        self._add(line, len(kept))

    def note_request(self, wire: WireRequest, form: FormCopy | None = None) -> None:
        """Add the caller's request as the guards have left it. Only its first call has an effect.

        `form` is the body of a form. Without it the line has the text fields of the form only.
        """
        if self.has_request:
            return
        self.has_request = True
        query = {name: MASK if _is_secret(name, value) else value for name, value in wire.query.items()}
        members: dict[str, Any] = {"method": wire.route.method, "path": wire.path, "query": urlencode(query)}
        headers, data, size = redact_headers(wire.headers, None), wire.raw, None
        if form is not None:
            headers["content-type"] = form.content_type
            data, size = form.data, form.size
        elif wire.form:
            members |= {"fields": dict(wire.json), "unrecorded": "the files of a form that guards have reviewed"}
        self.note_data("request", data, size=size, **members, headers=headers)

    def begin_exchange(self) -> int:
        """Return the number of the next request to an upstream, from 1."""
        self.exchanges += 1
        return self.exchanges

    def end(self, *, is_withheld: bool, **members: Any) -> bytes:
        """Return the file. `is_withheld`: it has only the sizes of what the upstream and the gateway have answered."""
        last = {"truncated": self._omitted > 0, "omitted_bytes": self._omitted, "withheld": is_withheld}
        lines = [_hide_answer(line) for line in self._lines] if is_withheld else _join_secrets(self._lines)
        lines.append(Line({"kind": "end", "at": self.read_clock(), **members, **last}))
        return b"".join([render_line(line) for line in lines])

    def read_clock(self) -> float:
        """Return the seconds since the first byte of the request."""
        return round(time.monotonic() - self.started, 6)

    def _add(self, line: Line, size: int) -> None:
        kind, excess = line.members["kind"], self._size - self._most_bytes
        if (excess > 0 and kind in _MANY) or (excess > EXCHANGE_BYTES and kind in _EXCHANGES):
            self._omitted += size
            return
        self._size += LINE_BYTES + size
        self._lines.append(line)


def render_line(line: Line) -> bytes:
    """Return a line of the file: a JSON object, whose data are in `text`, or in `base64` if they are not UTF-8."""
    data = line.data if line.data is None or line.mask is None else line.mask.mask_body(line.data)
    content: dict[str, str] = {}
    if data is not None:
        try:
            content = {"text": data.decode("utf-8")}
        except UnicodeDecodeError:
            content = {"base64": base64.b64encode(data).decode("ascii")}
    return _dump({**line.members, **content}) + b"\n"


def _dump(members: Mapping[str, Any]) -> bytes:
    """Return members as JSON. A header that is not UTF-8 has question marks in place of the other bytes."""
    try:
        return orjson.dumps(members, default=str)
    except TypeError:
        return json.dumps(members, default=str, ensure_ascii=False).encode("utf-8", "replace")


def _hide_answer(line: Line) -> Line:
    if line.members["kind"] not in ANSWERS or line.data is None:
        return line
    return Line({**line.members, "withheld_bytes": len(line.data)})


def _join_secrets(lines: list[Line]) -> list[Line]:
    """Return the lines, with the chunks of a response as one chunk if a secret may be divided between two of them."""
    chunks: dict[int, list[int]] = {}
    for index, line in enumerate(lines):
        if line.mask is not None and line.members["kind"] == "upstream_chunk":
            chunks.setdefault(line.members["exchange"], []).append(index)
    joined = dict[int, Line | None]()
    for indexes in chunks.values():
        mask, data = lines[indexes[-1]].mask, b"".join([lines[index].data or b"" for index in indexes])
        if mask is not None and mask.holds(mask.undo_escapes(data)):
            joined |= dict.fromkeys(indexes)
            joined[indexes[-1]] = Line(lines[indexes[-1]].members, data, mask)
    kept = [joined.get(index, line) for index, line in enumerate(lines)]
    return [line for line in kept if line is not None]


def redact_headers(headers: Mapping[str, str], mask: SecretMask | None) -> dict[str, str]:
    """Return the headers of a request. Values that are secret, or may be, become ``***``."""
    shown = headers if mask is None else mask.mask_headers(headers)
    return {name: MASK if _is_secret(name, value) else value for name, value in shown.items()}


def _is_secret(name: str, value: str) -> bool:
    """Return whether a header or a parameter may be a secret. The boundary of a form looks like one."""
    return is_secret_name(name) or (is_secret_value(value) and name.lower() != "content-type")


def redact_answer_headers(headers: Mapping[str, str], mask: SecretMask | None) -> dict[str, str]:
    """Return the headers of a response, without cookies and without the target's secrets."""
    shown = headers if mask is None else mask.mask_headers(headers)
    return {name: MASK if name.lower() == "set-cookie" else value for name, value in shown.items()}


def redact_url(url: str, mask: SecretMask | None) -> str:
    """Return an address without user, password, secret parameters and secrets of the target."""
    return mask_address(url if mask is None else mask.mask_text(url))
