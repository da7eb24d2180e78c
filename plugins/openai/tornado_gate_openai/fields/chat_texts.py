"""Texts of OpenAI's chat completions and text completions.

Sources: openai-python 3.52, types/chat/ and types/completion.py; members of other vendors, such as
``reasoning_content``.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Derived,
    JsonText,
    Object,
    Offset,
    Shape,
    Text,
    TextMap,
    words,
)
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, ROLES, SCHEMA, USAGE

FILE: Final = Object(members={"file_data": MEDIA, "filename": OTHER, **words("file_id")})
PART: Final = Object(
    members={
        **words("type"),
        "text": TEXT,
        "refusal": TEXT,
        "image_url": Object(members={"url": MEDIA, **words("detail")}, string=MEDIA),
        "video_url": Object(members={"url": MEDIA}, string=MEDIA),
        "input_audio": Object(members={"data": DATA, **words("format")}, string=MEDIA),
        "file": FILE,
        "cache_control": CACHE_CONTROL,
        "prompt_cache_breakpoint": CACHE_CONTROL,
    }
)
PART.members["content"] = PART
_CITATION: Final = Object(
    kind="other",
    members={
        **words("type"),
        "url_citation": Object(
            kind="other", members={"start_index": Offset(of="^^^content"), "end_index": Offset(of="^^^content")}
        ),
    },
)
_SIGNED_EXTRA: Final = Object(kind="other", members={"google": Object(members={"thought_signature": DATA})})
FUNCTION_TOOL: Final = Object(
    kind="other",
    members={
        **words("type", "name"),
        "parameters": SCHEMA,
        "format": Object(members={**words("type"), "grammar": Object(members=words("syntax")), **words("syntax")}),
        "cache_control": CACHE_CONTROL,
    },
)
FUNCTION_TOOL.members.update(dict.fromkeys(("function", "custom"), FUNCTION_TOOL))
TOOL_CHOICE: Final = Object(kind="other", members=words("type", "name", "mode", "server_label"))
TOOL_CHOICE.members.update(dict.fromkeys(("function", "custom", "tools", "allowed_tools"), TOOL_CHOICE))
TOOL_CHOICE_OR_WORD: Final = Object(kind="other", members=TOOL_CHOICE.members, string=WORD)


def _make_call(*, delta: bool) -> Object:
    arguments = JsonText(kind="tool_call", delta=delta)
    return Object(
        members={
            **words("id", "type"),
            "function": Object(members={**words("name"), "arguments": arguments}),
            "custom": Object(members={**words("name"), "input": Text(kind="tool_call", delta=delta)}),
            "extra_content": _SIGNED_EXTRA,
        },
        place="tool_calls.{index}" if delta else "",
    )


_THINKING: Final = ("reasoning_content", "reasoning", "thinking")


def _make_message(*, delta: bool) -> Object:
    """The shape of a message, or of a piece of one."""
    said = Text(delta=delta)
    members: dict[str, Shape] = {
        **words("role", "tool_call_id", "phase"),
        "content": said if delta else PART,
        "refusal": said,
        **dict.fromkeys(_THINKING, Text(kind="reasoning", delta=delta)),
        "reasoning_details": Object(
            kind="reasoning",
            members={
                **words("type", "id", "format"),
                "text": Text(delta=delta),
                "summary": Text(delta=delta),
                "data": DATA,
                "signature": DATA,
            },
            place="reasoning_details.{index}" if delta else "",
        ),
        "tool_calls": _make_call(delta=delta),
        "function_call": Object(
            members={**words("name"), "arguments": JsonText(kind="tool_call", delta=delta)},
        ),
        "audio": Object(members={**words("id"), "data": DATA, "transcript": Text(kind="assistant", delta=delta)}),
        "annotations": _CITATION,
        "extra_content": _SIGNED_EXTRA,
        "cache_control": CACHE_CONTROL,
    }
    if delta:
        ends = dict.fromkeys(("content", "tool_calls"), (*_THINKING, "reasoning_details"))
        return Object(members=members, kind="assistant", place="message", ends=ends)
    return Object(members=members, kinds={"role": ROLES})


MESSAGE: Final = _make_message(delta=False)
RESPONSE_FORMAT: Final = Object(kind="other", members={**words("type", "name"), "schema": SCHEMA})
RESPONSE_FORMAT.members["json_schema"] = RESPONSE_FORMAT

CHAT_REQUEST: Final = Object(
    kind="other",
    members={
        **words("model", "modalities", "reasoning_effort", "service_tier", "verbosity", "prompt_cache_retention"),
        "messages": MESSAGE,
        "prediction": Object(kind="assistant", members={**words("type"), "content": PART}),
        "tools": FUNCTION_TOOL,
        "functions": FUNCTION_TOOL,
        "tool_choice": TOOL_CHOICE_OR_WORD,
        "function_call": TOOL_CHOICE_OR_WORD,
        "response_format": RESPONSE_FORMAT,
        "audio": Object(kind="other", members=words("voice", "format")),
        "reasoning": Object(kind="other", members=words("effort", "summary")),
        "web_search_options": Object(
            kind="other",
            members={**words("search_context_size"), "user_location": Object(kind="other", members=words("type"))},
        ),
        "cache_control": CACHE_CONTROL,
        "prompt_cache_options": CACHE_CONTROL,
    },
)
_ENVELOPE: Final = {
    **words("id", "object", "model", "system_fingerprint", "service_tier", "provider"),
    "obfuscation": DATA,
    "usage": USAGE,
    "error": ERROR,
}
_CHOICE: Final = {**words("finish_reason", "native_finish_reason"), "logprobs": Derived()}


def _make_events(choice: dict[str, Shape]) -> Object:
    piece = Object(
        kind="assistant",
        members={**_CHOICE, **choice},
        place="choices.{index}",
        ends={"finish_reason": ("",)},
    )
    return Object(kind="other", members={**_ENVELOPE, "choices": piece}, ends={"error": ("/",)})


CHAT: Final = TextMap(
    request=CHAT_REQUEST,
    response=Object(
        kind="other",
        members={**_ENVELOPE, "choices": Object(kind="assistant", members={**_CHOICE, "message": MESSAGE})},
    ),
    event=_make_events({"delta": _make_message(delta=True)}),
)
COMPLETIONS: Final = TextMap(
    request=Object(
        kind="other",
        members={**words("model", "service_tier"), "prompt": Text(kind="user"), "suffix": Text(kind="user")},
    ),
    response=Object(
        kind="other",
        members={**_ENVELOPE, "choices": Object(kind="assistant", members={**_CHOICE, "text": TEXT})},
    ),
    event=_make_events({"text": Text(delta=True)}),
)
