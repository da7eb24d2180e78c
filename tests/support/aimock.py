"""An independent upstream: aimock (npm `@copilotkit/aimock`), which other authors wrote from the vendors' documentation.

The parts that are used here (its README, and ``dist/types.d.ts``, of 1.43.0):

- ``llmock -p 0 -f FILE --strict`` binds a free port and logs ``aimock server listening on URL``. With `--strict` a
  request that matches no fixture is an error (503) that is logged.
- A fixtures file is ``{"fixtures": [{"match": {...}, "response": {...}}, ...]}``; the first matching fixture is used.
  ``userMessage`` is found *within* the last user message; further: ``hasToolResult`` (a tool result since the last
  user message), ``toolName``, ``model``, ``responseFormat`` (the type), ``sequenceIndex`` (how often it has matched).
- A response is ``{"content"}``, ``{"toolCalls": [{"name", "arguments", "id"?}]}`` or ``{"error": {...}, "status"}``;
  it may override ``usage``, ``finishReason``, ``id``, ``model``. ``latency`` (ms between chunks) and ``chunkSize``
  (characters) control the timing of a stream, ``truncateAfterChunks`` aborts it.
- ``stream_options.include_usage`` is supported, ``n`` is not: a response always has one choice.
- The journal of requests is at ``/__aimock/journal``: method, path, headers, body, response status, and ``interrupted``
  when the client has closed the connection.
- With the environment variable AIMOCK_API_KEYS every other key gets a 401, for the journal too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.control import call
from tests.support.node import NODE, PACKAGES
from tests.support.process import Child

FIXTURES = Path(__file__).with_name("aimock_fixtures.json")
KEY = "upstream-key-of-aimock"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One request that aimock received. `interrupted`: the client closed the connection before the response's end."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    status: int
    interrupted: bool


@dataclass(frozen=True, slots=True)
class Aimock:
    """A running aimock. `url` has no path; OpenAI clients use ``url + "/v1"``."""

    child: Child
    url: str
    key: str

    @classmethod
    def start(cls, fixtures: Path = FIXTURES, key: str = KEY) -> Aimock:
        """Start aimock on a free port; it is ready when this returns."""
        program = PACKAGES / "@copilotkit" / "aimock" / "dist" / "cli.js"
        command = [str(NODE), str(program), "-p", "0", "-f", str(fixtures), "--strict", "--validate-on-load"]
        child = Child(command, environment={"AIMOCK_API_KEYS": key})
        return cls(child, child.wait_for_line(r"listening on (http://\S+)")[1], key)

    def journal(self) -> list[JournalEntry]:
        """The requests, oldest first; aimock keeps the latest thousand."""
        answer = call("GET", f"{self.url}/__aimock/journal", key=self.key)
        return [_entry(value) for value in answer]

    def stop(self) -> str:
        """Stop the process; returns its output."""
        return self.child.stop()


def _entry(value: dict[str, Any]) -> JournalEntry:
    return JournalEntry(
        method=value["method"],
        path=value["path"],
        headers=value["headers"],
        body=value["body"] or {},
        status=value["response"]["status"],
        interrupted=bool(value["response"].get("interrupted")),
    )
