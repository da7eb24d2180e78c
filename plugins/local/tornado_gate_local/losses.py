"""Which wishes of a request this demonstration cannot meet, each reported in the caller's own word.

Not losses: temperature, top_p, top_k, seed and the penalties, because a deterministic answer has no sampling that
they could change; `user` and `metadata`, which are accepted and unused; what past messages carry beside their parts,
because the past is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from tornado_gate.types import Call, ChatRequest, VendorTool
from tornado_gate_local.conversation import read_turn

HARMLESS = frozenset(
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


def report_losses(call: Call, request: ChatRequest) -> None:
    """Name every field that is not honoured. Raises InvalidField when the caller asked for strictness."""
    for name in _lost(request):
        call.lose(request.field_name(name))
    for name, value in request.extra.items():
        if value is not None and name not in HARMLESS:
            call.lose(name)


def _lost(request: ChatRequest) -> Iterator[str]:
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
    if any(isinstance(tool, VendorTool) for tool in request.tools):
        yield "tools"
    if request.tool_choice is not None and request.tool_choice.mode == "vendor":
        yield "tool_choice"
    if read_turn(request).vendor_parts:
        yield "messages"
