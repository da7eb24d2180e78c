"""The imitation of OpenAI behind the interface of the other two, and what its answers must look like to each caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from qa.imitations.calling.run import Vendor
from qa.imitations.calling.scenario import Caller
from qa.imitations.calling.server import Received, Response
from qa.imitations.openai import model_replies as replies
from qa.imitations.openai.model_replies import Said
from qa.imitations.openai.vendor import OpenAI
from tests.support.imitation_server import Request

_FINISH: Final[Mapping[Caller, Mapping[str, str]]] = {
    "chat": {"stop": "stop", "tool_calls": "tool_calls", "length": "length"},
    "responses": {"stop": "completed", "tool_calls": "completed", "length": "max_output_tokens"},
    "messages": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"},
    "generate": {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"},
}


@dataclass(frozen=True, slots=True)
class Answered:
    """What the model said, and the encrypted reasoning of its answer."""

    said: Said
    encrypted: tuple[str, ...]


class OpenAIApi:
    """Answers requests as the vendor does."""

    def __init__(self) -> None:
        self._vendor = OpenAI()

    def answer(self, received: Received) -> Response:
        """The response to one request."""
        before = set(self._vendor.issued.encrypted)
        answer = self._vendor(Request("POST", received.path, received.headers, received.raw))
        chunks = tuple(answer.chunks)
        kind = answer.headers["content-type"]
        if answer.status != 200:
            refused = json.loads(b"".join(chunks))["error"]
            return Response(answer.status, kind, chunks, refused=f"{refused['param']}: {refused['message']}")
        encrypted = tuple(self._vendor.issued.encrypted - before)
        return Response(200, kind, chunks, said=Answered(self._vendor.said[-1], encrypted))


def _list_items(answered: Any) -> list[tuple[str, Any]]:
    said = answered.said
    items: list[tuple[str, Any]] = [("thinking", "\n\n".join(said.summary)), ("text", said.text)]
    return items + [("call", (name, json.loads(text))) for _, name, text in said.calls]


def _count(answered: Any) -> tuple[int, int, int, int]:
    thought = replies.REASONING_TOKENS if answered.said.reasoned else 0
    return replies.INPUT_TOKENS, replies.CACHED_TOKENS, answered.said.output_tokens, thought


def _find_finish(answered: Any, caller: Caller) -> str:
    return _FINISH[caller][answered.said.end]


def _list_signatures(answered: Any) -> list[str]:
    return list(answered.encrypted) if answered.said.calls else []


OPENAI: Final = Vendor(
    name="openai",
    own=("chat", "responses"),
    shows_in_chats=False,
    items=_list_items,
    usage=_count,
    finish=_find_finish,
    signatures=_list_signatures,
)
