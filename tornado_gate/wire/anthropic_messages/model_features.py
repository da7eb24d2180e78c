"""The features in which the vendor's models differ. Pure.

Source: the vendor's pages "Extended thinking", "Adaptive thinking" and "Mid-conversation system messages", and
anthropic-python 2.11, types/model.py (2026-11).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from tornado_gate.types.value import Value

_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)*(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_NEWEST_VERSION: Final = (99, 0)


class ModelFeatures(Value, frozen=True, kw_only=True):
    """Features of one upstream model. The defaults apply to unknown models.

    `thinking` is how thinking is enabled: with a token budget, or "adaptive" with an effort level. `sampling` is which of
    temperature, top_p and top_k the model accepts: "all", "one" (not both temperature and top_p) or "none". `system_turns`:
    the model accepts messages of role "system" between turns. `xhigh`: the model accepts this effort level.
    """

    thinking: Literal["budget", "adaptive"] = "budget"
    sampling: Literal["all", "one", "none"] = "all"
    system_turns: bool = False
    xhigh: bool = True


def find_model_features(model: str) -> ModelFeatures:
    """The documented features of a model name. Prefixes and date suffixes are ignored."""
    version = _parse_version(model.lower())
    if version is None:
        return ModelFeatures()
    return ModelFeatures(
        thinking="adaptive" if version >= (4, 6) else "budget",
        sampling="none" if version >= (4, 7) else "one" if version >= (4, 1) else "all",
        system_turns=version >= (4, 8),
        xhigh=version >= (4, 7),
    )


def _parse_version(model: str) -> tuple[int, int] | None:
    """(4, 6) for ``claude-opus-4-6``; `_NEWEST_VERSION` for a Claude name without a version; None for other vendors' models."""
    if (found := _VERSION.search(model)) is not None:
        return int(found[1]), int(found[2] or 0)
    return _NEWEST_VERSION if "claude-" in model else None
