"""The lane of a guard: a `GuardLane` for each guard of a configuration, with its time limit and its failures."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Literal, Protocol

from tornado_gate.errors import GateError, PluginError, PluginUnavailable
from tornado_gate.hookspecs import GUARD_PROJECT, GuardSpec
from tornado_gate.plugins.hook_calls import make_direct_call
from tornado_gate.plugins.host import Plugin, PluginHost, make_manager, release_manager
from tornado_gate.plugins.watchdog import EventLoopBlocked
from tornado_gate.streams.pausable import Pausable
from tornado_gate.types import Block, Call, Decision, GuardedText, Replace

REVIEW_SECONDS: Final = 5.0
"""The time limit of a review without ``review_timeout`` in conf."""
SECONDS_PER_MB: Final = 5.0
"""The seconds that each MB of text adds to the limit without ``review_timeout_per_mb`` in conf."""
LATE: Final = "took longer than review_timeout and review_timeout_per_mb allow"
HANGS: Final = "the review of an earlier large text of this account does not end"
Side = Literal["request", "response"]
_HOOKS: Final[dict[Side, str]] = {"request": "review_request", "response": "review_response"}
_DECISIONS = (Replace, Block, type(None))


class GuardFailed(Exception):
    """An error: a review has failed, and the failure is logged. The caller gets `error` if the guard is required."""

    def __init__(self, error: PluginError) -> None:
        super().__init__(error.detail)
        self.error = error


class ReviewHangs(Exception):
    """An error: an earlier review of this account does not end, so no large text of it can be reviewed."""


class ReviewTimeout(TimeoutError):
    """An error: a function that runs in a thread has exceeded its time limit."""


class RunBeside(Protocol):
    """A function that runs another function in a thread, for the account of a request.

    Raises ReviewTimeout after `seconds`, and ReviewHangs.
    """

    def __call__(self, function: Callable[..., Any], *arguments: Any, seconds: float) -> Awaitable[Any]: ...


class GuardLane:
    """A guard in one configuration. Its reviews are called only by `review`."""

    def __init__(self, host: PluginHost, plugin: Plugin) -> None:
        self.host = host
        self.name = plugin.name
        self.required = plugin.required
        self.scope = plugin.scope
        self.error = plugin.error
        """The reason why the guard cannot work at all, or ""."""
        self.lookahead = plugin.guard_options.lookahead
        options = plugin.scope.options
        self.seconds = options.review_timeout or REVIEW_SECONDS
        self._per_mb = SECONDS_PER_MB if options.review_timeout_per_mb is None else options.review_timeout_per_mb
        self._hooks: dict[str, Callable[..., Any]] = {} if plugin.error else _find_reviews(plugin)
        self._reported: set[str] = set()

    def reads(self, side: Side) -> bool:
        """Return whether the guard reviews requests, or responses."""
        return side in self._hooks

    def get_limit(self, size: int) -> float:
        """Return the seconds that the review of `size` bytes or characters of text may take."""
        return self.seconds + self._per_mb * size / 1_000_000

    def review(
        self, side: Side, call: Call, texts: list[GuardedText], size: int = 0, beside: RunBeside | None = None
    ) -> Pausable[Decision]:
        """Return the guard's decision. It waits for a hook that is a coroutine function, and for a thread.

        With `beside`, the hook and its calls of `call.run` run in a thread.

        Raises the GateError that the guard raises, and GuardFailed if it fails or takes too long.
        """
        hook = _HOOKS[side]
        try:
            if beside is None:
                decision = self._hooks[side](call=call, texts=texts)
                if decision is not None and inspect.isawaitable(decision):
                    decision = yield self._wait(hook, decision, _TimeLimit(self.get_limit(size)))
            else:
                decision = yield self._review_beside(side, call, texts, self.get_limit(size), beside)
        except (GateError, GuardFailed):
            raise
        except ReviewHangs as error:
            raise self.fail_hanging() from error
        except (Exception, EventLoopBlocked) as error:
            raise self.fail(f"{hook} raised {type(error).__name__}", error) from error
        if not isinstance(decision, _DECISIONS):
            raise self.fail(f"{hook} returned {type(decision).__name__}, which is no decision")
        return decision

    async def _review_beside(
        self, side: Side, call: Call, texts: list[GuardedText], seconds: float, beside: RunBeside
    ) -> Any:
        """Return the decision of a hook that runs in a thread. A coroutine that it returns runs in the event loop."""
        limit = _TimeLimit(seconds, beside)
        call = call.replace(worker=limit.run)
        try:
            decision = await beside(partial(self._hooks[side], call=call, texts=texts), seconds=seconds)
        except ReviewTimeout:
            raise self._fail_late(_HOOKS[side]) from None
        if inspect.isawaitable(decision):
            decision = await self._wait(_HOOKS[side], decision, limit)
        return decision

    async def _wait(self, hook: str, decision: Awaitable[Any], limit: _TimeLimit) -> Any:
        try:
            async with limit.timeout:
                limit.resume()
                return await decision
        except TimeoutError as error:
            if not limit.timeout.expired() and not isinstance(error, ReviewTimeout):
                raise
            raise self._fail_late(hook) from None

    def _fail_late(self, hook: str) -> GuardFailed:
        return self.fail(
            f"{hook} {LATE}", why="has not reviewed its texts in time. Send shorter texts, or the request again later."
        )

    def fail_hanging(self) -> GuardFailed:
        """Return the exception for a review that cannot begin, because an earlier one of the account does not end."""
        return self.fail(
            HANGS,
            why="has not ended the review of an earlier large text of this account. Send large texts again later; "
            "requests up to 64 KiB are reviewed.",
        )

    def fail(self, detail: str, error: BaseException | None = None, *, why: str = "") -> GuardFailed:
        """Return the exception for a failed review. A guard that is not required logs each kind of failure once.

        `why` is the reason that the caller receives, beyond the name of the guard.
        """
        if self.required or detail not in self._reported:
            self._reported.add(detail)
            self.host.record_failure(self.name, detail, error)
        failure = (PluginUnavailable if self.required else PluginError)(self.name, detail)
        if why:
            failure.message = f"The guard '{self.name}' is required for this request and {why}"
        return GuardFailed(failure)


def _find_reviews(plugin: Plugin) -> dict[str, Callable[..., Any]]:
    manager = make_manager(GUARD_PROJECT, GuardSpec, [(plugin.name, plugin.implementation)])
    hooks: dict[str, Callable[..., Any]] = {
        side: make_direct_call(getattr(manager.hook, hook))
        for side, hook in _HOOKS.items()
        if hook in plugin.hooks["guard"] and side in plugin.guard_options.reads
    }
    release_manager(manager)
    return hooks


class _TimeLimit:
    """The time limit of a coroutine. While it waits for a thread, the time stands still."""

    def __init__(self, seconds: float, beside: RunBeside | None = None) -> None:
        self.timeout = asyncio.timeout(None)
        self._left = seconds
        self._beside = beside

    def resume(self) -> None:
        self.timeout.reschedule(asyncio.get_running_loop().time() + max(0.0, self._left))

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function that the coroutine passes to `call.run`."""
        assert self._beside is not None
        when = self.timeout.when()
        if when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self.timeout.reschedule(None)

        def measure() -> Any:
            started = time.monotonic()
            try:
                return function(*arguments)
            finally:
                self._left -= time.monotonic() - started

        try:
            return await self._beside(measure, seconds=self._left)
        finally:
            self.resume()
