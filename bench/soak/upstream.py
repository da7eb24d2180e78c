"""The upstream of the soak test, in a process of its own: ``python -m bench.soak.upstream PORT VOICE_PORT SHARE SEED FILE``.

SHARE of the requests below /shaky get a fault, those below other prefixes none. Each fault is a line "NONCE KIND" that is
appended to FILE before it happens, so that a killed upstream has told what it did. Realtime sessions are on VOICE_PORT.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any, TextIO

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from bench.soak.faults import get_kinds, make_right
from bench.soak.vendors import Vendors
from bench.soak.words import make_words, read_prompt
from tests.support.upstream_server import Play, Record, State
from tests.support.ws_upstream import WsUpstream

SESSION = {"type": "session.created", "event_id": "event_1", "session": {"id": "sess_1", "type": "realtime"}}


class Dice:
    """Chooses faults, and remembers what was chosen. The same seed gives the same order of faults."""

    def __init__(self, share: float, seed: int, told: TextIO) -> None:
        self.share = share
        self.vendors = Vendors()
        self._random = random.Random(seed)
        self._told = told

    def choose(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        """The answer of the next request."""
        right = self.vendors.answer(method, path, body)
        kinds = get_kinds(path, right) if path.startswith("/shaky") else {}
        if not kinds or self._random.random() >= self.share:
            return make_right(right, self._random.choice((0.0, 0.0, 0.002, 0.01)) if right.is_stream else 0.0)
        kind = self._random.choice(sorted(kinds))
        self._told.write(f"{right.nonce} {kind}\n")
        return kinds[kind](right)


class Vendor(Play):
    """Plays the answer that the dice choose."""

    def initialize(self, state: State, dice: Dice) -> None:  # type: ignore[override]
        super().initialize(state)
        self.dice = dice

    async def prepare(self) -> None:
        request = self.request
        self.record = Record(request.method or "", request.uri or "", [], b"")
        try:
            answer = self.dice.choose(request.method or "", request.path, request.body)
        except ValueError as error:
            answer = {"status": 400, "steps": [{"send": json.dumps({"error": {"message": str(error)}})}]}
        await self.play(answer)


def speak(event: dict[str, Any]) -> list[dict[str, Any]]:
    """A realtime response to `response.create`, whose instructions are the prompt."""
    if event.get("type") != "response.create":
        return []
    nonce, count = read_prompt(event["response"]["instructions"].encode())
    at = {"response_id": f"resp_{nonce}", "item_id": f"item_{nonce}", "output_index": 0, "content_index": 0}
    deltas = [
        {"type": "response.output_text.delta", "event_id": f"event_{n}", "delta": word, **at}
        for n, word in enumerate(make_words(nonce, count))
    ]
    usage = {"total_tokens": 30, "input_tokens": 10, "output_tokens": 20}
    response = {
        "id": f"resp_{nonce}",
        "object": "realtime.response",
        "status": "completed",
        "output": [],
        "usage": usage,
    }
    return [*deltas, {"type": "response.done", "event_id": "event_done", "response": response}]


async def main(port: int, voice_port: int, share: float, seed: int, file: Path) -> None:
    with file.open("a", encoding="ascii", buffering=1) as told:
        arguments = {"state": State(), "dice": Dice(share, seed, told)}
        server = HTTPServer(Application([(".*", Vendor, arguments)], log_function=lambda handler: None))
        server.add_sockets(bind_sockets(port, "127.0.0.1"))
        voice = WsUpstream(greeting=[SESSION], answers=speak)
        voice.start(voice_port)
        print(f"upstream: serving {port}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])))
