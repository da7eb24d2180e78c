"""A small HTTP server for an imitation of a vendor's API, in threads of the test process; the gateway is another process.

The imitation is a function from a request to an answer. It is called in the thread of its connection, one call at a time.
Every request is recorded with its answer's status, so that a test sees what arrived and what was refused.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A received request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request; each of `chunks` is written and flushed by itself."""

    status: int
    chunks: Iterable[bytes]
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class Record:
    """A request with the status of its answer, and its body when the request was refused."""

    request: Request
    status: int
    refusal: str = ""


Imitation = Callable[[Request], Answer]


def answer_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, [json.dumps(value).encode()], {"content-type": "application/json", **(headers or {})})


def answer_events(chunks: Iterable[bytes], headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(200, chunks, {"content-type": "text/event-stream; charset=utf-8", **(headers or {})})


class ImitationServer:
    """A running server. `url` has no path; `records` are all requests since `reset`, oldest first."""

    def __init__(self, imitation: Imitation) -> None:
        self.imitation = imitation
        self.records: list[Record] = []
        self.turn = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def reset(self) -> None:
        with self.turn:
            self.records.clear()

    def answer(self, request: Request) -> Answer:
        """The imitation's answer, recorded."""
        with self.turn:
            answer = self.imitation(request)
            chunks = list(answer.chunks)
            refusal = b"".join(chunks).decode(errors="replace") if answer.status >= 400 else ""
            self.records.append(Record(request, answer.status, refusal))
        return Answer(answer.status, chunks, answer.headers)

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=10)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    owner: ImitationServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the gateway closes is no error of the imitation; any other is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self._read_chunked() if "transfer-encoding" in self.headers else self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.owner.answer(Request(self.command, self.path, headers, raw))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            if chunk:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_DELETE = do_POST

    def _read_chunked(self) -> bytes:
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def log_message(self, *_arguments: Any) -> None:
        """Nothing is logged: `records` has the requests."""
