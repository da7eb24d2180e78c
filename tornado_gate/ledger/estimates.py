"""What a request that has ended is charged: what the upstream has reported, or an estimate if it has not reported it.

The only definition: rows of the ledger, costs, limits of tokens and budgets all use it. A request is charged once an upstream
has it (`Meter.is_asked`), also if its caller leaves before the answer, or a guard refuses the answer. A request whose upstream
failed is charged nothing.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types import Meter, Usage
from tornado_gate.types.value import replace

CHARACTERS_PER_TOKEN: Final = 4
NO_USAGE: Final = Usage()
_UNCHARGED: Final = frozenset({"refused", "failed"})


def is_uncharged(meter: Meter, outcome: str) -> bool:
    """Whether no upstream did the work of a request. A guard refuses what an upstream has made."""
    return outcome in _UNCHARGED and not meter.is_withheld


def needs_estimate(meter: Meter, outcome: str) -> bool:
    """Whether `settle_usage` estimates what a request used: its prompt was not reported, or its answer has no end.

    A prompt of 0 tokens counts as not reported, because every prompt has some. What is charged by time has no tokens.
    """
    usage = meter.usage
    if usage is not None and usage.input_tokens and (meter.finish_reason or outcome == "complete"):
        return False  # fast path: most requests
    if not meter.is_asked or meter.estimate_prompt is None or meter.charged or meter.cached:
        return False
    has_time = meter.seconds or (usage is not None and usage.extra.get("seconds"))
    return not has_time and not is_uncharged(meter, outcome)


def get_uncounted_usage(meter: Meter) -> Usage:
    """The usage that the upstream has reported, without the tokens that another request was charged."""
    usage = meter.usage or NO_USAGE
    if meter.counted_tokens and usage.input_tokens:
        return replace(usage, input_tokens=max(0, usage.input_tokens - meter.counted_tokens))
    return usage


def settle_usage(meter: Meter, outcome: str) -> tuple[Usage, bool]:
    """(usage, whether its tokens are an estimate) of a request that has ended with `outcome`.

    An estimate counts the prompt and the text that was produced as far as it is known. It is never below what was reported.
    """
    if meter.charged or meter.cached:
        return NO_USAGE, False
    usage = get_uncounted_usage(meter)
    if meter.estimate_rest is not None:
        return _add_rest(usage, meter.estimate_rest())
    if not needs_estimate(meter, outcome) or meter.estimate_prompt is None:
        return usage, False
    prompt = usage.input_tokens or meter.estimate_prompt()
    text = meter.produced_bytes - meter.produced_frames * meter.frame_bytes
    # An event has at least one token; some upstreams send one event for each token, others one for each sentence.
    produced = max(meter.produced_frames, text // CHARACTERS_PER_TOKEN)
    return replace(usage, input_tokens=prompt, output_tokens=max(produced, usage.output_tokens or 0)), True


def _add_rest(usage: Usage, rest: Usage) -> tuple[Usage, bool]:
    if not rest.total_tokens:
        return usage, False
    names = ("input_tokens", "output_tokens", "audio_input_tokens", "audio_output_tokens")
    return replace(usage, **{name: (getattr(usage, name) or 0) + (getattr(rest, name) or 0) for name in names}), True


def settle_units(meter: Meter, outcome: str) -> None:
    """Count the images or characters that a request asked for, if an upstream has it and nothing says what it made."""
    asked = meter.asked
    if asked is None or not meter.is_asked or meter.cached or is_uncharged(meter, outcome):
        return
    if asked.images and not meter.images:
        meter.images = asked.images
        meter.size, meter.quality = meter.size or asked.size, meter.quality or asked.quality
    meter.characters = meter.characters or asked.characters or 0
