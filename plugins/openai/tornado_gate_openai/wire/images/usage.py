"""Parse and render usage. No I/O.

Source: openai-python 3.52, types/images_response.py (``Usage``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.codec.counts import read_count
from tornado_gate.types import Usage
from tornado_gate.types.value import replace
from tornado_gate_openai.wire.chat.parts import select_unknown

_TOP_MEMBERS = ("total_tokens", "input_tokens", "output_tokens", "input_tokens_details")
_DETAIL_MEMBERS = ("text_tokens", "image_tokens", "cached_tokens")


def parse_usage(value: Any) -> Usage | None:
    """Return the usage that an upstream reports; None if there is no token count."""
    if not isinstance(value, Mapping):
        return None
    details, produced = value.get("input_tokens_details"), value.get("output_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    input_tokens, output_tokens = _read_count(value, "input_tokens"), _read_count(value, "output_tokens")
    if input_tokens is None and output_tokens is None:
        return None
    extra = {name: member for name, member in select_unknown(value, *_TOP_MEMBERS).items() if member is not None}
    if deeper := select_unknown(details, *_DETAIL_MEMBERS):
        extra["input_tokens_details"] = deeper
    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        image_tokens=_read_count(details, "image_tokens"),
        cache_read_tokens=_read_count(details, "cached_tokens"),
        image_output_tokens=_read_count(produced, "image_tokens") if isinstance(produced, Mapping) else None,
        extra=extra,
    )
    total = _read_count(value, "total_tokens")
    if total is not None and total != usage.total_tokens:
        return replace(usage, extra={**extra, "total_tokens": total})
    return usage


def _read_count(value: Mapping[str, Any], name: str) -> int | None:
    return read_count(value.get(name))


def render_usage(usage: Usage) -> dict[str, Any]:
    """Return the vendor's usage object; its counts are always present, 0 if not reported."""
    input_tokens, images = usage.input_tokens or 0, usage.image_tokens or 0
    deeper = usage.extra.get("input_tokens_details")
    details = {"text_tokens": max(input_tokens - images, 0), "image_tokens": images}
    if usage.cache_read_tokens is not None:
        details["cached_tokens"] = usage.cache_read_tokens
    value = {
        "total_tokens": usage.extra.get("total_tokens", usage.total_tokens or 0),
        "input_tokens": input_tokens,
        "output_tokens": usage.output_tokens or 0,
        "input_tokens_details": {**(deeper if isinstance(deeper, Mapping) else {}), **details},
    }
    if isinstance(produced := usage.extra.get("output_tokens_details"), Mapping):
        value["output_tokens_details"] = produced
    return value


def sum_usages(usages: list[Usage]) -> Usage | None:
    """Return the sum of the usages of several images; None if no usage is known."""
    if len(usages) < 2:
        return usages[0] if usages else None
    return Usage(
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        image_tokens=sum(usage.image_tokens or 0 for usage in usages),
    )
