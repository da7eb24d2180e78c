"""The program behind `upstream.Upstream`: a Tornado server that plays a script. It runs in a process of its own.

``/__control`` is the interface for the test; every other path belongs to the upstream. See `upstream` for the script.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

NO_SCRIPT = {
    "status": 599,
    "steps": [{"send": '{"error": {"message": "no scripted answer is left for this request"}}'}],
}


@dataclass
class Record:
    """One received request. `closed` is set when its client closes the connection before the end of the response."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def as_json(self) -> dict[str, Any]:
        body = base64.b64encode(self.body).decode()
        return {
            "method": self.method,
            "path": self.path,
            "headers": self.headers,
            "body": body,
            "closed": self.closed.is_set(),
        }


class State:
    """The remaining script, the received requests, and the words that the test has sent."""

    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.reset()

    def reset(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.records: list[Record] = []
        self.told: set[str] = set()

    def next_answer(self, path: str) -> dict[str, Any]:
        """The first remaining answer whose `path`, if set, is a prefix of this path."""
        for answer in self.answers:
            if path.startswith(answer.get("path", "")):
                if not answer.get("repeat"):
                    self.answers.remove(answer)
                return answer
        return NO_SCRIPT

    async def announce(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def wait_until_told(self, word: str) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: word in self.told)


class Play(RequestHandler):
    """Plays one answer of the script for each request."""

    def initialize(self, state: State) -> None:
        self.state = state

    async def prepare(self) -> None:
        request = self.request
        headers = list(request.headers.get_all())
        self.record = Record(request.method or "", request.uri or "", headers, request.body)
        self.state.records.append(self.record)
        await self.state.announce()
        await self.play(self.state.next_answer(request.path))

    def set_default_headers(self) -> None:
        self.clear_header("Server")

    def compute_etag(self) -> None:
        """Sends only the headers of the script."""

    def on_connection_close(self) -> None:
        self.record.closed.set()
        self.announcing = asyncio.ensure_future(self.state.announce())

    async def play(self, answer: dict[str, Any]) -> None:
        self.set_status(answer.get("status", 200))
        for name, value in answer.get("headers", {}).items():
            self.set_header(name, value)
        try:
            for step in answer.get("steps", []):
                if not await self.take(step):
                    return
            await self.finish()
        except StreamClosedError:
            self.record.closed.set()

    async def take(self, step: dict[str, Any]) -> bool:
        """Run one step; False when no further step can follow."""
        match step:
            case {"send": str(text)}:
                await self.send(text.encode())
            case {"send_base64": str(text)}:
                await self.send(base64.b64decode(text))
            case {"pause": int() | float() as seconds}:
                return await self.unless_closed(asyncio.sleep(seconds))
            case {"wait": str(word)}:
                return await self.unless_closed(self.state.wait_until_told(word))
            case {"hang": True}:
                return await self.unless_closed(asyncio.Event().wait())
            case _:
                await self.end(step)
                return False
        return True

    async def end(self, step: dict[str, Any]) -> None:
        """Run a step that leaves HTTP: raw bytes, close or reset."""
        match step:
            case {"raw": str(text)}:
                await self.detach().write(text.encode())
            case {"close": True}:
                self.detach().close()
            case {"reset": True}:
                self.reset_connection()
            case _:
                raise ValueError(f"unknown step in the script: {step}")

    async def send(self, data: bytes) -> None:
        self.write(data)
        await self.flush()

    async def unless_closed(self, waiting: Awaitable[Any]) -> bool:
        """Wait for `waiting` or for the client to close the connection; False when it closed."""
        ours = asyncio.ensure_future(waiting)
        closed = asyncio.ensure_future(self.record.closed.wait())
        await asyncio.wait({ours, closed}, return_when=asyncio.FIRST_COMPLETED)
        ours.cancel()
        closed.cancel()
        return not self.record.closed.is_set()

    def reset_connection(self) -> None:
        """Reset the connection (RST instead of FIN): SO_LINGER with a time of zero discards unsent data."""
        stream = self.detach()
        linger = struct.pack("ii", 1, 0)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        stream.close()


class Control(RequestHandler):
    """POST {"do": "script" | "tell" | "reset" | "requests" | "closed", ...}; `upstream.Upstream` is its client."""

    def initialize(self, state: State) -> None:
        self.state = state

    async def post(self) -> None:
        match json.loads(self.request.body):
            case {"do": "script", "answers": list(answers)}:
                self.state.answers.extend(answers)
            case {"do": "tell", "word": str(word)}:
                self.state.told.add(word)
                await self.state.announce()
            case {"do": "reset"}:
                self.state.reset()
            case {"do": "requests", "count": int(count), "seconds": int() | float() as seconds}:
                await self.wait(lambda: len(self.state.records) >= count, seconds)
            case {"do": "closed", "index": int(index), "seconds": int() | float() as seconds}:
                await self.wait(lambda: self.is_closed(index), seconds)
            case order:
                raise ValueError(f"unknown control order: {order}")
        self.finish(json.dumps([record.as_json() for record in self.state.records]))

    def is_closed(self, index: int) -> bool:
        return len(self.state.records) > index and self.state.records[index].closed.is_set()

    async def wait(self, condition: Any, seconds: float) -> None:
        """Wait until `condition` is true or the time is up; the records in the response show which."""
        try:
            async with asyncio.timeout(seconds), self.state.changed:
                await self.state.changed.wait_for(condition)
        except TimeoutError:
            return


async def main() -> None:
    state = State()
    application = Application(
        [("/__control", Control, {"state": state}), (".*", Play, {"state": state})], log_function=lambda handler: None
    )
    (listening,) = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(application, max_buffer_size=1 << 28)
    server.add_socket(listening)
    print(f"upstream: serving http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
