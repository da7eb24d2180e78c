"""The fields of ``POST /v1/messages``.

Source: anthropic-python 2.11, types/message_create_params.py and the types that it uses. ``temperature``, ``top_p`` and
``top_k`` are no longer in the SDK; models before 4.7 accept them.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.declared import add_declared, declared_row
from qa.matrix.fields import (
    MODEL,
    PDF,
    PICTURE,
    SCHEMA,
    TOOLS_STRICT,
    Field,
    Group,
    anyway,
    issuer_only,
    put,
    row,
)
from tornado_gate_anthropic.fields import MessagesBodySchema

BASE: Final[dict[str, Any]] = {
    "model": MODEL,
    "max_tokens": 8000,
    "messages": [{"role": "user", "content": "Hello"}],
}
TOOL: Final[dict[str, Any]] = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKING: Final = {**BASE, "messages": [{"role": "user", "content": "What are the weather and the time?"}]}
WITH_TOOL: Final = {**ASKING, "tools": [TOOL]}
QUIET: Final = {**BASE, "tools": [TOOL]}
WITH_TOOLS: Final = {**ASKING, "tools": [TOOL, {**TOOL, "name": "get_time"}]}
SAYING: Final = {**BASE, "messages": [{"role": "user", "content": "say one mark-stop two"}]}
PARTS: Final = {**BASE, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
TURNS: Final[dict[str, Any]] = {
    **BASE,
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": "How are you?"},
    ],
}
CALLED: Final[dict[str, Any]] = {
    **WITH_TOOL,
    "messages": [
        {"role": "user", "content": "What is the weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"}]},
    ],
}
IMAGE: Final[dict[str, Any]] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
}
DOCUMENT: Final[dict[str, Any]] = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
}
SEARCH_RESULT: Final[dict[str, Any]] = {
    "type": "search_result",
    "source": "https://pages.example/",
    "title": "mark-title",
    "content": [{"type": "text", "text": "mark-found"}],
}
WITH_IMAGE: Final = put(PARTS, "messages.0.content.1", IMAGE)
WITH_DOCUMENT: Final = put(PARTS, "messages.0.content.1", DOCUMENT)
CACHE: Final = {"type": "ephemeral"}
JSON: Final = {"type": "json_schema", "schema": SCHEMA}
THINKING: Final = {"type": "thinking", "thinking": "mark-thought", "signature": "mark-signature"}

quiet = partial(row, QUIET)
plain, tooled, parts = (partial(row, base) for base in (BASE, WITH_TOOL, PARTS))


def declared(at: str) -> Field:
    return declared_row(MessagesBodySchema, BASE, at)


def declared_tool(name: str) -> Field:
    return declared_row(MessagesBodySchema, WITH_TOOL, f"tools.0.{name}")


turns, called, document = (partial(row, base) for base in (TURNS, CALLED, WITH_DOCUMENT))

_ISSUER: Final = issuer_only("the signature belongs to the upstream that issued it, and the thinking goes with it")
_SERVER_TOOLS: Final[tuple[tuple[str, str], ...]] = (
    ("bash_20250124", "bash"),
    ("code_execution_20260521", "code_execution"),
    ("memory_20250818", "memory"),
    ("text_editor_20250728", "str_replace_based_edit_tool"),
    ("web_search_20260318", "web_search"),
    ("web_fetch_20260318", "web_fetch"),
    ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"),
    ("tool_search_tool_regex_20251119", "tool_search_tool_regex"),
)
_TOOLSETS: Final = ("browser_toolset_20260801", "computer_toolset_20260801")
_SERVER_BLOCKS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "mark-query"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "web_fetch_result"}},
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
    {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {}},
)

_GROUPS: Final = (
    Group(
        "Length and sampling",
        (
            declared("max_tokens"),
            declared("temperature"),
            declared("top_p"),
            declared("top_k"),
            row(SAYING, "stop_sequences", ["mark-stop"]),
        ),
    ),
    Group(
        "The answer",
        (
            plain("thinking", {"type": "enabled", "budget_tokens": 2048}, "enabled"),
            plain("thinking", {"type": "adaptive"}, "adaptive", idle=anyway("its models always think", "gemini")),
            plain("thinking", {"type": "disabled"}, "disabled", instead={"type": "enabled", "budget_tokens": 2048}),
            row(
                {**BASE, "thinking": {"type": "adaptive"}},
                "thinking.display",
                "summarized",
                idle=anyway("thinking is shown unless the caller omits it", "openai", "gemini", "local"),
            ),
            *(plain("output_config.effort", word, word) for word in ("low", "high", "xhigh", "max")),
            plain("output_config.format", JSON, "json_schema"),
            declared("stream"),
            declared("speed"),
            declared("diagnostics"),
        ),
    ),
    Group(
        "Tools",
        (
            row(ASKING, "tools", [TOOL], "custom"),
            tooled("tools.0.type", "custom", idle=anyway("a tool without a type is one of the caller's own")),
            declared_tool("description"),
            tooled(
                "tools.0.input_schema",
                {"type": "object", "properties": {"mark-place": {"type": "string"}}},
                instead=TOOL["input_schema"],
            ),
            tooled("tools.0.strict", True, idle=TOOLS_STRICT),
            declared_tool("cache_control"),
            declared_tool("defer_loading"),
            declared_tool("eager_input_streaming"),
            declared_tool("input_examples"),
            declared_tool("allowed_callers"),
            *(plain("tools", [{"type": kind, "name": name}], kind) for kind, name in _SERVER_TOOLS),
            *(plain("tools", [{"type": kind}], kind) for kind in _TOOLSETS),
            tooled("tool_choice", {"type": "auto"}, "auto", idle=anyway("tools are called when the model wants to")),
            quiet("tool_choice", {"type": "any"}, "any"),
            tooled("tool_choice", {"type": "none"}, "none"),
            quiet("tool_choice", {"type": "tool", "name": "get_weather"}, "tool"),
            row(
                {**WITH_TOOLS, "tool_choice": {"type": "any"}},
                "tool_choice.disable_parallel_tool_use",
                True,
            ),
        ),
    ),
    Group(
        "The conversation",
        (
            plain("system", "mark-rule", "a string"),
            plain("system", [{"type": "text", "text": "mark-rule"}], "blocks"),
            row(
                {**BASE, "system": [{"type": "text", "text": "A rule"}]},
                "system.0.cache_control",
                CACHE,
            ),
            plain("messages.0.content", "mark-hello", "a string", instead="Hello"),
            turns("messages.3", {"role": "system", "content": "mark-rule"}, "system"),
            parts("messages.0.content.1", {"type": "text", "text": "mark-more"}, "text"),
            parts("messages.0.content.0.cache_control", CACHE),
            turns("messages.1.content.0.citations", [{"type": "char_location", "cited_text": "mark-cited"}]),
            parts("messages.0.content.1", IMAGE, "image, base64"),
            parts(
                "messages.0.content.1",
                {"type": "image", "source": {"type": "url", "url": "https://pictures.example/mark-picture.png"}},
                "image, url",
            ),
            parts(
                "messages.0.content.1",
                {"type": "image", "source": {"type": "file", "file_id": "mark-file"}},
                "image, file",
            ),
            row(WITH_IMAGE, "messages.0.content.1.cache_control", CACHE, "image"),
            row(WITH_IMAGE, "messages.0.content.1.transformations", {"allow_resize": False}),
            parts("messages.0.content.1", DOCUMENT, "document, base64"),
            parts(
                "messages.0.content.1",
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "mark-text"}},
                "document, text",
            ),
            parts(
                "messages.0.content.1",
                {"type": "document", "source": {"type": "content", "content": "mark-text"}},
                "document, content",
            ),
            parts(
                "messages.0.content.1",
                {"type": "document", "source": {"type": "url", "url": "https://files.example/mark-file.pdf"}},
                "document, url",
            ),
            parts(
                "messages.0.content.1",
                {"type": "document", "source": {"type": "file", "file_id": "mark-file"}},
                "document, file",
            ),
            document("messages.0.content.1.title", "mark-title"),
            document("messages.0.content.1.context", "mark-context"),
            document("messages.0.content.1.citations", {"enabled": True}, "document"),
            document("messages.0.content.1.cache_control", CACHE, "document"),
            parts("messages.0.content.1", SEARCH_RESULT, "search_result"),
            parts("messages.0.content.1", {"type": "container_upload", "file_id": "mark-file"}, "container_upload"),
            turns("messages.1.content.0.text", "mark-hi", "of the assistant", instead="Hi"),
            turns(
                "messages.1.content",
                [THINKING, {"type": "text", "text": "Hi"}],
                "thinking",
                idle=_ISSUER,
                instead=[{"type": "text", "text": "Hi"}],
            ),
            turns(
                "messages.1.content",
                [{"type": "redacted_thinking", "data": "mark-secret"}, {"type": "text", "text": "Hi"}],
                "redacted_thinking",
                idle=_ISSUER,
                instead=[{"type": "text", "text": "Hi"}],
            ),
            called("messages.1.content.0.input", {"city": "mark-city"}, "tool_use", instead={}),
            called("messages.1.content.0.cache_control", CACHE, "tool_use"),
            called("messages.1.content.0.caller", {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}),
            called("messages.1.content.0.toolset_name", "mark-toolset", "tool_use"),
            called("messages.2.content.0.content", "mark-sunny", "tool_result", instead="Sunny"),
            called("messages.2.content.0.content", [IMAGE], "tool_result, image", instead="Sunny"),
            called("messages.2.content.0.content", [DOCUMENT], "tool_result, document", instead="Sunny"),
            called("messages.2.content.0.content", [SEARCH_RESULT], "tool_result, search_result", instead="Sunny"),
            called("messages.2.content.0.is_error", True),
            called("messages.2.content.0.cache_control", CACHE, "tool_result"),
            called("messages.2.content.0.toolset_name", "mark-toolset", "tool_result"),
            *(turns("messages.1.content.1", block, str(block["type"])) for block in _SERVER_BLOCKS),
        ),
    ),
    Group(
        "Account, cache and service",
        (
            declared("metadata.user_id"),
            declared("cache_control"),
            declared("container"),
            declared("inference_geo"),
            declared("service_tier"),
            plain("user_profile_id", "mark-profile"),
            plain("workspace_id", "mark-workspace"),
        ),
    ),
)
GROUPS: Final = add_declared(_GROUPS, MessagesBodySchema, {"": BASE, "metadata.": BASE, "tools.0.": WITH_TOOL})
"""With a row for each other member that is declared with an example."""
