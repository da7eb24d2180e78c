"""Whole responses: body to `ChatResult` (client half, lenient), and back (server half). No I/O.

Source: openai-python 3.52, types/responses/response.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.codec.counts import read_count
from tornado_gate.errors import UpstreamError
from tornado_gate.http.upstream_errors import response_failed
from tornado_gate.types import ChatResult, Choice, Data, Image, Part, Refusal, Text, ToolCall
from tornado_gate.types.value import replace
from tornado_gate_openai.wire.chat.citations import parse_annotations
from tornado_gate_openai.wire.responses.errors import find_error
from tornado_gate_openai.wire.responses.message_parser import parse_call, parse_reasoning
from tornado_gate_openai.wire.responses.output_items import ItemIdMaker, render_output
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT, parse_part
from tornado_gate_openai.wire.responses.server_tools import parse_vendor_item
from tornado_gate_openai.wire.responses.usage import parse_reason, parse_usage, render_status, render_usage

TOP_EXTRA: Final = ("service_tier",)
"""The members of `ChatResult.extra` that exist in this format."""

_ECHOED_DEFAULTS: Final[Mapping[str, Any]] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Request fields that a response repeats, and the vendor's defaults if the request does not have them.

Source: the Open Responses specification (openresponses.org, `ResponseResource`, read 2026-11), which requires numbers where
openai-python allows null.
"""

_FUNCTION_TOOL_DEFAULTS: Final[Mapping[str, Any]] = {"description": None, "parameters": None, "strict": None}
"""Members of a function tool that are required where a response repeats it (the same source, `FunctionTool`)."""


def parse_response(body: Any) -> ChatResult:
    """Parse a whole response. Raises the upstream's error, or UpstreamError if the body is not a finished response."""
    if (error := find_error(body)) is not None:
        raise error
    output = body.get("output") if isinstance(body, Mapping) else None
    if not isinstance(output, list) or body.get("status") in ("queued", "in_progress"):
        raise UpstreamError(
            "The upstream returned JSON that is not a finished response.", advice="Check the provider's base_url."
        )
    items = [item for item in output if isinstance(item, Mapping)]
    parts = tuple(part for item in items for part in parse_item(item))
    reason, raw = parse_reason(body, any(isinstance(part, ToolCall) for part in parts))
    logprobs = [entry for item in items for entry in _iterate_logprobs(item)]
    return ChatResult(
        model=read_string(body.get("model")),
        id=read_string(body.get("id")) or None,
        created=read_created_at(body),
        choices=(
            Choice(parts=parts, reason=reason, raw_reason=raw, logprobs={"content": logprobs} if logprobs else None),
        ),
        usage=parse_usage(body.get("usage")),
        extra=select_top_extra(body),
    )


def read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_created_at(body: Mapping[str, Any]) -> int | None:
    return read_count(body.get("created_at")) or None


def select_top_extra(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in TOP_EXTRA if body.get(name) is not None}


def parse_item(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of one item of ``output``. Reasoning without text and encrypted content is skipped."""
    match item:
        case {"type": "message"}:
            content = item.get("content")
            yield from (parse_answered_part(value) for value in (content or ()) if isinstance(value, Mapping))
        case {"type": "function_call" | "custom_tool_call"}:
            yield parse_call(item)
        case {"type": "reasoning"}:
            thinking = parse_reasoning(item)
            if thinking.text or thinking.signature is not None:
                yield thinking
        case {"type": "image_generation_call", "result": str(data)} if data:
            kind = read_string(item.get("output_format")) or "png"
            yield Image(source=Data(media_type=f"image/{kind}", base64=data))
        case {"type": str()}:
            yield parse_vendor_item(item)


def parse_answered_part(value: Mapping[str, Any]) -> Part:
    """Return the part for one content part of an output message, with its annotations as citations."""
    part = parse_part(value)
    if isinstance(part, Text):
        extra = {name: member for name, member in part.extra.items() if name != "annotations"}
        return replace(part, citations=parse_annotations(part.extra.get("annotations"), WIRE_FORMAT), extra=extra)
    return part


def _iterate_logprobs(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = item.get("content") if item.get("type") == "message" else None
    for value in content if isinstance(content, list) else ():
        entries = value.get("logprobs") if isinstance(value, Mapping) else None
        yield from (entry for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, Mapping))


def render_skeleton(*, id: str, model: str, created: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response in progress: its envelope and the fields that it repeats from the request body `asked`."""
    echoed = {name: asked[name] if asked.get(name) is not None else unsaid for name, unsaid in _ECHOED_DEFAULTS.items()}
    for name in ("reasoning", "text"):
        echoed[name] = {**_ECHOED_DEFAULTS[name], **echoed[name]}
    echoed["tools"] = [
        _FUNCTION_TOOL_DEFAULTS | tool if tool["type"] == "function" else tool for tool in echoed["tools"]
    ]
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        **echoed,
        **_render_conversation(asked),
    }


def _render_conversation(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the member ``conversation``, which is an object in a response; {} for a request without one."""
    value = body.get("conversation")
    return {"conversation": {"id": value} if isinstance(value, str) else value} if value else {}


def get_completion_time(status: str) -> int | None:
    """Now, in Unix seconds, for a response that is completed; None for every other status."""
    return int(time.time()) if status == "completed" else None


def render_response(
    result: ChatResult, *, id: str, model: str, created: int, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the vendor's whole response with the first choice, the only one in this format. `asked` is the request body."""
    choice = result.choices[0]
    status, details = render_status(choice.reason)
    item_status = "completed" if status == "completed" else "incomplete"
    body = render_skeleton(id=id, model=model, created=result.created or created, asked=asked)
    body |= select_top_extra(result.extra)
    body |= {"status": status, "completed_at": get_completion_time(status), "incomplete_details": details}
    parts = choice.parts
    if choice.explanation and not any(isinstance(part, Refusal) for part in parts):
        parts = (*parts, Refusal(text=choice.explanation))
    body["output"] = render_output(parts, ItemIdMaker(id), item_status, choice.logprobs, asked.get("include") or ())
    if status == "failed":
        body["error"] = {"code": "server_error", "message": response_failed(choice.raw_reason).message}
    if result.usage is not None:
        body["usage"] = render_usage(result.usage)
    return body
