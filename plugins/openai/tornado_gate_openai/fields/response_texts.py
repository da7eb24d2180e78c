"""Texts of OpenAI's Responses API: requests, responses, stored responses and items, conversations, and the events of a
stream.

The events that repeat a text (``response.output_text.done``, ``response.completed``) have the place that it has in the
response. Source: openai-python 3.52, types/responses/.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.text_maps import (
    DATA,
    MEDIA,
    OTHER,
    TEXT,
    WORD,
    Data,
    Derived,
    Events,
    JsonText,
    Object,
    Offset,
    Shape,
    Text,
    TextMap,
    at_place,
    words,
)
from tornado_gate.types.texts import TextKind
from tornado_gate.wire.text_shapes import CACHE_CONTROL, ERROR, ROLES, SCHEMA, USAGE
from tornado_gate_openai.fields.tools import TOOL_CHOICE_SHAPE

SUMMARY_PREFIX: Final = "tornado-gate.summary.1."
"""The start of ``encrypted_content`` of the gateway's compaction items; base64 of JSON with the summary follows."""

_ITEM_KINDS: Final[dict[str, TextKind]] = {
    "message": "assistant",
    "reasoning": "reasoning",
    **dict.fromkeys(
        (
            "apply_patch_call", "code_interpreter_call", "computer_call", "custom_tool_call", "file_search_call",
            "function_call", "image_generation_call", "local_shell_call", "mcp_approval_request", "mcp_call", "program",
            "shell_call", "tool_search_call", "web_search_call",
        ),
        "tool_call",
    ),
    **dict.fromkeys(
        (
            "apply_patch_call_output", "computer_call_output", "custom_tool_call_output", "function_call_output",
            "local_shell_call_output", "mcp_approval_response", "program_output", "shell_call_output",
        ),
        "tool_result",
    ),
}  # fmt: skip
_PART_KINDS: Final[dict[str, TextKind]] = {
    "output_text": "assistant",
    "refusal": "assistant",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}
ANNOTATION: Final = Object(
    kind="other",
    members={
        **words("type", "file_id", "container_id"),
        "start_index": Offset(of="^^text"),
        "end_index": Offset(of="^^text"),
    },
)
PART: Final = Object(
    members={
        **words("type", "detail", "file_id", "status"),
        "text": TEXT,
        "refusal": TEXT,
        "transcript": TEXT,
        "image_url": MEDIA,
        "file_data": MEDIA,
        "audio": DATA,
        "input_audio": Object(members={"data": DATA, **words("format")}),
        "annotations": ANNOTATION,
        "logprobs": Derived(empty=[]),
        "prompt_cache_breakpoint": CACHE_CONTROL,
    },
    kinds={"type": _PART_KINDS},
)
TOOL: Final = Object(
    kind="other",
    members={
        **words(
            "type", "name", "server_label", "search_context_size", "model", "size", "quality", "background", "strict"
        ),
        **words(
            "output_format", "moderation", "input_fidelity", "action", "environment", "allowed_callers", "execution"
        ),
        **words("vector_store_ids", "connector_id", "syntax", "file_ids", "memory_limit", "search_content_types"),
        "parameters": SCHEMA,
        "output_schema": SCHEMA,
        "input_schema": SCHEMA,
        "input_image_mask": Object(kind="other", members={"image_url": MEDIA, **words("file_id")}),
        "user_location": Object(kind="other", members=words("type")),
    },
)
TOOL.members.update(
    {"tools": TOOL, "format": TOOL, "container": Object(kind="other", members=TOOL.members, string=WORD)}
)
_CALLER: Final = Object(kind="other", members=words("type", "caller_id"))
_CHECK: Final = Object(kind="other", members=words("id", "code"))
_ITEM_MEMBERS: Final[dict[str, Shape]] = {
    **words(
        "id", "type", "object", "status", "role", "call_id", "name", "namespace", "phase", "server_label", "execution"
    ),
    **words("approval_request_id", "container_id", "created_by", "max_output_length"),
    "fingerprint": DATA,
    "encrypted_content": Data(json_after=SUMMARY_PREFIX),
    "content": PART,
    "summary": PART,
    "arguments": JsonText(kind="tool_call"),
    "input": Text(kind="tool_call"),
    "code": Text(kind="tool_call"),
    "output": Object(kind="tool_result", members={**PART.members, "outcome": _CHECK}, others=TEXT),
    "outputs": Object(kind="tool_result", members={**words("type"), "url": MEDIA}, others=TEXT),
    "results": Object(kind="tool_result", members=words("file_id"), others=TEXT),
    "action": Object(members=words("type", "button"), others=TEXT),
    "operation": Object(members=words("type"), others=TEXT),
    "environment": Object(members=words("type", "container_id"), others=TEXT),
    "queries": TEXT,
    "result": TEXT,
    "stdout": TEXT,
    "stderr": TEXT,
    "caller": _CALLER,
    "pending_safety_checks": _CHECK,
    "acknowledged_safety_checks": _CHECK,
    "tools": TOOL,
    "error": ERROR,
}
_ITEM: Final = Object(members=_ITEM_MEMBERS, kinds={"role": ROLES, "type": _ITEM_KINDS})
_IMAGE_CALL: Final = Object(
    members={
        **_ITEM_MEMBERS,
        **words("size", "quality", "background", "output_format", "action"),
        "result": DATA,
    },
    kind="tool_call",
)
ITEM: Final = Events(shapes={"image_generation_call": _IMAGE_CALL}, other=_ITEM)


def _make_items(kind: TextKind) -> Events:
    """Return the shape of items or of a string that are input of a kind."""
    return Events(shapes=ITEM.shapes, other=Object(members=_ITEM_MEMBERS, kinds=_ITEM.kinds, kind=kind))


_INPUT_ITEM: Final = _make_items("user")

_BOTH: Final[dict[str, Shape]] = {
    **words("id", "object", "status", "model", "service_tier", "truncation", "previous_response_id", "conversation_id"),
    **words("prompt_cache_retention", "include"),
    "conversation": Object(kind="other", members=words("id"), string=WORD),
    "instructions": _make_items("system"),
    "tools": TOOL,
    "tool_choice": TOOL_CHOICE_SHAPE,
    "text": Object(kind="other", members={**words("verbosity"), "format": TOOL}),
    "reasoning": Object(kind="other", members=words("effort", "summary", "generate_summary", "mode", "context")),
    "prompt": Object(
        kind="other", members={**words("id", "version"), "variables": Object(kind="user", members=PART.members)}
    ),
    "prompt_cache_options": CACHE_CONTROL,
    "usage": USAGE,
    "error": ERROR,
    "incomplete_details": ERROR,
    "context_management": CACHE_CONTROL,
}
TOOL.members["schema"] = SCHEMA
RESPONSE: Final = Object(kind="other", members={**_BOTH, "output": ITEM})
REQUEST: Final = Object(
    kind="other",
    members={
        **_BOTH,
        "input": _INPUT_ITEM,
    },
)

_OUTPUT: Final = "output.{output_index}"
_CONTENT: Final = f"{_OUTPUT}.content.{{content_index}}"
_SUMMARY: Final = f"{_OUTPUT}.summary.{{summary_index}}"
_COMMAND: Final = f"{_OUTPUT}.action.commands.{{command_index}}"
_EVENT: Final[dict[str, Shape]] = {
    **words("type", "item_id", "response_id", "event_id", "object", "stream_id"),
    "obfuscation": DATA,
}


def _make_event(**members: Shape) -> Object:
    return Object(kind="other", members={**_EVENT, **members})


def _make_pair(name: str, place: str, kind: TextKind, done: str = "text", **others: Shape) -> dict[str, Shape]:
    """Return the shapes of the events with pieces of a text, and of the event that repeats it as a whole."""
    return {
        f"response.{name}.delta": _make_event(delta=Text(kind=kind, delta=True, place=place), **others),
        f"response.{name}.done": _make_event(**{done: Text(kind=kind, place=place)}, **others),
    }


def _make_json_pair(name: str, place: str) -> dict[str, Shape]:
    named = words("name")
    return {
        f"response.{name}.delta": _make_event(delta=JsonText(kind="tool_call", delta=True, place=place), **named),
        f"response.{name}.done": _make_event(arguments=JsonText(kind="tool_call", place=place), **named),
    }


def _make_whole(*names: str, ends: bool) -> dict[str, Shape]:
    members = {**_EVENT, "response": at_place(RESPONSE, "/")}
    shape = Object(kind="other", members=members, ends={"type": ("/",)} if ends else {})
    return {f"response.{name}": shape for name in names}


_SHELL_OUTPUT: Final = f"{_OUTPUT}.output.{{command_index}}"
_SHELL_TEXTS: Final[dict[str, Shape]] = {"stdout": TEXT, "stderr": TEXT, "outcome": _CHECK}
EVENTS: Final = Events(
    shapes={
        **_make_pair("output_text", f"{_CONTENT}.text", "assistant", logprobs=Derived(of=_CONTENT, empty=[])),
        **_make_pair("refusal", f"{_CONTENT}.refusal", "assistant", "refusal"),
        **_make_pair("reasoning_text", f"{_CONTENT}.text", "reasoning"),
        **_make_pair("reasoning_summary_text", f"{_SUMMARY}.text", "reasoning"),
        **_make_json_pair("function_call_arguments", f"{_OUTPUT}.arguments"),
        **_make_json_pair("mcp_call_arguments", f"{_OUTPUT}.arguments"),
        **_make_pair("custom_tool_call_input", f"{_OUTPUT}.input", "tool_call", "input"),
        **_make_pair("code_interpreter_call_code", f"{_OUTPUT}.code", "tool_call", "code"),
        **_make_pair("shell_call_command", _COMMAND, "tool_call", "command"),
        "response.shell_call_command.added": _make_event(command=Text(kind="tool_call", delta=True, place=_COMMAND)),
        "response.shell_call_output_content.delta": _make_event(
            delta=Object(
                kind="tool_result",
                place=_SHELL_OUTPUT,
                members=dict.fromkeys(("stdout", "stderr"), Text(delta=True)),
            )
        ),
        "response.shell_call_output_content.done": _make_event(
            output=Object(kind="tool_result", place=_SHELL_OUTPUT, members=_SHELL_TEXTS)
        ),
        "response.audio.transcript.delta": _make_event(delta=Text(kind="assistant", delta=True, place="/transcript")),
        "response.audio.transcript.done": Object(members=_EVENT, kind="other", ends={"type": ("/transcript",)}),
        "response.audio.delta": _make_event(delta=DATA),
        "response.output_text.annotation.added": _make_event(
            annotation=at_place(ANNOTATION, f"{_CONTENT}.annotations.{{annotation_index}}")
        ),
        **dict.fromkeys(
            ("response.content_part.added", "response.content_part.done"), _make_event(part=at_place(PART, _CONTENT))
        ),
        **dict.fromkeys(
            ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
            Object(kind="reasoning", members={**_EVENT, **words("status"), "part": at_place(PART, _SUMMARY)}),
        ),
        **dict.fromkeys(
            ("response.output_item.added", "response.output_item.done"), _make_event(item=at_place(ITEM, _OUTPUT))
        ),
        "response.image_generation_call.partial_image": _make_event(
            partial_image_b64=DATA, **words("size", "quality", "background", "output_format")
        ),
        **_make_whole("created", "queued", "in_progress", ends=False),
        **_make_whole("completed", "failed", "incomplete", ends=True),
        "error": Object(
            kind="other", members={**_EVENT, **words("code", "param"), "error": ERROR}, ends={"type": ("/",)}
        ),
    },
    other=Object(kind="other", members={**_EVENT, "error": ERROR}, ends={"error": ("/",)}),
)

RESPONSES: Final = TextMap(request=REQUEST, response=RESPONSE, event=EVENTS)
COMPACTIONS: Final = TextMap(request=REQUEST, response=RESPONSE)
_LIST_MEMBERS: Final[dict[str, Shape]] = {**words("object", "id", "first_id", "last_id"), "metadata": OTHER}
ITEMS: Final = TextMap(
    request=Object(
        kind="other",
        members={
            **_LIST_MEMBERS,
            "items": _INPUT_ITEM,
        },
    ),
    response=Events(
        shapes={"list": Object(kind="other", members={**_LIST_MEMBERS, "data": ITEM})},
        other=Events(shapes={"conversation": Object(kind="other", members=_LIST_MEMBERS)}, other=ITEM, name="object"),
        name="object",
    ),
)
"""Conversations, their items, and the input items of stored responses."""
COUNT: Final = TextMap(request=REQUEST, response=Object(kind="other", members=words("object")))
