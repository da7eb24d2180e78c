"""How an upstream fails: each kind of fault turns a right answer into an answer of `tests.support.upstream_server`. No I/O."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from bench.soak.vendors import EVENTS, RightAnswer

Answer = dict[str, Any]
SLOW_SECONDS = 1.0
PAGE = "<!doctype html><title>502 Bad Gateway</title><h1>nginx</h1>"


def send(data: bytes) -> dict[str, Any]:
    return {"send_base64": base64.b64encode(data).decode()}


def play(right: RightAnswer, steps: Iterable[Any], **rest: Any) -> Answer:
    return {"status": 200, "headers": {"Content-Type": right.content_type}, "steps": steps, **rest}


def make_right(right: RightAnswer, gap: float = 0.0) -> Answer:
    """The right answer, one write for each piece, `gap` seconds apart."""
    steps: list[dict[str, Any]] = []
    for piece in right.pieces:
        steps += [send(piece), {"pause": gap}] if gap else [send(piece)]
    return play(right, steps)


def _get_half(right: RightAnswer) -> bytes:
    """The first half of an answer; of a stream it ends inside an event."""
    if not right.is_stream:
        whole = b"".join(right.pieces)
        return whole[: len(whole) // 2]
    middle = len(right.pieces) // 2
    return b"".join(right.pieces[:middle]) + right.pieces[middle][:-8]


def _refuse(status: int, **headers: str) -> Callable[[RightAnswer], Answer]:
    error = {"error": {"message": "the upstream fails on purpose", "type": "api_error", "code": status}}

    def make(right: RightAnswer) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        head = {"Content-Type": "application/json", **named}
        return {"status": status, "headers": head, "steps": [{"send": json.dumps(error)}]}

    return make


def _reset_midway(right: RightAnswer) -> Answer:
    return play(right, [send(_get_half(right)), {"pause": 0.01}, {"reset": True}])


def _drip(right: RightAnswer) -> Answer:
    whole = b"".join(right.pieces)
    size = max(1, len(whole) // 40)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    return play(right, [step for piece in pieces for step in (send(piece), {"pause": 0.025})])


def _spoil_text(right: RightAnswer) -> Answer:
    """A lone 0xFF where a text has its nonce."""
    nonce = right.nonce.encode()
    return play(right, [send(piece.replace(nonce, nonce[:8] + b"\xff" + nonce[8:])) for piece in right.pieces])


def _repeat_forever(right: RightAnswer) -> Answer:
    """The first half, then its last event again and again, 64 KiB in each write, until the gateway closes the connection."""
    middle = len(right.pieces) // 2
    last = right.pieces[middle]
    step = send(last * (65536 // len(last) + 1))
    return play(right, itertools.chain([send(b"".join(right.pieces[:middle]))], itertools.repeat(step)))


def _repeat_events(right: RightAnswer) -> Answer:
    """Every event of the middle twice, as an upstream does that sends again what it thinks was lost."""
    doubled = [piece * 2 for piece in right.pieces[2:-4]]
    return play(right, [send(piece) for piece in (*right.pieces[:2], *doubled, *right.pieces[-4:])])


def _send_garbage_gzip(right: RightAnswer) -> Answer:
    head = {"Content-Type": right.content_type, "Content-Encoding": "gzip"}
    return {"status": 200, "headers": head, "steps": [send(b"\x1f\x8b\x08" + b"".join(right.pieces)[:500])]}


ANY: dict[str, Callable[[RightAnswer], Answer]] = {
    "reset at connect": lambda right: play(right, [{"reset": True}]),
    "closed at connect": lambda right: play(right, [{"close": True}]),
    "reset mid-stream": _reset_midway,
    "slow headers": lambda right: play(right, [{"pause": SLOW_SECONDS}, *map(send, right.pieces)]),
    "hang": lambda right: play(right, [{"hang": True}]),
    "status 500": _refuse(500),
    "status 503": _refuse(503, Retry_After="1"),
    "status 429": _refuse(429, Retry_After="1"),
    "status 401": _refuse(401),
    "truncated": lambda right: play(right, [send(_get_half(right))]),
    "wrong content-type": lambda right: {
        "status": 200, "headers": {"Content-Type": "text/html"}, "steps": [{"send": PAGE}],
    },
    "slow drip": _drip,
    "gzip garbage": _send_garbage_gzip,
}  # fmt: skip
STREAMS: dict[str, Callable[[RightAnswer], Answer]] = {
    **ANY,
    "invalid UTF-8": _spoil_text,
    "hang mid-stream": lambda right: play(right, [send(_get_half(right)), {"hang": True}]),
    "endless stream": _repeat_forever,
    "duplicate events": _repeat_events,
}
POLLS: dict[str, Callable[[RightAnswer], Answer]] = {
    name: make for name, make in ANY.items() if name not in ("status 401", "truncated", "gzip garbage", "hang")
}
"""Faults of polls and downloads of videos, after which the gateway must try again."""
FILES = {name: make for name, make in ANY.items() if name != "truncated"}
"""Nobody can tell a sound from the half of one, if its end is a proper one."""
JSON_TEXTS = {**ANY, "invalid UTF-8": _spoil_text}


def get_kinds(path: str, right: RightAnswer) -> dict[str, Callable[[RightAnswer], Answer]]:
    """The faults that a request may meet. A request that creates a video meets none: it must not be sent twice."""
    if "/videos" in path:
        return POLLS if "/videos/" in path else {}
    if right.content_type == EVENTS:
        return STREAMS
    return JSON_TEXTS if right.content_type == "application/json" else FILES
