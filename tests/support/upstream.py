"""A scripted upstream in a process of its own, for what existing ones cannot do: stall, abort, wait for the test.

::

    upstream.script(
        answer(sse(first), Wait("go on"), sse(second, DONE)),   # 200, text/event-stream
        answer(Reset()),                                        # no status line at all
        answer('{"error": {"message": "busy"}}', status=503, headers={"retry-after": "2"}),
    )

Answers are played in order, one for each request; `path` limits an answer to requests whose path has this prefix, and
an answer with `repeat` is never used up. The status line and the headers are sent with the first bytes of the body,
so a step before them comes before the status line. A request without a remaining answer gets 599. The received
requests are in `requests`, with the body as bytes.

Calls block until the child has responded. In a test whose event loop the upstream's client needs, wait with
``await asyncio.to_thread(upstream.wait_for_requests, 1)``.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.control import call
from tests.support.process import Child

PROGRAM = "tests.support.upstream_server"
EVENT_STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Pause:
    """Send nothing for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Send nothing until `Upstream.tell` sends the word."""

    word: str


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing until the client closes the connection."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST). No step can follow."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection (FIN) at this point of the response. No step can follow."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Send these bytes instead of an HTTP response; the connection stays open. No step can follow."""

    text: str


Step = str | bytes | Pause | Wait | Hang | Reset | Close | Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to one request: each text or bytes of `steps` is written and flushed as one chunk of the body."""

    steps: tuple[Step, ...]
    status: int
    headers: Mapping[str, str]
    path: str
    repeat: bool


def answer(
    *steps: Step, status: int = 200, headers: Mapping[str, str] | None = None, path: str = "", repeat: bool = False
) -> Answer:
    """An answer of these steps. Without `headers` it is JSON, or an event stream when a step starts with ``data:``."""
    if headers is None:
        is_stream = any(isinstance(step, str) and step.startswith("data:") for step in steps)
        headers = EVENT_STREAM if is_stream else JSON
    return Answer(steps=steps, status=status, headers=headers, path=path, repeat=repeat)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A received request: header names in lower case; `closed`: the client closed it before the end of the response."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    closed: bool

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A running scripted upstream. `url` has no path."""

    child: Child
    url: str

    @classmethod
    def start(cls) -> Upstream:
        """Start an upstream on a free port; it is ready when this returns."""
        child = Child([sys.executable, "-m", PROGRAM])
        return cls(child, child.wait_for_line(r"serving (http://\S+)")[1])

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests since the last reset, oldest first."""
        return self.wait_for_requests(0)

    def script(self, *answers: Answer) -> None:
        """Add answers to the end of the script."""
        self._order("script", answers=[_answer_as_json(played) for played in answers])

    def tell(self, word: str) -> None:
        """Release every `Wait` for this word, including later ones."""
        self._order("tell", word=word)

    def reset(self) -> None:
        """Clear the script, the words and the requests."""
        self._order("reset")

    def wait_for_requests(self, count: int, seconds: float = 60) -> list[RecordedRequest]:
        """All requests, as soon as there are `count`. Raises AssertionError after `seconds`."""
        requests = self._order("requests", count=count, seconds=seconds)
        assert len(requests) >= count, f"the upstream received {len(requests)} requests in {seconds} s, not {count}"
        return requests

    def wait_until_closed(self, index: int = 0, seconds: float = 60) -> None:
        """Wait until the client of request `index` has closed the connection. Raises AssertionError after `seconds`."""
        requests = self._order("closed", index=index, seconds=seconds)
        assert len(requests) > index, f"the upstream did not receive request {index} in {seconds} s"
        assert requests[index].closed, f"the client of request {index} did not close the connection in {seconds} s"

    def stop(self) -> str:
        """Stop the process; returns its output."""
        return self.child.stop()

    def _order(self, order: str, **details: Any) -> list[RecordedRequest]:
        records = call("POST", f"{self.url}/__control", {"do": order, **details}, seconds=100)
        return [_record(value) for value in records]


def sse(*events: object) -> str:
    """Server-sent events, one for each value: a text is used unchanged, any other value as JSON."""
    texts = (event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts)


def _answer_as_json(played: Answer) -> dict[str, Any]:
    return {
        "status": played.status,
        "headers": dict(played.headers),
        "path": played.path,
        "repeat": played.repeat,
        "steps": [_step_as_json(step) for step in played.steps],
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    match step:
        case str(text):
            return {"send": text}
        case bytes(data):
            return {"send_base64": base64.b64encode(data).decode()}
        case Pause(seconds):
            return {"pause": seconds}
        case Wait(word):
            return {"wait": word}
        case Raw(text):
            return {"raw": text}
        case Hang() | Reset() | Close():
            return {type(step).__name__.lower(): True}


def _record(value: dict[str, Any]) -> RecordedRequest:
    return RecordedRequest(
        method=value["method"],
        path=value["path"],
        headers={name.lower(): text for name, text in value["headers"]},
        body=base64.b64decode(value["body"]),
        closed=value["closed"],
    )
