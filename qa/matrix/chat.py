"""The fields of ``POST /v1/chat/completions``.

Source: openai-python 3.52, types/chat/completion_create_params.py and the types that it uses.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from qa.matrix.declared import add_declared, declared_row
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
    put,
    row,
)
from tornado_gate_openai.fields.chat import ChatBodySchema

BASE: Final[dict[str, Any]] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CUSTOM: Final[dict[str, Any]] = {"type": "custom", "custom": {"name": "mark-shell"}}
ASKING: Final[dict[str, Any]] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What are the weather and the time?"}],
}
WITH_TOOL: Final = {**ASKING, "tools": [TOOL]}
QUIET: Final = {**BASE, "tools": [TOOL]}
WITH_TOOLS: Final = {**ASKING, "tools": [TOOL, {"type": "function", "function": {"name": "get_time"}}]}
SAYING: Final[dict[str, Any]] = {"model": MODEL, "messages": [{"role": "user", "content": "say one mark-stop two"}]}
WITH_CUSTOM: Final = {**BASE, "tools": [CUSTOM]}
STREAMED: Final = {**BASE, "stream": True}
PARTS: Final = {**BASE, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
CALL: Final[dict[str, Any]] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
CALLED: Final[dict[str, Any]] = {
    **WITH_TOOL,
    "messages": [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
    ],
}
TURNS: Final[dict[str, Any]] = {
    "model": MODEL,
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "How are you?"},
    ],
}
RULED: Final = {**BASE, "messages": [{"role": "system", "content": "A rule"}, *BASE["messages"]]}
DEVELOPED: Final = put(RULED, "messages.0.role", "developer")
LEGACY: Final[dict[str, Any]] = {
    "model": MODEL,
    "functions": [{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}],
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi", "function_call": {"name": "get_weather", "arguments": "{}"}},
        {"role": "function", "name": "get_weather", "content": "Sunny"},
    ],
}
JSON: Final = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
WITH_JSON: Final = {**BASE, "response_format": JSON}
PICTURE_URL: Final = f"data:image/png;base64,{PICTURE}"
IMAGE: Final = {"type": "image_url", "image_url": {"url": PICTURE_URL}}
WITH_IMAGE: Final = put(PARTS, "messages.0.content.1", IMAGE)
AUDIO: Final = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
WITH_AUDIO: Final = put(PARTS, "messages.0.content.1", AUDIO)
FILE: Final = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}
WITH_FILE: Final = put(PARTS, "messages.0.content.1", FILE)
SPOKEN: Final = {**BASE, "modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
BREAK: Final = {"mode": "explicit"}

plain, custom, streamed = (partial(row, base) for base in (BASE, WITH_CUSTOM, STREAMED))
tooled, quiet = partial(row, WITH_TOOL), partial(row, QUIET)
declared = partial(declared_row, ChatBodySchema, BASE)
parts, called, turns, legacy = (partial(row, base) for base in (PARTS, CALLED, TURNS, LEGACY))

_GROUPS: Final = (
    Group(
        "Length and sampling",
        (
            declared("max_completion_tokens"),
            declared("max_tokens"),
            declared("temperature"),
            declared("top_p"),
            declared("n"),
            row(SAYING, "stop", "mark-stop", "a string"),
            row(SAYING, "stop", ["mark-stop", "mark-end"], "an array"),
            declared("seed"),
            declared("presence_penalty"),
            declared("frequency_penalty"),
            declared("logit_bias"),
            declared("logprobs"),
            row({**BASE, "logprobs": True}, "top_logprobs", 2),
        ),
    ),
    Group(
        "The answer",
        (
            plain("response_format", {"type": "text"}, "text", idle=anyway("text is what is answered unless said")),
            plain("response_format", {"type": "json_object"}, "json_object"),
            plain("response_format", JSON, "json_schema"),
            row(WITH_JSON, "response_format.json_schema.name", "mark-name", instead="answer", idle=LABEL),
            declared_row(ChatBodySchema, WITH_JSON, "response_format.json_schema.description"),
            row(WITH_JSON, "response_format.json_schema.strict", True, idle=ALWAYS_STRICT),
            declared("modalities"),
            row({**BASE, "modalities": ["text", "audio"]}, "audio", {"voice": "mark-voice", "format": "wav"}),
            row(SPOKEN, "audio.format", "mp3", instead="wav"),
            row(SPOKEN, "audio.voice", {"id": "mark-own-voice"}, "a voice of the caller's", instead="alloy"),
            plain(
                "reasoning_effort", "none", "none", instead="high", idle=anyway("some models never think", "anthropic")
            ),
            *(plain("reasoning_effort", word, word) for word in ("minimal", "low", "high", "xhigh")),
            declared("verbosity"),
            declared("prediction"),
            declared("stream"),
            streamed(
                "stream_options.include_usage",
                True,
                idle=answer_only(
                    "usage is requested from the upstream for every stream, and shown to callers that request it"
                ),
            ),
            declared_row(ChatBodySchema, STREAMED, "stream_options.include_obfuscation"),
        ),
    ),
    Group(
        "Tools",
        (
            row(ASKING, "tools", [TOOL], "function"),
            tooled("tools.0.function.description", "mark-description"),
            tooled(
                "tools.0.function.parameters",
                {"type": "object", "properties": {"mark-place": {"type": "string"}}},
                instead=TOOL["function"]["parameters"],
            ),
            tooled("tools.0.function.strict", True, idle=TOOLS_STRICT),
            plain("tools", [CUSTOM], "custom"),
            custom("tools.0.custom.description", "mark-description"),
            custom(
                "tools.0.custom.format",
                {"type": "grammar", "grammar": {"syntax": "regex", "definition": "mark-[a-z]+"}},
            ),
            tooled("tool_choice", "auto", "auto", idle=anyway("tools are called when the model wants to")),
            tooled("tool_choice", "none", "none"),
            quiet("tool_choice", "required", "required"),
            quiet("tool_choice", {"type": "function", "function": {"name": "get_weather"}}, "function"),
            custom("tool_choice", {"type": "custom", "custom": {"name": "mark-shell"}}, "custom"),
            quiet(
                "tool_choice",
                {
                    "type": "allowed_tools",
                    "allowed_tools": {
                        "mode": "required",
                        "tools": [{"type": "function", "function": {"name": "get_weather"}}],
                    },
                },
                "allowed_tools",
            ),
            row(WITH_TOOLS, "parallel_tool_calls", False),
            plain("functions", LEGACY["functions"]),
            row({**BASE, "functions": LEGACY["functions"]}, "function_call", {"name": "get_weather"}),
            declared("web_search_options"),
        ),
    ),
    Group(
        "Messages",
        (
            plain("messages.0.content", "mark-hello", "a string", instead="Hello"),
            plain("messages.0.name", "mark-name"),
            row(RULED, "messages.0.content", "mark-rule", "of the system", instead="A rule"),
            row(
                put(RULED, "messages.0.role", "developer"),
                "messages.0.content",
                "mark-rule",
                "of a developer",
                instead="A rule",
            ),
            plain("messages.1", {"role": "system", "content": "mark-rule"}, "system, later"),
            plain("messages.1", {"role": "developer", "content": "mark-rule"}, "developer, later"),
            parts("messages.0.content.1", {"type": "text", "text": "mark-more"}, "text"),
            parts("messages.0.content.0.prompt_cache_breakpoint", BREAK),
            parts("messages.0.content.1", IMAGE, "image_url, data"),
            parts(
                "messages.0.content.1",
                {"type": "image_url", "image_url": {"url": "https://pictures.example/mark-picture.png"}},
                "image_url, link",
            ),
            row(WITH_IMAGE, "messages.0.content.1.image_url.detail", "low"),
            row(WITH_IMAGE, "messages.0.content.1.prompt_cache_breakpoint", BREAK, "image_url"),
            parts("messages.0.content.1", AUDIO, "input_audio"),
            row(WITH_AUDIO, "messages.0.content.1.prompt_cache_breakpoint", BREAK, "input_audio"),
            parts("messages.0.content.1", FILE, "file, data"),
            parts("messages.0.content.1", {"type": "file", "file": {"file_id": "mark-file"}}, "file, id"),
            row(WITH_FILE, "messages.0.content.1.file.filename", "mark-file.pdf"),
            row(WITH_FILE, "messages.0.content.1.prompt_cache_breakpoint", BREAK, "file"),
            turns("messages.1.content", "mark-hi", "of the assistant", instead="Hi"),
            turns("messages.1.name", "mark-name", "of the assistant"),
            turns("messages.1.refusal", "mark-no"),
            turns("messages.1.content", [{"type": "refusal", "refusal": "mark-no"}], "refusal", instead="Hi"),
            turns("messages.1.audio", {"id": "mark-audio"}),
            called(
                "messages.1.tool_calls",
                [put(CALL, "function.arguments", '{"city": "mark-city"}')],
                "function",
                instead=[CALL],
            ),
            called(
                "messages.1.tool_calls",
                [{"id": "call_1", "type": "custom", "custom": {"name": "shell", "input": "mark-ls"}}],
                "custom",
                instead=[CALL],
            ),
            called("messages.1.tool_calls.0.function.arguments", '{"city": "mark-city"}', instead="{}"),
            called("messages.2.content", "mark-sunny", "of a tool", instead="Sunny"),
            called("messages.2.content", [{"type": "text", "text": "mark-sunny"}], "of a tool, parts", instead="Sunny"),
            legacy(
                "messages.1.function_call",
                {"name": "get_weather", "arguments": '{"city": "mark-city"}'},
                instead=LEGACY["messages"][1]["function_call"],
            ),
            legacy(
                "messages.2",
                {"role": "function", "name": "get_weather", "content": "mark-sunny"},
                "function",
                instead=LEGACY["messages"][2],
            ),
        ),
    ),
    Group(
        "Account, cache and service",
        (
            declared("user"),
            declared("safety_identifier"),
            declared("metadata"),
            declared("store"),
            declared("service_tier"),
            declared("moderation"),
            declared("prompt_cache_key"),
            declared("prompt_cache_options"),
            declared("prompt_cache_retention"),
        ),
    ),
)
GROUPS: Final = add_declared(_GROUPS, ChatBodySchema, {"": BASE})
