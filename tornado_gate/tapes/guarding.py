"""What guards do with a taped request: the request that they leave, and their decisions about its response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tornado_gate.guards.decisions import GuardServices
from tornado_gate.plugins.guard_lanes import GuardLane
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.tapes.recorder import Recorder
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Call


class RecordingFormat(FormatLane):
    """A lane of a format, with the state of another one, that records the request which its hooks get."""

    def __init__(self, lane: FormatLane, recorder: Recorder) -> None:
        self.__dict__.update(lane.__dict__)
        self._recorder = recorder

    def invoke(self, hook: str, kind: type | tuple[type, ...], **arguments: Any) -> Any:
        """Call a hook as `Lane.invoke`, and record the request that it gets."""
        if "wire" in arguments:
            self._recorder.note_request(arguments["wire"])
        return super().invoke(hook, kind, **arguments)


class ReviewLog:
    """The decisions of guards about the response of one request. It stands for the metrics that count them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.is_untouched = True
        """Whether every guard has allowed every text of the response that it got."""

    @property
    def guards(self) -> ReviewLog:
        return self

    def count_review(self, guard: str, side: str, decision: str, seconds: float) -> None:
        """Count a review as `GuardMetrics`, and note its decision."""
        if side == "response" and decision != "allow":
            self.is_untouched = False
        self._metrics.guards.count_review(guard, side, decision, seconds)

    def watch(self, services: GuardServices) -> GuardServices:
        """Return the services of guards with this log in place of the metrics."""
        metrics: Any = self
        return services._replace(metrics=metrics)


def may_keep_answer(lanes: Iterable[GuardLane], log: ReviewLog, call: Call | None, *, is_single: bool) -> bool:
    """Return whether a tape may have the response: no guard reviews responses, or all have seen and allowed it.

    `is_single`: one upstream has answered completely. Bytes of an earlier or broken attempt were not reviewed.
    """
    if not any(lane.reads("response") for lane in lanes):
        return True
    is_unseen = call is None or any(name.startswith("guard:") for name in call.losses)
    return is_single and log.is_untouched and not is_unseen
