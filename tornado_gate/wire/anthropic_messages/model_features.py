"""What one upstream model can take, where the models of this vendor differ. Pure.

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
    """The defaults are those of a model of which nothing is known.

    `thinking` says how thinking is switched on: by a budget of tokens, or by an effort word that the model weighs itself.
    `sampling` says which of temperature, top_p and top_k it takes: all of them, temperature and top_p not both, or none.
    `system_turns`: a message of role "system" may stand between the turns. `xhigh`: this effort word is known.
    """

    thinking: Literal["budget", "adaptive"] = "budget"
    sampling: Literal["all", "one", "none"] = "all"
    system_turns: bool = False
    xhigh: bool = True


def find_model_features(model: str) -> ModelFeatures:
    """What the vendor documents for a model name; prefixes and dates around it do not matter."""
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
    """(4, 6) of ``claude-opus-4-6``; a name without a number is a new one; None for models of somebody else."""
    if (found := _VERSION.search(model)) is not None:
        return int(found[1]), int(found[2] or 0)
    return _NEWEST_VERSION if "claude-" in model else None
