"""The fields of ``POST /v1/responses``.

Source: openai-python 3.52, types/responses/response_create_params.py and the types that it uses.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.fields import (
    ALWAYS_STRICT,
    LABEL,
    MODEL,
    PDF,
    PICTURE,
    SCHEMA,
    SOUND,
    TOOLS_STRICT,
    Group,
    answer_only,
    anyway,
    issuer_only,
    put,
    row,
)

PREVIOUS: Final = "resp_of_an_earlier_turn"
CONVERSATION: Final = "conv_of_an_earlier_turn"
"""Stands for the id of a response that the gateway has kept; the walk knows which."""

USER: Final[dict[str, Any]] = {"role": "user", "content": "Hello"}
BASE: Final[dict[str, Any]] = {"model": MODEL, "input": [USER]}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
CUSTOM: Final[dict[str, Any]] = {"type": "custom", "name": "mark-shell"}
ASKING: Final[dict[str, Any]] = {
    "model": MODEL,
    "input": [{"role": "user", "content": "What are the weather and the time?"}],
}
WITH_TOOL: Final = {**ASKING, "tools": [TOOL]}
QUIET: Final = {**BASE, "tools": [TOOL]}
WITH_TOOLS: Final = {**ASKING, "tools": [TOOL, {**TOOL, "name": "get_time"}]}
WITH_CUSTOM: Final = {**BASE, "tools": [CUSTOM]}
STREAMED: Final = {**BASE, "stream": True}
PARTS: Final = {**BASE, "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]}
TURNS: Final[dict[str, Any]] = {
    **BASE,
    "input": [USER, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "How are you?"}],
}
CALL: Final[dict[str, Any]] = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city": "Paris"}',
}
RESULT: Final[dict[str, Any]] = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"}
CALLED: Final[dict[str, Any]] = {**WITH_TOOL, "input": [USER, CALL, RESULT]}
CUSTOM_CALL: Final[dict[str, Any]] = {"type": "custom_tool_call", "call_id": "call_1", "name": "shell", "input": "ls"}
CUSTOM_CALLED: Final[dict[str, Any]] = {
    **WITH_CUSTOM,
    "input": [USER, CUSTOM_CALL, {"type": "custom_tool_call_output", "call_id": "call_1", "output": "none"}],
}
THOUGHT: Final[dict[str, Any]] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "mark-thought"}],
}
JSON: Final[dict[str, Any]] = {"type": "json_schema", "name": "answer", "schema": SCHEMA}
WITH_JSON: Final = {**BASE, "text": {"format": JSON}}
REASONED: Final = {**BASE, "reasoning": {"effort": "low"}}
IMAGE: Final[dict[str, Any]] = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
WITH_IMAGE: Final = put(PARTS, "input.0.content.1", IMAGE)
FILE: Final[dict[str, Any]] = {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"}
WITH_FILE: Final = put(PARTS, "input.0.content.1", FILE)
AUDIO: Final = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
BREAK: Final = {"mode": "explicit"}
LOGPROBS: Final = ["message.output_text.logprobs"]

quiet = partial(row, QUIET)
plain, tooled, custom, reasoned = (partial(row, base) for base in (BASE, WITH_TOOL, WITH_CUSTOM, REASONED))
parts, turns, called, custom_called = (partial(row, base) for base in (PARTS, TURNS, CALLED, CUSTOM_CALLED))

_KEPT: Final = answer_only("the gateway itself keeps the turn")
_BOOKKEEPING: Final = anyway("an item's id and state are bookkeeping without meaning for a model")
_CHOICES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("function", {"type": "function", "name": "get_weather"}),
    (
        "allowed_tools",
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
    ),
    ("mcp", {"type": "mcp", "server_label": "mark-server"}),
    ("apply_patch", {"type": "apply_patch"}),
    ("shell", {"type": "shell"}),
    ("programmatic_tool_calling", {"type": "programmatic_tool_calling"}),
)
_TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "file_search", "vector_store_ids": ["mark-store"]},
    {"type": "web_search"},
    {"type": "web_search_preview"},
    {"type": "computer"},
    {"type": "computer_use_preview", "display_width": 800, "display_height": 600, "environment": "browser"},
    {"type": "mcp", "server_label": "mark-server", "server_url": "https://mcp.example/"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "programmatic_tool_calling"},
    {"type": "image_generation"},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "namespace", "name": "mark-space", "description": "tools", "tools": [TOOL]},
    {"type": "tool_search"},
    {"type": "apply_patch"},
)
_ITEMS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "web_search_call", "id": "mark-item", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "image_generation_call", "id": "mark-item", "status": "completed", "result": PICTURE},
    {"type": "computer_call_output", "call_id": "mark-item", "output": {"type": "computer_screenshot"}},
    {"type": "mcp_approval_response", "approval_request_id": "mark-item", "approve": True},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "mark-secret"},
)

GROUPS: Final = (
    Group(
        "Length and sampling",
        (
            plain("max_output_tokens", 2),
            plain("temperature", 0.5),
            plain("top_p", 0.5),
            plain("top_logprobs", 2),
            plain("max_tool_calls", 2),
            plain("truncation", "auto"),
        ),
    ),
    Group(
        "The answer",
        (
            plain("text.format", {"type": "text"}, "text", idle=anyway("text is what is answered unless said")),
            plain("text.format", {"type": "json_object"}, "json_object"),
            plain("text.format", JSON, "json_schema"),
            row(WITH_JSON, "text.format.name", "mark-name", instead="answer", idle=LABEL),
            row(WITH_JSON, "text.format.description", "mark-description"),
            row(WITH_JSON, "text.format.strict", True, idle=ALWAYS_STRICT),
            plain("text.verbosity", "low"),
            plain(
                "reasoning.effort", "none", "none", instead="high", idle=anyway("some models never think", "anthropic")
            ),
            *(plain("reasoning.effort", word, word) for word in ("minimal", "low", "high", "xhigh")),
            reasoned(
                "reasoning.summary", "auto", idle=anyway("thoughts are shown unasked there", "anthropic", "local")
            ),
            reasoned("reasoning.generate_summary", "auto"),
            reasoned("reasoning.context", "all_turns"),
            reasoned("reasoning.mode", "pro"),
            plain("include", LOGPROBS, LOGPROBS[0]),
            plain(
                "include",
                ["reasoning.encrypted_content"],
                "reasoning.encrypted_content",
                idle=answer_only("what the upstream gives of it is kept from callers who did not ask"),
            ),
            plain("include", ["file_search_call.results"], "file_search_call.results"),
            plain("stream", True),
            row(STREAMED, "stream_options.include_obfuscation", True),
            plain("background", True),
            plain("image.context_compression", "enabled"),
        ),
    ),
    Group(
        "Tools",
        (
            row(ASKING, "tools", [TOOL], "function"),
            tooled("tools.0.description", "mark-description"),
            tooled(
                "tools.0.parameters",
                {"type": "object", "properties": {"mark-place": {"type": "string"}}},
                instead=TOOL["parameters"],
            ),
            tooled("tools.0.strict", True, instead=False, idle=TOOLS_STRICT),
            tooled("tools.0.allowed_callers", ["direct"]),
            tooled("tools.0.defer_loading", True),
            tooled("tools.0.output_schema", SCHEMA),
            tooled("tools.0.async", True),
            plain("tools", [CUSTOM], "custom"),
            custom("tools.0.description", "mark-description", "custom"),
            custom("tools.0.format", {"type": "grammar", "syntax": "regex", "definition": "mark-[a-z]+"}, "custom"),
            *(plain("tools", [tool], str(tool["type"])) for tool in _TOOLS),
            tooled("tool_choice", "auto", "auto", idle=anyway("tools are called when the model wants to")),
            tooled("tool_choice", "none", "none"),
            quiet("tool_choice", "required", "required"),
            *(quiet("tool_choice", value, kind) for kind, value in _CHOICES),
            custom("tool_choice", {"type": "custom", "name": "mark-shell"}, "custom"),
            row({**BASE, "tools": [{"type": "web_search"}]}, "tool_choice", {"type": "web_search"}, "web_search"),
            row(WITH_TOOLS, "parallel_tool_calls", False),
        ),
    ),
    Group(
        "The conversation",
        (
            plain("instructions", "mark-rule"),
            plain("input", "mark-hello", "a string", instead=[USER]),
            plain("input.0.content", "mark-hello", "a string", instead="Hello"),
            plain("input.1", {"role": "system", "content": "mark-rule"}, "system"),
            plain("input.1", {"role": "developer", "content": "mark-rule"}, "developer"),
            parts("input.0.content.1", {"type": "input_text", "text": "mark-more"}, "input_text"),
            parts("input.0.content.0.prompt_cache_breakpoint", BREAK),
            parts("input.0.content.1", IMAGE, "input_image, data"),
            parts(
                "input.0.content.1",
                {"type": "input_image", "image_url": "https://pictures.example/mark-picture.png"},
                "input_image, link",
            ),
            parts("input.0.content.1", {"type": "input_image", "file_id": "mark-file"}, "input_image, id"),
            row(WITH_IMAGE, "input.0.content.1.detail", "low", "input_image"),
            row(WITH_IMAGE, "input.0.content.1.prompt_cache_breakpoint", BREAK, "input_image"),
            parts("input.0.content.1", FILE, "input_file, data"),
            parts(
                "input.0.content.1",
                {"type": "input_file", "file_url": "https://files.example/mark-file.pdf"},
                "input_file, link",
            ),
            parts("input.0.content.1", {"type": "input_file", "file_id": "mark-file"}, "input_file, id"),
            row(WITH_FILE, "input.0.content.1.filename", "mark-file.pdf"),
            row(WITH_FILE, "input.0.content.1.detail", "low", "input_file"),
            parts("input.0.content.1", AUDIO, "input_audio"),
            turns("input.1.content", "mark-hi", "of the assistant", instead="Hi"),
            turns(
                "input.1.content",
                [{"type": "output_text", "text": "mark-hi", "annotations": []}],
                "output_text",
                instead="Hi",
            ),
            turns("input.1.content", [{"type": "refusal", "refusal": "mark-no"}], "refusal", instead="Hi"),
            turns("input.1.phase", "commentary"),
            turns("input.1.id", "msg_1", idle=_BOOKKEEPING),
            turns("input.1.status", "completed", idle=_BOOKKEEPING),
            called("input.1.arguments", '{"city": "mark-city"}', "function_call", instead="{}"),
            called("input.2.output", "mark-sunny", "function_call_output", instead="Sunny"),
            called(
                "input.2.output",
                [{"type": "input_text", "text": "mark-sunny"}],
                "function_call_output, parts",
                instead="Sunny",
            ),
            called("input.2.output", [IMAGE], "function_call_output, input_image", instead="Sunny"),
            custom_called("input.1.input", "mark-ls", "custom_tool_call", instead="ls"),
            custom_called("input.2.output", "mark-files", "custom_tool_call_output", instead="none"),
            turns("input.1", THOUGHT, "reasoning", instead={"role": "assistant", "content": "Hi"}),
            row(
                put(TURNS, "input.1", {**THOUGHT, "summary": []}),
                "input.1.encrypted_content",
                "mark-secret",
                idle=issuer_only("only the upstream that encrypted it can read it"),
            ),
            plain("input.1", {"type": "item_reference", "id": "mark-item"}, "item_reference"),
            *(plain("input.1", item, str(item["type"])) for item in _ITEMS),
            plain("previous_response_id", PREVIOUS),
            plain("conversation", CONVERSATION),
            plain("prompt", {"id": "mark-prompt"}),
            plain("context_management", [{"type": "compaction", "compact_threshold": 1000}]),
        ),
    ),
    Group(
        "Account, cache and service",
        (
            plain("store", False, "false", idle=_KEPT),
            plain("store", True, "true", idle=_KEPT),
            plain("user", "mark-user"),
            plain("safety_identifier", "mark-person"),
            plain("metadata", {"team": "mark-team"}),
            plain("service_tier", "flex"),
            plain("moderation", {"model": "mark-moderation"}),
            plain("access_programs", {"cyber": "standard"}),
            plain("prompt_cache_key", "mark-key"),
            plain("prompt_cache_options", {"mode": "explicit"}),
            plain("prompt_cache_retention", "24h"),
        ),
    ),
)
