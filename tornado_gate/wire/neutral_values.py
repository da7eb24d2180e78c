"""The values of request fields that say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import Reasoning, ToolChoice

NEUTRAL_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "background": ("auto",),
    "frequency_penalty": (0,),
    "logprobs": (False,),
    "modalities": (("text",),),
    "moderation": ("auto",),
    "n": (1,),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0,),
    "quality": ("auto",),
    "reasoning": (Reasoning(effort="none"), Reasoning(enabled=False), Reasoning(budget_tokens=0)),
    "size": ("auto",),
    "speed": (1,),
    "temperature": (1,),
    "tool_choice": (ToolChoice(mode="auto"), ToolChoice(mode="none")),
    "top_logprobs": (0,),
    "top_p": (1,),
}
"""By field: values with the meaning of an absent field. A target that lacks the field loses nothing, so they are not reported."""
