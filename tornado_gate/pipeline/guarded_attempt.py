"""The first attempt of a request that guards review. Without a guard that waits, it needs no task, like `DirectAttempt`.

The steps are those of `reviews.answer_with_review`: the request is reviewed, a target answers, and the response is reviewed. The
reviews run until a guard must wait, because it is a coroutine function or its texts are so long that a thread reads them. Then
`run` continues there. It also reads the streams whose texts guards review.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tornado_gate.guards.decisions import Review
from tornado_gate.pipeline.direct import DirectAttempt
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.guarded_replies import review_reply
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.plans import Others, Plan
from tornado_gate.pipeline.reviews import answer_with_review
from tornado_gate.pipeline.stream_pump import StreamPump
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.storage.files import MediaFile
from tornado_gate.streams.pausable import Work
from tornado_gate.types import Call, Reply, WireRequest
from tornado_gate.types.call import LazyExitStack


class GuardedAttempt:
    """The reviews of a request and of its response, and between them an attempt at its target."""

    others: Others | None = None  # as in `DirectAttempt`
    _attempt: DirectAttempt | None = None  # set after the review of the request
    _work: Work[Any] | None = None  # a review that waits
    _failure: BaseException | None = None

    def __init__(
        self,
        gate: Gate,
        wire_format: FormatLane,
        review: Review,
        first_call: Call,
        wire: WireRequest,
        closing: LazyExitStack,
        prepare: Callable[[Call, WireRequest], DirectAttempt | None],
        answer: Callable[[Call, WireRequest], Awaitable[PreparedAnswer | MediaFile]],
    ) -> None:
        """Create an attempt. `first_call` is the call before a target is chosen; `closing` is its exit stack.

        `prepare` returns the attempt for a reviewed request, or None if it needs more steps. Then `answer` answers it in a task.
        """
        self.first_call = first_call
        self.closing = closing
        self._gate = gate
        self._wire_format = wire_format
        self._review = review
        self._wire = wire
        self._prepare = prepare
        self._answer = answer
        self._changes_response = bool(review.reads("response"))

    def begin(self) -> bool:
        """Review the request and send it. Return False if `run` must continue immediately."""
        work = self._work = Work(self._review.review_request(self._wire))
        try:
            if not work.run():
                return False
            self._work, self._wire = None, work.result
            attempt = self._attempt = self._prepare(self.first_call, self._wire)
            return attempt is not None and attempt.begin()
        except (Exception, asyncio.CancelledError) as error:  # `run` raises it
            self._failure = error
            return False

    def finish(self) -> Reply | None:
        """Return the reviewed reply if the response is complete or has a `pump`. Return None if `run` must continue."""
        attempt = self._attempt
        assert attempt is not None
        reply = attempt.finish()
        if reply is None or self.pump is not None:
            return reply
        if attempt.pump is not None:
            return None
        large = self._gate.pools.large_responses
        work = self._work = Work(review_reply(self._review, self._wire_format, attempt.call, reply, large))
        try:
            if not work.run():
                return None
        except (Exception, asyncio.CancelledError) as error:
            self._failure = error
            return None
        self._review.report_losses(attempt.call)
        reviewed: Reply = work.result
        return reviewed

    async def run(self) -> PreparedAnswer | MediaFile:
        """Continue the attempt in a task. Raises the errors of `answer_with_review`."""
        attempt, work = self._attempt, self._work
        if attempt is not None:
            attempt.others = self.others
        self.others = None  # they count a retry until the attempt has succeeded
        try:
            if attempt is None or work is None:
                return await answer_with_review(self._gate, self._review, self._wire_format, self._continue())
            if self._failure is not None:
                raise self._failure
            reply = await work.complete()
        finally:
            self._failure = None
        self._review.report_losses(attempt.call)
        return PreparedAnswer(attempt.call, reply)

    async def _continue(self) -> PreparedAnswer | MediaFile:
        """Continue with the request."""
        if self._failure is not None:
            raise self._failure
        if self._work is not None:
            self._wire = await self._work.complete()
        if self._attempt is None:
            return await self._answer(self.first_call, self._wire)
        return await self._attempt.run()

    def stop(self) -> None:
        """Close the connection to the upstream, unless the response is complete."""
        if self._attempt is not None:
            self._attempt.stop()

    # The attempt at the target

    @property
    def _begun(self) -> DirectAttempt:
        assert self._attempt is not None
        return self._attempt

    @property
    def call(self) -> Call:
        """Return the call with its target."""
        return self._begun.call

    @property
    def plan(self) -> Plan:
        """Return the plan after the review."""
        return self._begun.plan

    @property
    def reply(self) -> Reply | None:
        """Return the reply of a stream that has a `pump`."""
        return self._begun.reply

    @property
    def pump(self) -> StreamPump | None:
        """Return the pump of a stream that no guard reviews."""
        if self._changes_response or self._review.losses or self._attempt is None:
            return None
        return self._attempt.pump

    def note_begun(self) -> None:
        """Note that the response has begun: the first chunk of a stream was read."""
        self._begun.note_begun()
