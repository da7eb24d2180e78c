"""A tape that is read from its file. `docs/deployment/observability.md` describes the file."""

from __future__ import annotations

import base64
import binascii
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tornado_gate.tapes.recorder import VERSION
from tornado_gate.types.value import State, Value, field

MOST_BYTES: Final = 512 * 1024 * 1024
"""A larger file is no tape: JSON makes at most six characters of a byte, and `tape_bytes` is at most 64 MiB."""


class TapeError(Exception):
    """A file is no tape, or a tape cannot be replayed. The message says why."""


class TapeRequest(Value, frozen=True, kw_only=True):
    """A recorded request. `path` has its query. Secret values of headers are ``***``. `unrecorded` is what is left out, or ""."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    unrecorded: str = ""


class Exchange(State):
    """A request to an upstream and its response. `at` is in seconds from the first byte of the caller's request.

    `status` is 0 if no head has arrived. `chunks` are pairs of time and bytes. `fault` is why the response is incomplete, or "".
    """

    request: TapeRequest
    at: float
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    fault: str = ""


class Tape(State):
    """A recorded request. `head` and `end` are the members of the first and the last line, `targets` those of the targets.

    `request` is None if the request was refused before a model got it. `body` has no keep-alives. `messages` of a realtime
    session are pairs of their kind and text, in the order in which they passed the gateway. `task` is the id of a video task, ""
    without one; `fetched` are the addresses of its files at other hosts.
    """

    head: Mapping[str, Any]
    request: TapeRequest | None = None
    targets: list[Mapping[str, Any]] = field(default_factory=list)
    exchanges: dict[int, Exchange] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)
    task: str = ""
    fetched: list[str] = field(default_factory=list)
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    end: Mapping[str, Any] = field(default_factory=dict)


def read_tape(path: Path) -> Tape:
    """Return the tape in a file. Raises TapeError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a device or a pipe may never end
            raise TapeError(f"{path} is no file.")
        if status.st_size > MOST_BYTES:
            raise TapeError(f"{path} is larger than {MOST_BYTES} bytes, so it is no tape.")
        return parse_tape(path.read_bytes().splitlines())
    except OSError as error:
        raise TapeError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:  # a name that no file can have
        raise TapeError("The name of the tape has a null character.") from None


def parse_tape(lines: Iterable[bytes]) -> Tape:
    """Return the tape of these lines. Lines of unknown kinds are skipped. Raises TapeError."""
    tape: Tape | None = None
    for number, text in enumerate(lines, 1):
        try:
            line = orjson.loads(text)
            if tape is None:
                tape = _begin_tape(line)
            else:
                _add_line(tape, line)
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
            raise TapeError(f"Line {number} is not a line of a tape.") from None
    if tape is None:
        raise TapeError("The file is empty, so it is no tape.")
    if not tape.end:
        raise TapeError("The tape has no line of the kind 'end', so its file is incomplete.")
    return tape


def _begin_tape(line: Mapping[str, Any]) -> Tape:
    if line["kind"] != "tape":
        raise ValueError
    if line["version"] != VERSION:
        raise TapeError(f"The tape has the version {line['version']}; this gateway reads version {VERSION}.")
    return Tape(head=line)


def _add_line(tape: Tape, line: Mapping[str, Any]) -> None:
    match line["kind"]:
        case "request":
            query = f"?{line['query']}" if line["query"] else ""
            tape.request = _read_request(line, line["path"] + query)
        case "target":
            tape.targets.append(line)
        case "upstream_request":
            tape.exchanges[line["exchange"]] = Exchange(request=_read_request(line, line["url"]), at=line["at"])
        case "upstream_head":
            exchange = tape.exchanges[line["exchange"]]
            exchange.status, exchange.headers = line["status"], line["headers"]
        case "upstream_chunk":
            tape.exchanges[line["exchange"]].chunks.append((line["at"], _read_data(line)))
        case "upstream_end":
            tape.exchanges[line["exchange"]].fault = line["fault"]
        case "caller_message" | "upstream_sent" | "upstream_message" | "answer_message" as kind:
            tape.messages.append((kind, line["text"]))
        case "task":
            tape.task = line["id"]
        case "fetched":
            tape.fetched.append(line["url"])
        case "answer_head":
            tape.status, tape.headers = line["status"], line["headers"]
        case "answer_chunk":
            tape.body += b"" if line.get("keep_alive") else _read_data(line)
        case "end":
            tape.end = line


def _read_request(line: Mapping[str, Any], path: str) -> TapeRequest:
    return TapeRequest(
        method=line["method"],
        path=path,
        headers=line["headers"],
        body=_read_data(line),
        unrecorded=line.get("unrecorded", ""),
    )


def _read_data(line: Mapping[str, Any]) -> bytes:
    if "base64" in line:
        return base64.b64decode(line["base64"], validate=True)
    text: str = line.get("text", "")
    return text.encode("utf-8")
