"""Texts of Anthropic's Messages API and of the events of its streams. Source: anthropic-python 2.11, types/beta/.

A signature is computed by the vendor from the whole thinking, of which the text is a summary. It stays when a guard
replaces characters of the summary in an answer, because the vendor requires it in the next turn. In a request, signed
text is fixed.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Events,
    JsonText,
    Object,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, ROLES, SCHEMA, USAGE

_RESULTS: Final = (
    "tool_result", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
    "advisor_tool_result",
)  # fmt: skip
_KINDS: Final[dict[str, TextKind]] = {
    **dict.fromkeys(("tool_use", "server_tool_use", "mcp_tool_use"), "tool_call"),
    **dict.fromkeys(_RESULTS, "tool_result"),
    "thinking": "reasoning",
}
_CITATION: Final = Object(kind="other", members={**words("type", "file_id"), "encrypted_index": DATA})
_TOOL: Final = Object(
    kind="other",
    members={
        **words("type", "name", "model", "allowed_callers", "mcp_server_name", "server_name", "display_number"),
        "input_schema": SCHEMA,
        "cache_control": CACHE_CONTROL,
        "caching": CACHE_CONTROL,
        "user_location": Object(kind="other", members=words("type")),
    },
)
_TOOL.members.update(dict.fromkeys(("tools", "tool", "definition"), _TOOL))


def _make_members(*, delta: bool) -> dict[str, Shape]:
    return {
        **words(
            "type", "id", "tool_use_id", "name", "server_name", "toolset_name", "file_id", "media_type", "error_code"
        ),
        **words("stop_reason", "file_type", "tool_name", "mcp_server_name", "role", "retrieved_at"),
        **dict.fromkeys(("signature", "encrypted_content", "encrypted_stdout", "encrypted_index"), DATA),
        "text": Text(delta=delta),
        "thinking": Text(kind="reasoning", signed_by="signature", delta=delta),
        "input": Text(kind="tool_call"),
        "data": DATA,
        "cache_control": CACHE_CONTROL,
        "caller": Object(kind="other", members=words("type", "tool_id")),
        "citations": _CITATION,
        "tools": _TOOL,
        "tool": _TOOL,
        "tool_changes": _TOOL,
        "trigger": ERROR,
        "from": Object(kind="other", members=words("model")),
        "to": Object(kind="other", members=words("model")),
    }


_BLOCK: Final = Object(members=_make_members(delta=False), others=TEXT, kinds={"type": _KINDS})
_COMPACTION: Final = Object(
    members={**_make_members(delta=False), "content": Text(kind="assistant", signed_by="signature")}, others=TEXT
)
BLOCK: Final = Events(shapes={"compaction": _COMPACTION}, other=_BLOCK)
_SOURCE: Final = Object(
    members={**words("type", "media_type", "file_id"), "data": MEDIA, "content": BLOCK}, others=TEXT
)
_BLOCK.members.update({"content": BLOCK, "source": _SOURCE, "tool_references": BLOCK})
_OPENING_BLOCK: Final = Object(
    members={**_BLOCK.members, "text": Text(delta=True), "thinking": Text(kind="reasoning", delta=True)},
    others=TEXT,
    kinds={"type": _KINDS},
    kind="assistant",
    place="content.{index}",
)

REQUEST: Final = Object(
    kind="other",
    members={
        **words("model", "service_tier", "betas", "inference_geo", "speed", "anthropic_version"),
        "system": Object(kind="system", members=_BLOCK.members, others=TEXT),
        "messages": Object(members={**words("role"), "content": BLOCK}, kinds={"role": ROLES}),
        "tools": _TOOL,
        "tool_choice": Object(kind="other", members=words("type", "name")),
        "thinking": Object(kind="other", members=words("type", "display")),
        "output_config": Object(
            kind="other",
            members={**words("effort"), "format": Object(kind="other", members={**words("type"), "schema": SCHEMA})},
        ),
        "output_format": Object(kind="other", members={**words("type"), "schema": SCHEMA}),
        "cache_control": CACHE_CONTROL,
        "container": Object(
            kind="other",
            members={**words("id"), "skills": Object(kind="other", members=words("type", "skill_id", "version"))},
            string=WORD,
        ),
        "mcp_servers": Object(kind="other", members=words("type", "name")),
        "context_management": Object(kind="other", members={"edits": Object(kind="other", members=words("type"))}),
    },
)
_MESSAGE_MEMBERS: Final[dict[str, Shape]] = {
    **words("id", "type", "role", "model", "stop_reason"),
    "content": BLOCK,
    "usage": USAGE,
    "error": ERROR,
    "container": Object(kind="other", members=words("id", "expires_at")),
    "stop_details": Object(
        kind="other", members={**words("type", "category", "recommended_model"), "fallback_credit_token": DATA}
    ),
    "context_management": Object(kind="other", members={"applied_edits": Object(kind="other", members=words("type"))}),
}
_MESSAGE: Final = Object(kind="assistant", members=_MESSAGE_MEMBERS, others=OTHER)
_DELTA: Final = Object(
    kind="assistant",
    place="content.{index}",
    members={
        **words("type"),
        "text": Text(delta=True),
        "thinking": Text(kind="reasoning", delta=True),
        "partial_json": JsonText(kind="tool_call", delta=True, place="input"),
        "content": Text(delta=True),
        "citation": _CITATION,
        **dict.fromkeys(("signature", "encrypted_content"), DATA),
    },
    ends={"signature": ("thinking",), "encrypted_content": ("content",)},
)
_EVENT: Final = words("type")
EVENTS: Final = Events(
    shapes={
        "message_start": Object(kind="other", members={**_EVENT, "message": at_place(_MESSAGE, "/")}),
        "content_block_start": Object(kind="other", members={**_EVENT, "content_block": _OPENING_BLOCK}),
        "content_block_delta": Object(kind="other", members={**_EVENT, "delta": _DELTA}),
        "content_block_stop": Object(kind="other", members=_EVENT, place="content.{index}", ends={"index": ("",)}),
        "message_delta": Object(
            kind="other",
            members={**_EVENT, **_MESSAGE_MEMBERS, "delta": at_place(_MESSAGE, "/")},
            ends={"delta": ("/",)},
        ),
    },
    other=Object(kind="other", members={**_EVENT, "error": ERROR}, ends={"error": ("/",)}),
)

MESSAGES: Final = TextMap(request=REQUEST, response=_MESSAGE, event=EVENTS)
COUNT: Final = TextMap(request=REQUEST)
