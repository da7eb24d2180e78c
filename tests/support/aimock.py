"""An independent upstream: aimock (npm `@copilotkit/aimock`), which others wrote from the vendors' documents.

What of it is used here (its README, and ``dist/types.d.ts``, of 1.43.0):

- ``llmock -p 0 -f FILE --strict`` binds a free port and logs ``aimock server listening on URL``. `--strict` makes a
  request that no fixture matches an error (503) that is logged.
- A fixtures file is ``{"fixtures": [{"match": {...}, "response": {...}}, ...]}``; the first whose match fits answers.
  ``userMessage`` is found *within* the last user message; further: ``hasToolResult`` (a tool's result since the last
  user message), ``toolName``, ``model``, ``responseFormat`` (the type), ``sequenceIndex`` (which time it matches).
- A response is ``{"content"}``, ``{"toolCalls": [{"name", "arguments", "id"?}]}`` or ``{"error": {...}, "status"}``;
  it may override ``usage``, ``finishReason``, ``id``, ``model``. ``latency`` (ms between chunks) and ``chunkSize``
  (characters) pace a stream, ``truncateAfterChunks`` breaks it off.
- ``stream_options.include_usage`` is honoured, ``n`` is not: it always gives one choice.
- The journal of requests is at ``/__aimock/journal``: method, path, headers, body, response status, and ``interrupted``
  when the client left.
- With the environment variable AIMOCK_API_KEYS it refuses every other key with 401, at the journal too.
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
    """One request that aimock got. `interrupted`: the client left before the answer's end."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    status: int
    interrupted: bool


@dataclass(frozen=True, slots=True)
class Aimock:
    """A running aimock. `url` has no path; clients of format O take ``url + "/v1"``."""

    child: Child
    url: str
    key: str

    @classmethod
    def start(cls, fixtures: Path = FIXTURES, key: str = KEY) -> Aimock:
        """Start one on a free port; it is ready when this returns."""
        program = PACKAGES / "@copilotkit" / "aimock" / "dist" / "cli.js"
        command = [str(NODE), str(program), "-p", "0", "-f", str(fixtures), "--strict", "--validate-on-load"]
        child = Child(command, environment={"AIMOCK_API_KEYS": key})
        return cls(child, child.wait_for_line(r"listening on (http://\S+)")[1], key)

    def journal(self) -> list[JournalEntry]:
        """The requests, oldest first; it keeps the latest thousand."""
        answer = call("GET", f"{self.url}/__aimock/journal", key=self.key)
        return [_entry(value) for value in answer]

    def stop(self) -> str:
        """End it; returns what it logged."""
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
