"""``prompt_cache_key`` for translated requests, whose callers' formats do not have it. Pure.

OpenAI routes requests with equal keys and prefixes to the same cache. From GPT-5.6 on, it matches prefixes reliably only with a
key. Sources, read 2026-11-22: openai-python 3.54, types/chat/completion_create_params.py;
learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching, "Improve cache hit rates with a prompt cache key".
"""

from __future__ import annotations

import hashlib
from itertools import takewhile
from typing import Final

from tornado_gate.types import Call, ChatRequest, Message, Text

CACHE_KEY: Final = "prompt_cache_key"
_KEY_LENGTH: Final = 32


def make_cache_key(call: Call, request: ChatRequest) -> str:
    """A key that is equal for requests of one account and user with the same instructions, and does not reveal them.

    Instructions are the leading system messages, or the first message without such messages.
    """
    instructions = list(takewhile(_is_instruction, request.messages)) or request.messages[:1]
    digest = hashlib.sha256(repr((call.caller.account, request.user)).encode("utf-8", "surrogatepass"))
    for message in instructions:
        for part in message.parts:
            if isinstance(part, Text):
                digest.update(part.text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_KEY_LENGTH]


def _is_instruction(message: Message) -> bool:
    return message.role in ("system", "developer")
