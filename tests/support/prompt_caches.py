"""An upstream that imitates the prompt caches of vendors, with their usage fields: each API key has a cache of its own.

``python -m tests.support.prompt_caches`` serves it and prints its URL.

- OpenAI: a prefix of 1,024 tokens or more is cached, in steps of 128 tokens, for each organisation; the response reports
  ``usage.prompt_tokens_details.cached_tokens``. Source: developers.openai.com, guide "Prompt caching", 2026-10.
- Anthropic: the prefix up to a block with ``cache_control`` is cached for each workspace, for 5 minutes from its last use; usage
  has ``cache_read_input_tokens`` and ``cache_creation_input_tokens``, and ``input_tokens`` is the rest. Source:
  platform.claude.com, "Prompt caching", 2026-10.

A token is four characters here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.imitation_server import Answer, ImitationServer, Request, answer_json

TOKEN = 4
STEP = 128
LEAST = 1024
SECONDS = 300.0


class CachingUpstream:
    """The imitation. `clock` tells the time; `hits` and `prompts` are the tokens that were cached and sent in all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.hits = self.prompts = 0
        self.keys: list[str] = []
        """The key of each request."""
        self._caches: dict[tuple[str, str], dict[int, float]] = {}
        """The time of the last use of each prefix, by key and model, and by the prefix's hash."""

    def __call__(self, request: Request) -> Answer:
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        body = request.json
        self.keys.append(key)
        cache = self._caches.setdefault((key, body["model"]), {})
        if request.path.endswith("/messages"):
            return answer_json(self._answer_messages(body, cache))
        return answer_json(self._answer_chat(body, cache))

    def _answer_chat(self, body: Any, cache: dict[int, float]) -> Any:
        text = json.dumps([body.get("tools"), body["messages"]])
        cached = self._use(cache, text, len(text) // TOKEN)
        prompt = len(text) // TOKEN
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": 2,
            "total_tokens": prompt + 2,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice],
            "usage": usage,
        }  # fmt: skip

    def _answer_messages(self, body: Any, cache: dict[int, float]) -> Any:
        pieces = [body.get("tools"), body.get("system"), *body["messages"]]
        marked = [index for index, piece in enumerate(pieces) if "cache_control" in json.dumps(piece)]
        text = "".join(map(_dump_unmarked, pieces))
        limit = len("".join(map(_dump_unmarked, pieces[: marked[-1] + 1]))) // TOKEN if marked else 0
        cached = self._use(cache, text, limit)
        written = limit // STEP * STEP - cached if limit >= LEAST else 0
        usage = {
            "input_tokens": len(text) // TOKEN - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": 2,
        }
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip

    def _use(self, cache: dict[int, float], text: str, limit: int) -> int:
        """The tokens at the beginning of `text` that are cached; those up to `limit` are cached from now on."""
        now, cached = self.clock(), 0
        for end in range(STEP, len(text) // TOKEN + 1, STEP):
            prefix = hash(text[: end * TOKEN])
            if end - cached == STEP and now - cache.get(prefix, -SECONDS) < SECONDS:
                cached = end
            if end <= limit:
                cache[prefix] = now
        cached = cached if cached >= LEAST else 0
        self.hits += cached
        self.prompts += len(text) // TOKEN
        return cached


def _dump_unmarked(piece: Any) -> str:
    """The text of a part of a prompt without the marks, which move from turn to turn."""
    return json.dumps(piece).replace(', "cache_control": {"type": "ephemeral"}', "")


def main() -> None:
    server = ImitationServer(CachingUpstream())
    print(server.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
