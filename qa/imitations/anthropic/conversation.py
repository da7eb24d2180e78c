"""The rules for ``system`` and ``messages``: turns, blocks, pairs of calls and results, images and documents.

Messages of the vendor, as quoted in public issues: pairs of calls and results anthropics/claude-code#8210, #5989, #13460, #18947;
empty text #59812, #23440; prefill #52433; system turns #61412, earendil-works/pi#5876 and the page on mid-conversation system
messages, platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (read 2026-11-22). A conversation may
begin with an assistant turn: anthropics/anthropic-sdk-typescript#622 (2024-12-06). URLs must be https:
platform.claude.com/docs/en/api/messages.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from qa.imitations.anthropic.models import Model
from qa.imitations.anthropic.refusal import refuse
from qa.imitations.anthropic.settings import is_thinking

Block = Mapping[str, Any]

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_MOST_CACHE_MARKS: Final = 4
_HEADS: Final[Mapping[str, tuple[bytes, int]]] = {
    "image/png": (b"\x89PNG\r\n\x1a\n", 0),
    "image/jpeg": (b"\xff\xd8\xff", 0),
    "image/gif": (b"GIF8", 0),
    "image/webp": (b"WEBP", 8),
    "application/pdf": (b"%PDF-", 0),
}
_BLOCKS_OF_ROLE: Final[Mapping[str, frozenset[str]]] = {
    "user": frozenset(("text", "image", "document", "search_result", "tool_result", "container_upload")),
    "assistant": frozenset(("text", "thinking", "redacted_thinking", "tool_use")),
    "system": frozenset(("text",)),
}


def list_blocks(content: Any) -> list[Block]:
    """The blocks of a content that is a text or an array."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def merge_turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, Block]]]]:
    """(role, blocks with their paths) of each turn; adjacent messages of one role are one turn."""
    turns: list[tuple[str, list[tuple[str, Block]]]] = []
    for number, message in enumerate(messages):
        placed = [
            (f"messages.{number}.content.{place}", block) for place, block in enumerate(list_blocks(message["content"]))
        ]
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(placed)
        else:
            turns.append((message["role"], placed))
    return turns


def check_conversation(body: Mapping[str, Any], model: Model) -> None:
    """Raise `Refusal` for a conversation that the vendor does not accept."""
    messages = body["messages"]
    if not messages:
        refuse("messages: at least one message is required")
    for block in list_blocks(body.get("system") or []):
        _check_text(block, "system")
    last = len(messages) - 1
    for number, message in enumerate(messages):
        if not message["content"] and not (number == last and message["role"] == "assistant"):
            refuse(
                f"messages.{number}: all messages must have non-empty content except for the optional final assistant message"
            )
        for place, block in enumerate(list_blocks(message["content"])):
            _check_block(block, message["role"], f"messages.{number}.content.{place}")
    turns = merge_turns(messages)
    _check_system_turns(turns, model)
    _check_pairs(turns)
    _check_end(body, turns, model)
    if sum(1 for _ in _list_cache_marks(body)) > _MOST_CACHE_MARKS:
        refuse(f"A maximum of {_MOST_CACHE_MARKS} blocks with cache_control may be provided.")


def _check_text(block: Block, place: str) -> None:
    if block.get("type") == "text":
        if not block["text"]:
            refuse(f"{place}: text content blocks must be non-empty")
        if not block["text"].strip():
            refuse(f"{place}: text content blocks must contain non-whitespace text")


def _check_block(block: Block, role: str, path: str) -> None:
    kind = block["type"]
    if kind not in _BLOCKS_OF_ROLE[role]:
        refuse(f"{path}: `{kind}` blocks are not permitted in messages with the role '{role}'")
    _check_text(block, "messages")
    if kind in ("image", "document"):
        _check_source(block["source"], f"{path}.source", kind)
    elif kind == "tool_use":
        if not _ID.fullmatch(block["id"]):
            refuse(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", block["name"]):
            refuse(f"{path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
    elif kind == "tool_result":
        if not _ID.fullmatch(block["tool_use_id"]):
            refuse(f"{path}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        content = block.get("content") or []
        for place, inner in enumerate([] if isinstance(content, str) else content):
            _check_text(inner, "messages")
            if inner["type"] in ("image", "document"):
                _check_source(inner["source"], f"{path}.content.{place}.source", inner["type"])


def _check_source(source: Mapping[str, Any], path: str, kind: str) -> None:
    if source["type"] == "url" and not source["url"].startswith("https://"):
        refuse(f"{path}.url: Only HTTPS URLs are supported.")
    if source["type"] != "base64":
        return
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        refuse(f"{path}.base64.data: invalid base64 data")
    mark, place = _HEADS[source["media_type"]]
    if not data[place:].startswith(mark):
        if kind == "document":
            refuse(f"{path}.base64.data: The PDF specified was not valid.")
        refuse(f"{path}.base64.data: Image does not match the provided media type {source['media_type']}")


def _check_system_turns(turns: Sequence[tuple[str, list[tuple[str, Block]]]], model: Model) -> None:
    for place, (role, _) in enumerate(turns):
        if role != "system":
            continue
        if place == 0:
            refuse("messages.0: use the top-level 'system' parameter for the initial system prompt")
        if not model.system_turns:
            refuse("role 'system' is not supported on this model")
        if turns[place - 1][0] != "user":
            refuse("messages: a system message must immediately follow a user turn")
        if place + 1 < len(turns) and turns[place + 1][0] != "assistant":
            refuse("messages: a system message must precede an assistant turn or end the array")


def _check_pairs(turns: Sequence[tuple[str, list[tuple[str, Block]]]]) -> None:
    """Each call has one result in the next user turn, before anything else; each result has its call in the turn before."""
    seen: set[str] = set()
    waiting: list[str] = []
    for place, (_role, blocks) in enumerate(turns):
        results = [(path, block["tool_use_id"]) for path, block in blocks if block["type"] == "tool_result"]
        for path, call_id in results:
            if call_id not in waiting:
                refuse(
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block must "
                    "have a corresponding `tool_use` block in the previous message."
                )
        answered = [call_id for _, call_id in results]
        for call_id in answered:
            if answered.count(call_id) > 1:
                refuse(
                    f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call_id}"
                )
        missing = [call_id for call_id in waiting if call_id not in answered]
        kinds = [block["type"] for _, block in blocks]
        if missing or (results and set(kinds[: len(results)]) != {"tool_result"}):
            refuse(
                f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing or waiting)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        waiting = [block["id"] for _, block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting) or seen & set(waiting):
            refuse("messages: `tool_use` ids must be unique")
        seen.update(waiting)
    if waiting:
        refuse(
            f"messages.{len(turns) - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(waiting)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )


def _check_end(body: Mapping[str, Any], turns: Sequence[tuple[str, list[tuple[str, Block]]]], model: Model) -> None:
    role, blocks = turns[-1]
    if role != "assistant":
        return
    if not model.prefill:
        refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
    if is_thinking(body, model):
        refuse("When thinking is enabled, the last message cannot be an assistant message to be continued.")
    if (body.get("output_config") or {}).get("format") is not None:
        refuse("output_config.format: message prefilling is incompatible with JSON outputs")
    if blocks and blocks[-1][1]["type"] == "text" and blocks[-1][1]["text"] != blocks[-1][1]["text"].rstrip():
        refuse("messages: final assistant content cannot end with trailing whitespace")


def _list_cache_marks(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "cache_control" and member is not None:
                yield member
            elif name not in ("input", "input_schema", "schema"):
                yield from _list_cache_marks(member)
    elif isinstance(value, list):
        for item in value:
            yield from _list_cache_marks(item)
