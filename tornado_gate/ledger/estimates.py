"""The usage that a response costs: what the upstream has reported, or an estimate if it ended before it reported it."""

from __future__ import annotations

from typing import Final

from tornado_gate.types import Meter, Usage
from tornado_gate.types.value import replace

CHARACTERS_PER_TOKEN: Final = 4


def settle_usage(meter: Meter, *, is_complete: bool = False) -> tuple[Usage, bool]:
    """(usage, whether its tokens are an estimate). An estimate counts the prompt and what was passed on.

    `is_complete`: the response is known to have ended in order, although some upstreams send no finish reason.
    """
    usage = meter.usage or Usage()
    is_final = usage.total_tokens is not None and (is_complete or meter.finish_reason)
    if is_final or meter.estimate_prompt is None or not meter.produced_frames:
        return usage, False
    prompt = meter.estimate_prompt() if usage.input_tokens is None else usage.input_tokens
    text = meter.produced_bytes - meter.produced_frames * meter.frame_bytes
    # An event has at least one token; some upstreams send one event for each token, others one for each sentence.
    produced = max(meter.produced_frames, text // CHARACTERS_PER_TOKEN)
    return replace(usage, input_tokens=prompt, output_tokens=max(produced, usage.output_tokens or 0)), True
