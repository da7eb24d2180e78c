"""The first attempt of a request whose target was chosen (`plans.TargetChoice`). It needs no task, like `DirectAttempt`.

Its target may be measured, and its conversation may have moved. It may need a slot of its provider entry, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tornado_gate.pipeline import pipeline
from tornado_gate.pipeline.attempts import begin_load
from tornado_gate.pipeline.direct import DirectAttempt
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.plans import Others
from tornado_gate.pipeline.request_cache import RequestCache
from tornado_gate.types import Reply


class ChosenAttempt(DirectAttempt):
    """An attempt at the first of several candidates, or at a target that is measured or has a limit of running requests."""

    _must_wait = False

    def __init__(self, others: Others, *arguments: Any) -> None:
        """Create the attempt at the target before `others`. The other arguments are those of `DirectAttempt`."""
        super().__init__(*arguments)
        self.needs = others.needs
        self._loads = others.snapshot.targets.loads
        self._holds: list[Callable[[], None]] = []

    def begin(self) -> bool:
        """Count the attempt in the load of its target, take its slot, and send the request."""
        plan, call = self.plan, self.call
        holds = self._holds
        if plan.is_measured:
            self.load, end_load = begin_load(self._loads, plan.target)
            holds.append(end_load)
        # Neither this attempt nor its call may be in the function, which the call refers to.
        call.when_ended(partial(_release, holds))
        rules = plan.provider.entry.concurrency
        if rules is not None:
            leave = self._gate.target_queues.find_queue(plan.target.provider).try_enter(call.caller.account, rules)
            if leave is None:
                self._must_wait = True
                return False
            holds.append(leave)
        is_sent = super().begin()
        if self._is_streamed:
            call.progress.expect_stream()
        return is_sent

    def finish(self) -> Reply | None:
        """Finish like every direct attempt. Note the latency and the place of a complete response."""
        reply = super().finish()
        if reply is not None and self.pump is None:
            self.note_begun()
        return reply

    async def run(self) -> PreparedAnswer:
        """Continue in a task. The attempt holds its load and its slot until it fails, or the response ends."""
        self.closing.callback(_release, self._holds)
        if self.call.failover is False:
            self.others = None
        return await super().run()

    async def _run(self) -> PreparedAnswer:
        if not self._must_wait:
            return await super()._run()
        plan, call, rules = self.plan, self.call, self.plan.provider.entry.concurrency
        assert rules is not None
        queue = self._gate.target_queues.find_queue(plan.target.provider)
        self.closing.callback(await queue.enter(call.caller.account, rules))
        once = RequestCache(self._wire, plan.wire_format, self._gate)
        return await pipeline.try_target(self._gate, once, call, plan.provider)


def _release(holds: list[Callable[[], None]], _end: Any = None) -> None:
    """End what an attempt holds, once."""
    while holds:
        holds.pop()()
