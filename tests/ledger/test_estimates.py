"""What a request is charged whose upstream did not report what it used."""

from __future__ import annotations

import pytest

from tornado_gate.ledger.estimates import settle_usage
from tornado_gate.types import Meter, Usage

REPORTED, ZERO = Usage(input_tokens=7, output_tokens=3), Usage(input_tokens=0, output_tokens=0)


def make_meter(**measured: object) -> Meter:
    """The meter of a request that an upstream has, with a prompt of 10 tokens."""
    return Meter(**{"is_asked": True, "estimate_prompt": lambda: 10, **measured})


@pytest.mark.parametrize(
    ("meter", "outcome", "tokens"),
    [
        (make_meter(), "aborted", (10, 0)),
        (make_meter(), "broken", (10, 0)),
        (make_meter(), "complete", (10, 0)),
        (make_meter(produced_frames=1, produced_bytes=400), "complete", (10, 100)),
        (make_meter(usage=REPORTED), "complete", (7, 3)),
        (make_meter(usage=REPORTED, finish_reason="stop"), "aborted", (7, 3)),
        (make_meter(usage=REPORTED), "aborted", (7, 3)),
        (make_meter(usage=REPORTED, produced_frames=5), "aborted", (7, 5)),
        (make_meter(usage=ZERO, finish_reason="stop"), "complete", (10, 0)),
        (make_meter(usage=ZERO, produced_frames=2, produced_bytes=80), "complete", (10, 20)),
        (make_meter(usage=Usage(output_tokens=3), finish_reason="stop"), "complete", (10, 3)),
    ],
)
def test_a_request_that_an_upstream_has_is_charged_its_prompt_and_what_was_produced(
    meter: Meter, outcome: str, tokens: tuple[int | None, int]
) -> None:
    usage, _ = settle_usage(meter, outcome)
    assert (usage.input_tokens, usage.output_tokens) == tokens


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_a_failed_upstream_request_is_free_but_not_an_answer_that_a_guard_refuses(outcome: str) -> None:
    measured = {"produced_frames": 1, "produced_bytes": 400}
    assert settle_usage(make_meter(**measured), outcome) == (Usage(), False)
    assert settle_usage(make_meter(is_withheld=True, **measured), outcome) == (
        Usage(input_tokens=10, output_tokens=100),
        True,
    )


@pytest.mark.parametrize("free", [{"is_asked": False}, {"cached": True}, {"charged": True}, {"estimate_prompt": None}])
def test_what_no_upstream_has_or_another_request_pays_is_free(free: dict[str, object]) -> None:
    assert settle_usage(make_meter(**free), "aborted") == (Usage(), False)
