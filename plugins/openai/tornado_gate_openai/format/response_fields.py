"""Fields of a responses body that the common request has no field for: which of them a target must honour or report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate_openai.wire.responses import INCLUDE_ENCRYPTED

_NO_EFFECT_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "background": (False,),
    "service_tier": ("auto", "default"),
    "stream_options": ({"include_obfuscation": False}, {}),
    "truncation": ("disabled",),
}
"""Values that are the gateway's behaviour anyway, so they are not reported as dropped."""


def select_unsupported(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `extra` for the upstream, without fields that the gateway handles or that have no effect."""
    left = {
        name: value
        for name, value in extra.items()
        if name not in ("store", "previous_response_id", "conversation")
        and value is not None
        and value not in _NO_EFFECT_VALUES.get(name, ())
    }
    include = [name for name in left.pop("include", ()) if name != INCLUDE_ENCRYPTED]
    return left | ({"include": include} if include else {})
