"""What the decision of a guard does, and which guards cover a request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tornado_gate import guard_impl, types
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import BlockedByGuard, PluginUnavailable
from tornado_gate.gateway.body_worker import BodyWorker
from tornado_gate.gateway.guards import Guards, apply_decision
from tornado_gate.plugins.guard_lanes import GuardFailed, GuardLane
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.types import Block, Caller, GuardedText, Replace, Span

TEXTS = [
    GuardedText(kind="user", path="messages.0.content", text="0123456789"),
    GuardedText(kind="assistant", path="choices.0.message.content", text="0123456789", sent=4, is_complete=False),
    GuardedText(kind="reasoning", path="content.0.thinking", text="0123456789", is_fixed=True),
]
ANN = Caller(id="conf:ann", account="ann", name="ann")


class Silent:
    @guard_impl
    def review_request(self) -> types.Decision:
        return None


def make_guard(name: str = "guard", **options: Any) -> GuardLane:
    host, given = PluginHost(), PluginOptions(**options)
    host.add(name, Silent)
    return GuardLane(host, host.configure(name, given, Scope(given)))


def replace(*spans: tuple[int, int, int]) -> Replace:
    return Replace(spans=tuple(Span(text, start, end, "*") for text, start, end in spans))


def test_a_decision_is_applied_or_refused() -> None:
    guard = make_guard()
    assert apply_decision(guard, None, TEXTS) == ("allow", ())
    assert apply_decision(guard, replace(), TEXTS) == ("allow", [])
    found = apply_decision(guard, replace((1, 4, 6), (0, 8, 10), (0, 1, 3)), TEXTS)
    assert found == ("replace", [Span(0, 1, 3, "*"), Span(0, 8, 10, "*"), Span(1, 4, 6, "*")])
    for spans in ([(3, 0, 1)], [(-1, 0, 1)], [(0, 4, 11)], [(0, 5, 4)], [(0, -1, 2)], [(0, 0, 3), (0, 2, 4)]):
        with pytest.raises(GuardFailed):
            apply_decision(guard, replace(*spans), TEXTS)
    with pytest.raises(GuardFailed):
        apply_decision(guard, Block(message="no", status=200), TEXTS)


def test_what_cannot_be_replaced_must_not_pass() -> None:
    guard = make_guard()
    for span, reason in (((2, 1, 3), "cannot be changed"), ((1, 3, 6), "was already sent")):
        with pytest.raises(BlockedByGuard, match=reason) as blocked:
            apply_decision(guard, replace(span), TEXTS)
        assert (blocked.value.status, blocked.value.code) == (400, "blocked_by_guard")
    with pytest.raises(BlockedByGuard, match="no") as blocked:
        apply_decision(guard, Block(message="no", status=451, code="law"), TEXTS)
    assert blocked.value.body() == {"message": "no", "type": "invalid_request_error", "param": "", "code": "law"}
    assert (blocked.value.status, blocked.value.retryable) == (451, False)


def test_a_request_whose_model_is_not_known_is_covered() -> None:
    of_gpt, of_chat, of_ann = make_guard(models=("gpt-*",)), make_guard(operations=("chat",)), make_guard(keys=("ann",))
    guards = Guards([of_gpt, of_chat, of_ann])
    call = types.Call(id="r", operation="chat", format="plain", caller=ANN)
    assert guards.select(call, ("chat",)) == (of_gpt, of_chat, of_ann)
    assert guards.select(call.replace(model="other"), ("images", "chat")) == (of_chat, of_ann)
    assert guards.select(call.replace(caller=Caller(id="b", account="b", name="bob")), ("images",)) == (of_gpt,)
    assert not Guards()


def test_a_request_to_an_inner_model_that_a_guard_cannot_see_is_refused_or_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outer = types.Call(id="r", operation="realtime", format="plain", model="voice", caller=ANN)
    inner = outer.replace(operation="chat", model="gpt-4o")
    Guards([make_guard(required=True)]).check_inner_call(outer, inner)
    with pytest.raises(PluginUnavailable):
        Guards([make_guard(required=True, models=("gpt-*",))]).check_inner_call(outer, inner)
    guards = Guards([make_guard(models=("gpt-*",))])
    with caplog.at_level(logging.WARNING):
        guards.check_inner_call(outer, inner)
        guards.check_inner_call(outer, inner)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "'guard' cannot see the requests of the model 'voice' to the model 'gpt-4o'" in line


def test_the_time_limit_of_a_review_does_not_count_the_time_in_the_queue() -> None:
    async def run() -> list[Any]:
        worker, release = BodyWorker(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def wait_for_release() -> str:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return "first"

        first = asyncio.ensure_future(worker.run("ann", wait_for_release))
        second = asyncio.ensure_future(worker.run_timed("bob", 0.5, lambda: "second"))
        await asyncio.wait([second], timeout=0.7)
        assert not second.done()
        release.set()
        results = [await first, await second]
        release.clear()
        with pytest.raises(TimeoutError):
            await worker.run_timed("bob", 0.05, wait_for_release)
        results.append(await worker.run("bob", lambda: "third"))
        release.set()
        worker.close()
        return results

    assert asyncio.run(run()) == ["first", "second", "third"]
