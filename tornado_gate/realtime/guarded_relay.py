"""The relay of a session that guards cover: each message is reviewed in the caller's dialect before it is sent.

Text that arrives in chunks is reviewed in windows, as in other streams. Sound is not reviewed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

import orjson

from tornado_gate.errors import GateError, InternalError, PluginError
from tornado_gate.guards.decisions import Review
from tornado_gate.guards.text_events import Event, EventTexts
from tornado_gate.plugins.guard_lanes import Side
from tornado_gate.realtime.relay import POLICY_VIOLATION, UPSTREAM_FAILED, Relay, wait_for
from tornado_gate.types import Call
from tornado_gate.types.text_maps import Shape

log = logging.getLogger(__name__)


class ReviewedMessages:
    """The messages of one direction of a session, reviewed by the guards one after the other."""

    def __init__(self, review: Review, side: Side, shape: Shape, call: Call) -> None:
        self._steps = [
            (
                EventTexts(
                    shape,
                    guard.lookahead,
                    _render,
                    partial(review.settle_unread, guard),
                    of_request=side == "request",
                ),
                partial(review.review_window, side, guard, call),
            )
            for guard in review.reads(side)
        ]

    async def pass_on(self, messages: Sequence[str], *, final: bool = False) -> Sequence[str]:
        """Return the messages that may be sent now: new and held-back ones, without the rest of a text.

        `final`: no message follows. Raises the GateError of a block or of a required guard.
        """
        for texts, review in self._steps:
            for message in messages:
                value = orjson.loads(message)
                texts.add(
                    orjson.dumps(value).decode(), value
                )  # rendered again, so that no member occurs twice and escapes the review
            if final:
                texts.end("")
            messages = [text for text in await texts.review(review, final=final) if text]
        return messages


def _render(_: Event, value: Any) -> str:
    return orjson.dumps(value).decode()


class GuardedRelay(Relay):
    """A relay whose messages wait for the reviews; call `guard` before `begin`."""

    __slots__ = ("_flushing", "_has_ended", "_of_caller", "_of_provider")

    def guard(self, review: Review, call: Call) -> None:
        """Set the guards of the session; `call` has its target."""
        texts = review.text_map
        assert texts.client_message is not None
        assert texts.server_message is not None
        self._of_caller = ReviewedMessages(review, "request", texts.client_message, call)
        self._of_provider = ReviewedMessages(review, "response", texts.server_message, call)
        self._has_ended = False

    def receive(self, message: str | bytes) -> Awaitable[object] | None:
        """Receive a message as in a session without guards. The next message waits until this one is reviewed and sent."""
        return self._review_and_send(message, self._slow_down.take())

    async def _review_and_send(self, message: str | bytes, wait: float) -> None:
        if wait:
            await self._report_wait(wait)
        try:
            text = self._check_caller_message(message)
            reviewed = await self._review_caller_message(text)
            if reviewed is not None:
                texts = [text for message in reviewed for text in self._side.translate_client_message(message)]
                await self._send_to_provider(texts, message)
        except Exception as error:
            await wait_for(self._on_send_failure(error, message))

    async def _review_caller_message(self, text: str) -> Sequence[str] | None:
        """Return the messages to send; None if the session has ended."""
        try:
            reviewed = await self._of_caller.pass_on([text])
        except orjson.JSONDecodeError:
            return [text]  # the adapter refuses it
        except GateError as error:
            self._end(error)
            return None
        return None if self._has_ended else reviewed

    def _relay_to_caller(self, message: str | bytes) -> Awaitable[object] | None:
        return self._review_and_relay(str(message))

    async def _review_and_relay(self, message: str) -> None:
        try:
            texts = self._side.translate_server_message(self._mask_text(message))
            await wait_for(self._write_to_caller(await self._of_provider.pass_on(texts)))
        except GateError as error:
            self._end(error)
        except Exception:
            log.exception("realtime session %s failed", self._request_id)
            self._end(InternalError())

    def _write_to_caller(self, texts: Sequence[str]) -> Awaitable[object] | None:
        return None if self._has_ended else super()._write_to_caller(texts)

    def _on_upstream_end(self) -> None:
        self._flushing = asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        """Send the held-back messages, then end the session as the provider has ended it."""
        try:
            self._write_to_caller(await self._of_provider.pass_on((), final=True))
        except GateError as error:
            self._end(error)
        if not self._has_ended:
            super()._on_upstream_end()

    def _end(self, error: GateError) -> None:
        """End the session with an error event, because of a decision or a failure of a guard."""
        if not self._has_ended:
            self._has_ended = True
            is_failure = isinstance(error, PluginError | InternalError)
            self.revoke(error, UPSTREAM_FAILED if is_failure else POLICY_VIOLATION)
