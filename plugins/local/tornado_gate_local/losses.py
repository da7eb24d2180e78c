"""The fields of a chat request that this provider does not support; each is reported by the caller's name for it.

Not reported: temperature, top_p, top_k, seed and the penalties, because a deterministic answer has no sampling that
they could change; `user` and `metadata`, which are accepted and unused; the `name` of a message, the `detail` of an
image and the description of a schema, which only help a model to answer better. The parts of all messages are
checked, not only those of the last turn: a dropped part of an earlier message is missing from the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import Any, Final

from tornado_gate.types import (
    Audio,
    Call,
    ChatRequest,
    File,
    FileReference,
    Image,
    Part,
    ToolResult,
    VendorPart,
    VendorTool,
)

HARMLESS: Final = frozenset(
    {
        "cache_control",  # a cache hint: nothing is cached or billed
        "inference_geo",
        "labels",
        "prediction",  # makes an answer faster, never different
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",  # nothing is stored, with any value
        "stream_options",
        "verbosity",  # a hint about style; every answer here is short
    }
)
"""Fields of wire formats that never change the answer."""

HARMLESS_MEMBERS: Final = frozenset(
    {
        "cache_control",
        "detail",  # of a document: documents are not opened
        "eager_input_streaming",  # arguments are always streamed in pieces
        "phase",  # of an earlier message: commentary or answer
        "prompt_cache_breakpoint",
        "reasoning",  # reasoning of earlier turns, under three vendor names: no later turn needs it
        "reasoning_content",
        "reasoning_details",
        "role",  # the wire format's own role name; the role of the common message is used
    }
)
"""Members of messages, parts and tools that never change the answer."""

_CACHE_MEMBERS: Final = frozenset({"mode", "ttl", "type"})
_KNOWN_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("cache_control", "prompt_cache_breakpoint", "prompt_cache_options"), _CACHE_MEMBERS),
    "prediction": frozenset({"content", "type"}),
    "stream_options": frozenset({"include_obfuscation", "include_usage"}),
}
"""By harmless object: its members that never change the answer. Others are reported."""


def report_drops(call: Call, request: ChatRequest) -> None:
    """Report every dropped field. Raises InvalidField when the request is strict."""
    for name in _iterate_field_drops(request):
        call.drop_field(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None:
            for loss in _list_losses(name, value, HARMLESS):
                call.drop_field(loss)
    for path in (*_iterate_format_drops(request), *_iterate_tool_drops(request), *_iterate_message_drops(request)):
        call.drop_field(path)


def _iterate_field_drops(request: ChatRequest) -> Iterator[str]:
    """The common names of the dropped top-level fields."""
    if request.logprobs:
        yield "logprobs"
    if request.top_logprobs:
        yield "top_logprobs"
    if request.logit_bias:
        yield "logit_bias"
    if any(modality != "text" for modality in request.modalities):
        yield "modalities"
    if request.audio is not None:
        yield "audio"
    if request.tool_choice is not None and request.tool_choice.mode == "vendor":
        yield "tool_choice"


def _iterate_format_drops(request: ChatRequest) -> Iterator[str]:
    if request.response_format is not None:
        for name in select_unsupported(request.response_format.extra):
            yield f"{request.field_name('response_format')}.{name}"


def _iterate_tool_drops(request: ChatRequest) -> Iterator[str]:
    """Paths of vendor tools, and of members of other tools that are not supported."""
    for number, tool in enumerate(request.tools):
        path = request.tool_path(number)
        if isinstance(tool, VendorTool):
            yield path
        else:
            yield from (f"{path}.{name}" for name in select_unsupported(tool.extra))


def _iterate_message_drops(request: ChatRequest) -> Iterator[str]:
    """Paths of parts that cannot be read, and of unknown members of messages and parts."""
    for number, message in enumerate(request.messages):
        for name in select_unsupported(message.extra):
            yield f"{request.path(number)}.{name}"
        for index, part in enumerate(message.parts):
            yield from _iterate_part_drops(part, partial(request.path, number, index))


def _iterate_part_drops(part: Part, path: Callable[..., str]) -> Iterator[str]:
    """The paths of what is dropped of a part: the whole part, or members."""
    if isinstance(part, VendorPart) or _is_stored_elsewhere(part):
        yield path()
        return
    for name in select_unsupported(part.extra):
        yield f"{path()}.{name}"
    if isinstance(part, ToolResult):
        for number, inside in enumerate(part.parts):
            yield from _iterate_part_drops(inside, partial(path, number))


def _is_stored_elsewhere(part: Part) -> bool:
    """Whether a part only refers to content that is stored at a vendor."""
    match part:
        case Image(source=FileReference()) | File(source=FileReference()) | Audio(source=None | FileReference()):
            return True
    return False


def select_unsupported(extra: Mapping[str, Any]) -> Iterable[str]:
    """Unknown members with a value; null and an empty array, which SDKs send for unset members, do not count."""
    return [
        loss
        for name, value in extra.items()
        if value not in (None, [])
        for loss in _list_losses(name, value, HARMLESS_MEMBERS)
    ]


def _list_losses(name: str, value: Any, harmless: Set[str]) -> Iterable[str]:
    """The field itself if it is not `harmless`, else its members that are not known."""
    if name not in harmless:
        return (name,)
    known = _KNOWN_MEMBERS.get(name)
    return [f"{name}.{member}" for member in value if member not in known] if known and isinstance(value, dict) else ()
