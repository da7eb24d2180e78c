"""What a request is charged whose upstream did not report what it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tornado_gate.ledger.estimates import settle_usage
from tornado_gate.types import Charge, Meter, Progress, Usage

REPORTED, ZERO = Usage(input_tokens=7, output_tokens=3), Usage(input_tokens=0, output_tokens=0)


class Measured(NamedTuple):
    """The measurements of a request."""

    meter: Meter
    progress: Progress
    charge: Charge


def make_request(*, progress: Mapping[str, Any] = {}, charge: Mapping[str, Any] = {}, **measured: Any) -> Measured:
    """Return the measurements of a request that an upstream has, with a prompt of 10 tokens."""
    return Measured(
        Meter(**measured),
        Progress(**{"is_sent": True, **progress}),
        Charge(**{"estimate_prompt": lambda: 10, **charge}),
    )


@pytest.mark.parametrize(
    ("measured", "outcome", "tokens"),
    [
        (make_request(), "aborted", (10, 0)),
        (make_request(), "broken", (10, 0)),
        (make_request(), "complete", (10, 0)),
        (make_request(produced_frames=1, produced_bytes=400), "complete", (10, 100)),
        (make_request(usage=REPORTED), "complete", (7, 3)),
        (make_request(usage=REPORTED, finish_reason="stop"), "aborted", (7, 3)),
        (make_request(usage=REPORTED), "aborted", (7, 3)),
        (make_request(usage=REPORTED, produced_frames=5), "aborted", (7, 5)),
        (make_request(usage=ZERO, finish_reason="stop"), "complete", (10, 0)),
        (make_request(usage=ZERO, produced_frames=2, produced_bytes=80), "complete", (10, 20)),
        (make_request(usage=Usage(output_tokens=3), finish_reason="stop"), "complete", (10, 3)),
    ],
)
def test_a_measuredthat_an_upstream_has_is_charged_its_prompt_and_what_was_produced(
    measured: Measured, outcome: str, tokens: tuple[int | None, int]
) -> None:
    usage, _ = settle_usage(measured, outcome)
    assert (usage.input_tokens, usage.output_tokens) == tokens


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_a_failed_upstream_measuredis_free_but_not_an_answer_that_a_guard_refuses(outcome: str) -> None:
    measured = {"produced_frames": 1, "produced_bytes": 400}
    assert settle_usage(make_request(**measured), outcome) == (Usage(), False)
    assert settle_usage(make_request(progress={"is_withheld": True}, **measured), outcome) == (
        Usage(input_tokens=10, output_tokens=100),
        True,
    )


@pytest.mark.parametrize(
    "free",
    [
        {"progress": {"is_sent": False}},
        {"progress": {"cached": True}},
        {"charge": {"is_counted_elsewhere": True}},
        {"charge": {"estimate_prompt": None}},
    ],
)
def test_what_no_upstream_has_or_another_measuredpays_is_free(free: dict[str, Any]) -> None:
    assert settle_usage(make_request(**free), "aborted") == (Usage(), False)
