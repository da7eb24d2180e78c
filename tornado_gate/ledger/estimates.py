"""The charged usage of a finished request: the usage that the upstream reported, or an estimate without such a report.

This is the only definition. Rows of the ledger, costs, limits of tokens and budgets all use it. A request is charged as
soon as an upstream has it (`Meter.is_asked`), even if its caller leaves before the response, or a guard refuses the
response. A request whose upstream failed is not charged.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types import Meter, Usage
from tornado_gate.types.value import replace

CHARACTERS_PER_TOKEN: Final = 4
NO_USAGE: Final = Usage()
_UNCHARGED: Final = frozenset({"refused", "failed"})


def is_uncharged(meter: Meter, outcome: str) -> bool:
    """Return whether no upstream did the work of a request. If a guard refused the response, the upstream did the work."""
    return outcome in _UNCHARGED and not meter.is_withheld


def needs_estimate(meter: Meter, outcome: str) -> bool:
    """Return whether `settle_usage` estimates the usage: the upstream did not report the prompt, or the response has no
    end.

    A prompt of 0 tokens counts as not reported, because every prompt has some. Work that is charged by time has no
    tokens.
    """
    usage = meter.usage
    if usage is not None and usage.input_tokens and (meter.finish_reason or outcome == "complete"):
        return False  # fast path: most requests
    if not meter.is_asked or meter.estimate_prompt is None or meter.charged or meter.cached:
        return False
    has_time = meter.seconds or (usage is not None and usage.extra.get("seconds"))
    return not has_time and not is_uncharged(meter, outcome)


def get_uncounted_usage(meter: Meter) -> Usage:
    """Return the usage that the upstream has reported, without the tokens that were charged to another request."""
    usage = meter.usage or NO_USAGE
    if meter.counted_tokens and usage.input_tokens:
        return replace(usage, input_tokens=max(0, usage.input_tokens - meter.counted_tokens))
    return usage


def settle_usage(meter: Meter, outcome: str) -> tuple[Usage, bool]:
    """Return (usage, whether its tokens are an estimate) of a request that has ended with `outcome`.

    An estimate counts the prompt and the known part of the produced text. It is never below the reported usage.
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
    """Count the requested images or characters, if an upstream has the request and no report counts the result."""
    requested = meter.asked
    if requested is None or not meter.is_asked or meter.cached or is_uncharged(meter, outcome):
        return
    if requested.images and not meter.images:
        meter.images = requested.images
        meter.size, meter.quality = meter.size or requested.size, meter.quality or requested.quality
    meter.characters = meter.characters or requested.characters or 0
