"""Which wishes of a request this demonstration cannot meet, each reported in the caller's own word.

Not losses: temperature, top_p, top_k, seed and the penalties, because a deterministic answer has no sampling that
they could change; `user` and `metadata`, which are accepted and unused; names of speakers, the `detail` of an image and
the description of a schema, which would only help a model to do better. All messages count, not just those that wait for
an answer: what was left out of the past is missing from the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        "cache_control",  # where to cache: nothing is cached, nothing costs anything
        "inference_geo",
        "labels",
        "prediction",  # makes an answer faster, never different
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",  # nothing is stored, whichever was asked
        "stream_options",
        "verbosity",  # a hint about style; every answer here is short
    }
)
"""Fields of wire formats that leave the answer as it is, whether they are honoured or not."""

HARMLESS_MEMBERS: Final = frozenset(
    {
        "cache_control",
        "detail",  # how closely to look at a document: none is looked into
        "eager_input_streaming",  # arguments come in pieces here anyway
        "phase",  # whether a past message was a remark or the answer
        "prompt_cache_breakpoint",
        "reasoning",  # past reasoning, under the three names that vendors gave it: no later turn needs it
        "reasoning_content",
        "reasoning_details",
        "role",  # a format's own note of how it spells the message; the vocabulary's role says the rest
    }
)
"""The same of members of messages, parts and tools."""


def report_drops(call: Call, request: ChatRequest) -> None:
    """Name every field that is not honoured. Raises InvalidField when the caller asked for strictness."""
    for name in _iterate_field_drops(request):
        call.drop_field(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None and name not in HARMLESS:
            call.drop_field(name)
    for place in (*_iterate_format_drops(request), *_iterate_tool_drops(request), *_iterate_message_drops(request)):
        call.drop_field(place)


def _iterate_field_drops(request: ChatRequest) -> Iterator[str]:
    """Our names of the fields."""
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
    """Paths of the tools that only a vendor knows, and of the members of others that only a vendor acts on."""
    for number, tool in enumerate(request.tools):
        place = f"{request.field_name('tools')}.{number}"
        if isinstance(tool, VendorTool):
            yield place
        else:
            yield from (f"{place}.{name}" for name in select_unsupported(tool.extra))


def _iterate_message_drops(request: ChatRequest) -> Iterator[str]:
    """Paths of parts that cannot be read, and of unknown members of messages and of parts."""
    for number, message in enumerate(request.messages):
        for name in select_unsupported(message.extra):
            yield f"{request.path(number)}.{name}"
        for place, part in enumerate(message.parts):
            for lost in _iterate_part_drops(part):
                yield request.path(number, place) + lost


def _iterate_part_drops(part: Part) -> Iterator[str]:
    """What is lost of a part, as it goes on after the part's own path; "" for the whole part."""
    if isinstance(part, VendorPart) or _is_stored_elsewhere(part):
        yield ""
        return
    for name in select_unsupported(part.extra):
        yield f".{name}"
    if isinstance(part, ToolResult):
        for number, inside in enumerate(part.parts):
            yield from (f".content.{number}{lost}" for lost in _iterate_part_drops(inside))


def _is_stored_elsewhere(part: Part) -> bool:
    """Whether a part is only the name of something that lies at a vendor."""
    match part:
        case Image(source=FileReference()) | File(source=FileReference()) | Audio(source=None | FileReference()):
            return True
    return False


def select_unsupported(extra: Mapping[str, Any]) -> Iterable[str]:
    """Unknown members that ask for something; null and an empty array, as SDKs dump them, do not."""
    return [name for name, value in extra.items() if name not in HARMLESS_MEMBERS and value not in (None, [])]
