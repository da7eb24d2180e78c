"""The guards that cover a request, and the effects of their decisions. One definition for every path of a request.

Guards work on the caller's wire format: a request is reviewed before any target gets it, a response before it is sent to the
caller. So they see both lanes and every provider alike, and formats and providers do not depend on them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.admission.body_worker import BodyWorker
from tornado_gate.codec.text_files import ADVICE
from tornado_gate.errors import BlockedByGuard, GateError, InvalidField, NotReviewed, PluginError, Unavailable
from tornado_gate.guards.form_texts import view_files
from tornado_gate.guards.inner_texts import RequestTexts
from tornado_gate.guards.review_threads import ReviewThreads
from tornado_gate.guards.text_views import TextView, view_request
from tornado_gate.plugins.guard_lanes import GuardFailed, GuardLane, ReviewHangs, ReviewTimeout, Side
from tornado_gate.streams.pausable import Pausable, complete
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import (
    Block,
    Call,
    Caller,
    Decision,
    GuardedText,
    Replace,
    Request,
    Route,
    Span,
    Upload,
    WireRequest,
)
from tornado_gate.types.text_maps import TextMap
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

NO_MAP: Final = TextMap()
OPERATIONS_WITHOUT_TEXTS: Final = frozenset({"admin", "models"})
"""The operations whose requests and responses hold only names of conf."""
MANY_SPANS: Final = 1000
"""More replacements are checked in a thread."""


class GuardServices(NamedTuple):
    """The services of the process for reviews: metrics, the thread for large bodies, and the threads for large texts."""

    metrics: Metrics
    worker: BodyWorker
    threads: ReviewThreads


class Guards:
    """The guards of one configuration, in its order."""

    def __init__(self, lanes: Iterable[GuardLane] = ()) -> None:
        self.lanes = tuple(lanes)
        self._unseen: set[tuple[str, str]] = set()

    def identify_key(self, caller: Caller) -> tuple[str, ...]:
        """Return what the selection of guards depends on in a caller; () if no guard covers only some keys."""
        if any(lane.scope.options.keys for lane in self.lanes):
            return caller.id, caller.team, caller.name
        return ()

    def select(self, call: Call, operations: Iterable[str]) -> tuple[GuardLane, ...]:
        """Return the guards that cover a call, which one of `operations` may serve. An unknown model is covered."""
        return tuple(lane for lane in self.lanes if lane.scope.covers_request(call, operations))

    def refuse_unseen(self, covering: Iterable[GuardLane], unseen: str) -> None:
        """Refuse requests with contents (`unseen`, plural) that guards cannot see if a guard is required; else log once that they
        pass.

        Raises PluginUnavailable. The caller of this method reports unseen texts of a request: see `Review.pass_over`.
        """
        for lane in covering:
            if lane.required:
                raise lane.fail(f"it cannot see {unseen}").error
            if (lane.name, unseen) not in self._unseen:
                self._unseen.add((lane.name, unseen))
                log.warning("the guard '%s' cannot see %s; they pass without it", lane.name, unseen)

    def select_for_inner_call(self, outer: Call, inner: Call) -> tuple[tuple[GuardLane, ...], list[GuardLane]]:
        """Return the guards of a request that one model of the gateway sends to another model, for the caller's request
        `outer`; and the guards that cannot see its response.

        The guards of both models review the inner request. Its response is reviewed as part of the response to `outer`, by the
        guards that cover `outer`. A guard that covers only the inner model cannot see it. Raises PluginUnavailable.
        """
        seen = self.select(outer, (outer.operation,))
        others = [lane for lane in self.select(inner, (inner.operation,)) if lane not in seen]
        unseen = [lane for lane in others if lane.reads("response")]
        self.refuse_unseen(unseen, f"what the model '{outer.model}' receives from the model '{inner.model}'")
        return (*seen, *others), unseen


class Review:
    """The review of one request and of its response, or of one session, by the guards that cover it.

    `losses` names the guards that did not look, as the header x-gate-loss does.
    """

    def __init__(
        self,
        services: GuardServices,
        guards: Sequence[GuardLane],
        text_map: TextMap,
        call: Call,
        *,
        unseen: Iterable[GuardLane] = (),
    ) -> None:
        """Raise NotReviewed if the caller requires a guard that is `unseen` or cannot work."""
        self._services = services
        self.text_map = text_map
        self.call = call
        self.guards = [guard for guard in guards if not guard.error]
        self._readers: dict[Side, list[GuardLane]] = {
            "request": [guard for guard in self.guards if guard.reads("request")],
            "response": [guard for guard in self.guards if guard.reads("response")],
        }
        self.losses: list[str] = []
        for guard in (*unseen, *(guard for guard in guards if guard.error)):
            services.metrics.guards.count_review(guard.name, "request", "failed" if guard.error else "unseen", 0.0)
            self.pass_over(guard)

    def reads(self, side: Side) -> list[GuardLane]:
        """Return the guards that review requests, or responses."""
        return self._readers[side]

    def pass_over(self, guard: GuardLane) -> None:
        """Record that a guard that is not required does not review the request. Raises NotReviewed for a strict caller."""
        if self.call.strict:
            raise NotReviewed(guard.name)
        name = f"guard:{guard.name}"
        if name not in self.losses:
            self.losses.append(name)

    def report_losses(self, call: Call) -> None:
        """Add what was not reviewed so far to the losses of a request."""
        call.losses.extend(name for name in self.losses if name not in call.losses)

    def run(self, function: Callable[..., Any], *arguments: Any, size: int) -> Pausable[Any]:
        """Return the result of a function that parses or writes a body of `size` bytes, in the gate's thread for a large one."""
        if size <= SMALL_BYTES:
            return function(*arguments)
        return (yield self._services.worker.run(self.call.caller.account, function, *arguments))

    def run_edit(self, function: Callable[..., Any], *arguments: Any, size: int) -> Pausable[Any]:
        """Run like `run`, in a thread of the account, for a function whose time depends on the texts.

        Raises ReviewHangs and Unavailable.
        """
        if size <= SMALL_BYTES:
            return function(*arguments)
        try:
            return (yield self._services.threads.run(self.call.caller.account, function, *arguments))
        except ReviewTimeout:
            message = "The gateway could not process the texts of this request in time. Send fewer or shorter texts."
            raise Unavailable(message, code="overloaded", headers={"Retry-After": "10"}) from None

    def review_request(self, wire: WireRequest) -> Pausable[WireRequest]:
        """Return the request with the guards' replacements. Raises the error for a blocked request, or of a required guard."""
        guards = self.reads("request")
        if guards and wire.files:
            yield from self._review_files(guards, wire.files)
        if not guards or not wire.json:
            return wire
        size, rounded = len(wire.raw), False

        def view(body: Any) -> TextView:
            nonlocal rounded
            text_view = view_request(self.text_map, body)
            rounded = rounded or text_view.is_rounded
            return text_view

        body = yield from self.review_body("request", self.call, guards, view, wire.json, size)
        if body is wire.json and not rounded:
            return wire
        raw = b"" if wire.form else (yield from self.run(orjson.dumps, body, size=size))
        return replace(wire, json=body, raw=raw)

    def review_body(
        self,
        side: Side,
        call: Call,
        guards: Sequence[GuardLane],
        view: Callable[[Any], TextView | RequestTexts],
        body: Any,
        size: int,
    ) -> Pausable[Any]:
        """Return the body after all `guards`: the same object without replacements. `view` reads its texts."""
        text_view: TextView | RequestTexts | None = None
        for number, guard in enumerate(guards):
            try:
                if text_view is None:
                    text_view = yield from self.run_edit(view, body, size=size)
                if not text_view.texts and not text_view.unread:
                    break
                if text_view.unread:
                    self.settle_unread(guard, text_view.unread)
                if not text_view.texts:
                    continue
                spans = yield from self.review_texts(side, guard, call, text_view.texts, size=size)
                if spans:
                    body = yield from self.run_edit(text_view.apply, spans, size=size)
                    text_view = None
            except ReviewHangs:
                if text_view is not None:  # the guard cannot replace spans of these texts
                    raise make_hanging_error() from None
                for other in guards[number:]:
                    self._services.metrics.guards.count_review(other.name, side, "failed", 0.0)
                    self._fail(other, other.fail_hanging())
                break
        return body

    def _fail(self, guard: GuardLane, failure: GuardFailed) -> None:
        """Handle the failure of a guard. Raises the error of a required guard."""
        if guard.required:
            raise failure.error from None
        self.pass_over(guard)

    def settle_unread(self, guard: GuardLane, unread: Sequence[tuple[str, str]]) -> None:
        """Decide about values that a guard should see and that cannot be read, by their paths and reasons.

        Raises BlockedByGuard if the guard is required, and InvalidField if the caller sent ``x-gate-strict: 1``.
        """
        path, reason = unread[0]
        if guard.required:
            raise BlockedByGuard(f"The guard '{guard.name}' cannot read '{path}': it {reason}. {ADVICE}", param=path)
        if self.call.strict:
            message = f"The guard '{guard.name}' cannot read '{path}': it {reason} (rejected because of x-gate-strict). {ADVICE}"
            raise InvalidField(path, message, code="unreadable_file")
        self.pass_over(guard)

    def _review_files(self, guards: Sequence[GuardLane], files: Sequence[Upload]) -> Pausable[None]:
        """Review the names of a form's files, and the texts of its text files. Both are fixed."""
        texts, unread = yield view_files(files)
        for guard in guards:
            if unread:
                self.settle_unread(guard, unread)
            yield from self.review_texts("request", guard, self.call, texts)

    async def review_window(self, side: Side, guard: GuardLane, call: Call, texts: list[GuardedText]) -> Sequence[Span]:
        """Return the replacements of a guard in texts of a stream or session. Raises the errors of `review_texts`."""
        return await complete(self.review_texts(side, guard, call, texts))

    def review_texts(
        self, side: Side, guard: GuardLane, call: Call, texts: list[GuardedText], *, size: int = 0
    ) -> Pausable[Sequence[Span]]:
        """Return the replacements of a guard in texts.

        Raises the error for a block, and the error of a required guard that fails.

        `size` is the size of a whole body. The hook reviews a large body, or large texts, in a thread of the account.
        """
        size = size or sum([len(text.text) for text in texts])
        started, outcome = time.perf_counter(), "failed"
        try:
            decision = yield from self._call_guard(side, guard, call, texts, size)
            many = isinstance(decision, Replace) and len(decision.spans) > MANY_SPANS
            work = SMALL_BYTES + 1 if many else 0
            outcome, spans = yield from self.run_edit(apply_decision, guard, decision, texts, size=work)
            return spans  # type: ignore[no-any-return]
        except GuardFailed as failure:
            self._fail(guard, failure)
            return ()
        except PluginError:
            raise
        except ReviewHangs:
            raise make_hanging_error() from None
        except Unavailable:
            outcome = "waited"
            raise
        except GateError:
            outcome = "block"
            raise
        finally:
            self._services.metrics.guards.count_review(guard.name, side, outcome, time.perf_counter() - started)

    def _call_guard(
        self, side: Side, guard: GuardLane, call: Call, texts: list[GuardedText], size: int
    ) -> Pausable[Decision]:
        if size > SMALL_BYTES:
            return guard.review(side, call, texts, size, partial(self._services.threads.run, call.caller.account))
        if call.worker is not None:  # only the request is large, not these texts
            call = call.replace(worker=None)
        return guard.review(side, call, texts, size)


def make_hanging_error() -> Unavailable:
    """Return the error for a request whose texts cannot be changed, because another review of its account does not end."""
    message = "The review of an earlier large text of this account does not end. Send large texts again later."
    return Unavailable(message, code="overloaded", headers={"Retry-After": "10"})


def apply_decision(guard: GuardLane, decision: Decision, texts: Sequence[GuardedText]) -> tuple[str, Sequence[Span]]:
    """Return the name of a decision for metrics, and its replacements.

    Raises BlockedByGuard for a block, and for a replacement that is not possible, because the text must not pass unchanged.
    Raises GuardFailed for a decision that contradicts itself.
    """
    if decision is None:
        return "allow", ()
    if isinstance(decision, Block):
        if not 400 <= decision.status <= 599:
            raise guard.fail("it returned a Block with a status that is not 400 to 599")
        raise BlockedByGuard(decision.message, status=decision.status, code=decision.code)
    spans = sorted(decision.spans)
    ends: dict[int, int] = {}
    for span in spans:
        if not (0 <= span.text < len(texts) and 0 <= span.start <= span.end <= len(texts[span.text].text)):
            raise guard.fail("it returned a span outside of its texts")
        if span.start < ends.get(span.text, 0):
            raise guard.fail("it returned spans that overlap")
        ends[span.text] = span.end
        _check_replaceable(guard, texts[span.text], span)
    return ("replace" if spans else "allow"), spans


def _check_replaceable(guard: GuardLane, text: GuardedText, span: Span) -> None:
    """Raise BlockedByGuard."""
    if text.is_fixed:
        raise BlockedByGuard(
            f"The guard '{guard.name}' must replace a text that cannot be changed, for example because it is signed: "
            f"{text.path or 'the body'}. Send the request without this text.",
            param=text.path,
        )
    if span.start < text.sent:
        raise BlockedByGuard(
            f"The guard '{guard.name}' must replace a text that was already sent, so that the response ends here."
        )


def begin_review(services: GuardServices, guards: Guards, call: Call, wire: WireRequest) -> Review | None:
    """Return the review of a request by the guards that cover it; None if no guard does. `call` has the model of the request."""
    route = wire.route
    covering = guards.select(call, route.operations)
    if not covering:
        return None
    if route.model != "none":
        call.progress.request_model(call.model)
    if route.texts is None or wire.plain:
        guards.refuse_unseen(covering, f"the texts of {route.path}, whose format does not say where they are")
        return Review(services, (), NO_MAP, call, unseen=covering)
    return Review(services, covering, route.texts, call)


def begin_session_review(services: GuardServices, guards: Guards, call: Call, route: Route) -> Review | None:
    """Return the review of a realtime session by the guards that cover it; None if no guard does.

    The review has no guards if no guard can see the session.

    Raises PluginUnavailable if a required guard cannot see its messages.
    """
    covering = guards.select(call, (call.operation,))
    if not covering:
        return None
    texts = route.texts
    if texts is None or texts.client_message is None or texts.server_message is None:
        guards.refuse_unseen(covering, f"the messages of {route.path}, whose format does not say where their texts are")
        return Review(services, (), NO_MAP, call, unseen=covering)
    return Review(services, covering, texts, call)


async def review_inner_request(
    services: GuardServices, guards: Guards, outer: Call, inner: Call, request: Request
) -> Request:
    """Return a request of a model of the gateway to another model, after the guards. Raises the errors of `Review`."""
    covering, unseen = guards.select_for_inner_call(outer, inner)
    review = Review(services, covering, NO_MAP, inner.replace(strict=outer.strict), unseen=unseen)
    work = review.review_body("request", inner, review.reads("request"), RequestTexts, request, 0)
    reviewed: Request = await complete(work)
    review.report_losses(outer)
    return reviewed
