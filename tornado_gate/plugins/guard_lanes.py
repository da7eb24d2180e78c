"""Calls the hooks of one guard: a `GuardLane` for each guard of a configuration, with its time limit and its failures."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from tornado_gate.errors import GateError, PluginError, PluginUnavailable
from tornado_gate.hookspecs import GUARD_PROJECT, GuardSpec
from tornado_gate.plugins.host import Plugin, PluginHost, make_manager, release_manager
from tornado_gate.plugins.watchdog import EventLoopBlocked
from tornado_gate.types import Block, Call, Decision, GuardedText, Replace

REVIEW_SECONDS: Final = 5.0
"""The time limit of a review without ``review_timeout`` in conf."""
Side = Literal["request", "response"]
_HOOKS: Final[dict[Side, str]] = {"request": "review_request", "response": "review_response"}
_DECISIONS = (Replace, Block, type(None))


class GuardFailed(Exception):
    """A review has failed; it is logged. `error` is what a caller gets if the guard is required."""

    def __init__(self, error: PluginError) -> None:
        super().__init__(error.detail)
        self.error = error


class GuardLane:
    """One guard as one configuration uses it. Its reviews are called only by `review`."""

    def __init__(self, host: PluginHost, plugin: Plugin) -> None:
        self.host = host
        self.name = plugin.name
        self.required = plugin.required
        self.scope = plugin.scope
        self.lookahead = plugin.guard_options.lookahead
        self.seconds = plugin.scope.options.review_timeout or REVIEW_SECONDS
        manager = make_manager(GUARD_PROJECT, GuardSpec, [(plugin.name, plugin.implementation)])
        self._hooks: dict[str, Callable[..., Any]] = {
            side: getattr(manager.hook, hook)
            for side, hook in _HOOKS.items()
            if hook in plugin.hooks["guard"] and side in plugin.guard_options.reads
        }
        release_manager(manager)
        self._reported: set[str] = set()
        self._hanging: threading.Event | None = None

    def reads(self, side: Side) -> bool:
        """Whether the guard reviews requests, or answers."""
        return side in self._hooks

    async def review(
        self,
        side: Side,
        call: Call,
        texts: list[GuardedText],
        invoke: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None,
    ) -> Decision:
        """The guard's decision. `invoke` calls the hook, elsewhere than in the event loop if it takes long.

        Raises the GateError that the guard raises, and GuardFailed if it fails or takes too long.
        """
        hook = _HOOKS[side]
        try:
            if invoke is None:
                decision = self._hooks[side](call=call, texts=texts)
            else:
                decision = await self._review_elsewhere(side, call, texts, invoke)
            if inspect.isawaitable(decision):
                decision = await self._wait(hook, decision)
        except (GateError, GuardFailed):
            raise
        except (Exception, EventLoopBlocked) as error:
            raise self.fail(f"{hook} raised {type(error).__name__}", error) from error
        if not isinstance(decision, _DECISIONS):
            raise self.fail(f"{hook} returned {type(decision).__name__}, which is no decision")
        return decision

    async def _wait(self, hook: str, decision: Awaitable[Any]) -> Any:
        limit = asyncio.timeout(self.seconds)
        try:
            async with limit:
                return await decision
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._make_late_failure(hook) from None

    def _make_late_failure(self, hook: str) -> GuardFailed:
        return self.fail(f"{hook} took longer than {self.seconds:g} s")

    async def _review_elsewhere(
        self, side: Side, call: Call, texts: list[GuardedText], invoke: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> Any:
        """The result of the hook in a thread. A thread that hangs cannot be ended, so no other may follow it."""
        if self._hanging is not None and not self._hanging.is_set():
            raise self.fail(f"{_HOOKS[side]}: the review of another large text has not returned")
        returned = threading.Event()

        def review() -> Any:
            try:
                return self._hooks[side](call=call, texts=texts)
            finally:
                returned.set()

        try:
            return await invoke(review)
        except TimeoutError:
            if returned.is_set():
                raise
            self._hanging = returned
            raise self._make_late_failure(_HOOKS[side]) from None

    def fail(self, detail: str, error: BaseException | None = None) -> GuardFailed:
        """The exception for a failed review. A guard that is not required logs each kind of failure once."""
        if self.required or detail not in self._reported:
            self._reported.add(detail)
            self.host.record_failure(self.name, detail, error)
        failure = PluginUnavailable if self.required else PluginError
        return GuardFailed(failure(self.name, detail))
