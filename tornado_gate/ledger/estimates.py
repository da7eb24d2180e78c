"""The charged usage of a finished request: the usage that the upstream reported, or an estimate without such a report.

The only definition: rows of the ledger, costs, limits of tokens and budgets all use it. A request is charged once an upstream
has it (`Progress.is_sent`), even if its caller leaves before the answer, or a guard refuses the answer. A request whose upstream
failed is free.
"""

from __future__ import annotations

from typing import Final, Protocol

from tornado_gate.types import Charge, Meter, Progress, Usage
from tornado_gate.types.value import replace

CHARACTERS_PER_TOKEN: Final = 4
NO_USAGE: Final = Usage()
_UNCHARGED: Final = frozenset({"refused", "failed"})


class MeasuredRequest(Protocol):
    """A request with its measurements: a `Call`, or an `Entry` of the ledger."""

    @property
    def meter(self) -> Meter: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def charge(self) -> Charge: ...


def is_uncharged(progress: Progress, outcome: str) -> bool:
    """Return whether no upstream did the work of a request. If a guard refused the response, the upstream did the work."""
    return outcome in _UNCHARGED and not progress.is_withheld


def needs_estimate(request: MeasuredRequest, outcome: str) -> bool:
    """Return whether `settle_usage` estimates the usage: the prompt was not reported, or the response has no end.

    A prompt of 0 tokens counts as not reported, because every prompt has some. Work that is charged by time has no
    tokens.
    """
    meter = request.meter
    usage = meter.usage
    if usage is not None and usage.input_tokens and (meter.finish_reason or outcome == "complete"):
        return False  # fast path: most requests
    progress, charge = request.progress, request.charge
    if not progress.is_sent or charge.estimate_prompt is None or charge.is_counted_elsewhere or progress.cached:
        return False
    has_time = meter.seconds or (usage is not None and usage.extra.get("seconds"))
    return not has_time and not is_uncharged(progress, outcome)


def get_uncounted_usage(request: MeasuredRequest) -> Usage:
    """Return the usage that the upstream has reported, without the tokens that another request was charged."""
    usage, counted = request.meter.usage or NO_USAGE, request.charge.counted_tokens
    if counted and usage.input_tokens:
        return replace(usage, input_tokens=max(0, usage.input_tokens - counted))
    return usage


def settle_usage(request: MeasuredRequest, outcome: str) -> tuple[Usage, bool]:
    """Return (usage, whether its tokens are an estimate) of a request that has ended with `outcome`.

    An estimate counts the prompt and the known part of the produced text. It is never below the reported usage.
    """
    meter, charge = request.meter, request.charge
    if charge.is_counted_elsewhere or request.progress.cached:
        return NO_USAGE, False
    usage = get_uncounted_usage(request)
    if meter.estimate_rest is not None:
        return _add_rest(usage, meter.estimate_rest())
    if not needs_estimate(request, outcome) or charge.estimate_prompt is None:
        return usage, False
    prompt = usage.input_tokens or charge.estimate_prompt()
    text = meter.produced_bytes - meter.produced_frames * meter.frame_bytes
    # An event has at least one token; some upstreams send one event for each token, others one for each sentence.
    produced = max(meter.produced_frames, text // CHARACTERS_PER_TOKEN)
    return replace(usage, input_tokens=prompt, output_tokens=max(produced, usage.output_tokens or 0)), True


def _add_rest(usage: Usage, rest: Usage) -> tuple[Usage, bool]:
    if not rest.total_tokens:
        return usage, False
    names = ("input_tokens", "output_tokens", "audio_input_tokens", "audio_output_tokens")
    return replace(usage, **{name: (getattr(usage, name) or 0) + (getattr(rest, name) or 0) for name in names}), True


def settle_units(request: MeasuredRequest, outcome: str) -> None:
    """Count the requested images or characters, if an upstream has the request and did not report how many it made."""
    progress, requested = request.progress, request.charge.requested
    if requested is None or not progress.is_sent or progress.cached or is_uncharged(progress, outcome):
        return
    request.meter.assume(requested)
