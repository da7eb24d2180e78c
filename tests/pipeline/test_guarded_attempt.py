"""A request that guards review ends the same with and without a task, whatever the guards decide and the upstream does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.pipeline.test_direct import RESPONSES, Held, Scripted, interrupt, leave, observe, play
from tests.support import front
from tests.support.direct import KEYS, HookedFormat, Stage, make_request, reply
from tests.support.variants import vary
from tornado_gate import format_impl, guard_impl, types
from tornado_gate.config.model import LimitsConfig, ModelEntry, ModelTarget, PluginOptions
from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.pipeline import plans
from tornado_gate.server.handlers.answer import AnswerHandler
from tornado_gate.types.text_maps import Object, Text, TextMap, Word
from tornado_gate.types.value import replace

Review = Callable[[list[types.GuardedText]], Any]
TEXTS = TextMap(
    request=Object(members={"model": Word(), "ask": Text(kind="user")}),
    response=Object(members={"answer": Text(kind="assistant")}),
    event=Object(members={"word": Text(kind="assistant"), "why": Word()}),
)


def allow(_texts: list[types.GuardedText]) -> types.Decision:
    return None


def mask(texts: list[types.GuardedText]) -> types.Decision:
    spans = [types.Span(index, 0, 1, "*") for index, text in enumerate(texts) if not text.is_fixed and not text.sent]
    return types.Replace(spans=tuple(spans)) if spans else None


def block(_texts: list[types.GuardedText]) -> types.Decision:
    return types.Block(message="not here", status=403, code="house_rule")


def replace_the_name(texts: list[types.GuardedText]) -> types.Decision:
    [index] = [index for index, text in enumerate(texts) if text.path == "model"]
    return types.Replace(spans=(types.Span(index, 0, 1, "other"),))


def refuse(_texts: list[types.GuardedText]) -> types.Decision:
    raise InvalidField("ask", "the guard refuses it")


def fail(_texts: list[types.GuardedText]) -> types.Decision:
    raise KeyError("a failure")


def cancel(_texts: list[types.GuardedText]) -> types.Decision:
    raise asyncio.CancelledError


def decide_wrongly(_texts: list[types.GuardedText]) -> Any:
    return "no decision"


def wait_and(review: Review) -> Review:
    def begin(texts: list[types.GuardedText]) -> Any:
        async def decide() -> types.Decision:
            await asyncio.sleep(0)
            decision: types.Decision = review(texts)
            return decision

        return decide()

    begin.__name__ = f"wait_and_{review.__name__}"
    return begin


DECISIONS: tuple[Review, ...] = (
    *(allow, mask, block, refuse, fail, cancel, decide_wrongly),
    *(wait_and(allow), wait_and(mask), wait_and(block), wait_and(fail), replace_the_name),
)
FAILURES = (fail, decide_wrongly, wait_and(fail))


class Guard:
    """A guard whose decisions a test selects. `log` has what it was given."""

    request: Review = staticmethod(allow)
    response: Review = staticmethod(allow)

    def __init__(self) -> None:
        self.reads: Any = frozenset({"request", "response"})
        self.log: list[Any] = []

    @guard_impl
    def guard_options(self) -> types.GuardOptions:
        return types.GuardOptions(lookahead=0, reads=self.reads)

    @guard_impl
    def review_request(self, call: types.Call, texts: list[types.GuardedText]) -> Any:
        self._note("request", call, texts)
        return self.request(texts)

    @guard_impl
    def review_response(self, call: types.Call, texts: list[types.GuardedText]) -> Any:
        self._note("response", call, texts)
        return self.response(texts)

    def _note(self, side: str, call: types.Call, texts: list[types.GuardedText]) -> None:
        target = call.target.provider, call.progress.attempts, dict(call.facts), call.strict
        self.log.append((side, call.model, call.operation, target, [(text.kind, text.text) for text in texts]))


class GuardedFormat(HookedFormat):
    """The format of the stage, with the places of its texts."""

    @format_impl
    def routes(self) -> list[types.Route]:
        first, *others = super().routes()
        return [replace(first, texts=TEXTS), *others]


@dataclass
class GuardedStage:
    """A stage with a guard. `tasks` counts the requests that needed a task."""

    stage: Stage
    guard: Guard
    tasks: int = 0

    def apply(self, *, reads: tuple[str, ...] = ("request", "response"), **options: Any) -> None:
        """Serve a configuration with these options of the guard."""
        self.guard.reads = frozenset(reads)
        self.stage.reload(plugin_options={"guard": PluginOptions(**options)})

    async def look(self, request: bytes) -> dict[str, Any]:
        """Send a request. Return all that can be observed of it."""
        self.guard.log.clear()
        self.stage.sender.calls.clear()
        counted: list[Any] = []
        metrics = self.stage.gate.metrics.guards
        count = metrics.count_review
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(metrics, "count_review", lambda *values: (counted.append(values[:3]), count(*values)))
            seen = await observe(self.stage, request)
        sent = [call.progress.is_withheld for call in self.stage.sender.calls]
        return {**seen, "guard": self.guard.log.copy(), "reviews": counted, "calls": sent}

    async def compare(self, request: bytes, *, needs_task: bool | None = None) -> list[str]:
        """Send a request without a task if possible, and as all others. Return what differs."""
        seen = []
        for is_direct in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                if not is_direct:
                    patch.setattr(plans, "make_plan", lambda *_: None)
                self.stage.reload()  # a guard reports each kind of failure once for a configuration
                with pytest.MonkeyPatch.context() as warming:
                    warming.setattr(self.guard, "request", allow)
                    warming.setattr(self.guard, "response", allow)
                    await self.stage.gate.pools.get_pool(self.stage.gate.snapshot.targets.providers["sender"]).close()
                    self.stage.gate.pools._pools.clear()
                    await self.stage.warm()
                before = self.tasks
                seen.append(await self.look(request))
                if needs_task is not None:
                    assert self.tasks - before == (needs_task or not is_direct)
        self.stage.gate.plans.clear()
        direct, general = seen
        return [
            f"{name}: {direct[name]} instead of {general[name]}" for name in direct if direct[name] != general[name]
        ]


def play_guarded(folder: Path, script: Any, test: Callable[[GuardedStage], Any], **rest: Any) -> None:
    async def begin(stage: Stage) -> None:
        guarded = GuardedStage(stage, Guard())
        stage.gate.host.add("guard", guarded.guard)
        stage.reload(plugins={**stage.config.plugins, "guard": True})
        start = AnswerHandler.start_work

        def start_work(handler: AnswerHandler) -> None:
            guarded.tasks += 1
            start(handler)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnswerHandler, "start_work", start_work)
            await test(guarded)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.direct.HookedFormat", GuardedFormat)
        play(folder, script, begin, **rest)


@pytest.mark.parametrize("speaks", vary("plain", "other"))
def test_every_decision_has_the_same_effect_without_a_task(tmp_path: Path, speaks: str) -> None:
    script = Scripted()
    failed: dict[Any, list[str]] = {}

    async def test(guarded: GuardedStage) -> None:
        for options in ({}, {"required": True}):
            guarded.apply(**options)
            for side in ("request", "response"):
                for decide in FAILURES if options else DECISIONS[: len(DECISIONS) - (side == "response")]:
                    for strict in ([], ["X-Gate-Strict: 1"])[: 1 + (decide is fail)]:
                        for stream in (False, True):
                            script.steps = RESPONSES["events, chunked" if stream else "whole"]
                            with pytest.MonkeyPatch.context() as patch:
                                patch.setattr(guarded.guard, side, decide)
                                found = await guarded.compare(make_request("hi", *strict, stream=stream))
                            if found:
                                failed[str(options), side, decide.__name__, str(strict), stream] = found

    play_guarded(tmp_path, script, test, speaks=frozenset({speaks}))
    assert not failed, "\n".join(f"{name}: {differences}" for name, differences in failed.items())


@pytest.mark.qa
@pytest.mark.parametrize("speaks", ["plain", "other"])
def test_a_guarded_response_ends_like_that_of_any_attempt(tmp_path: Path, speaks: str) -> None:
    script = Scripted()
    failed: dict[Any, list[str]] = {}

    async def test(guarded: GuardedStage) -> None:
        guarded.apply()
        guarded.guard.response = mask
        for name, steps in RESPONSES.items():
            script.steps = steps
            for stream in (False, True):
                found = await guarded.compare(make_request(stream=stream))
                if found:
                    failed[name, stream] = found

    play_guarded(tmp_path, script, test, speaks=frozenset({speaks}))
    assert not failed, "\n".join(f"{name}: {differences}" for name, differences in failed.items())


def test_only_guards_that_wait_and_streams_that_they_review_need_a_task(tmp_path: Path) -> None:
    script = Scripted()

    async def test(guarded: GuardedStage) -> None:
        for reads, decide, stream, needs_task in (
            (("request", "response"), mask, False, False),
            (("request",), mask, False, False),
            (("request",), mask, True, False),
            (("response",), mask, False, False),
            (("response",), mask, True, True),
            (("request", "response"), wait_and(mask), False, True),
            (("request",), wait_and(allow), True, True),
        ):
            guarded.apply(reads=reads)
            script.steps = RESPONSES["events, whole" if stream else "whole"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(guarded.guard, "request", decide)
                patch.setattr(guarded.guard, "response", decide)
                assert await guarded.compare(make_request(stream=stream), needs_task=needs_task) == []

    play_guarded(tmp_path, script, test)


def test_a_large_response_is_reviewed_in_a_thread(tmp_path: Path) -> None:
    script = Scripted()
    script.steps = [reply(orjson.dumps({"answer": "hello " * 20_000}))]

    async def test(guarded: GuardedStage) -> None:
        guarded.apply()
        guarded.guard.response = mask
        assert await guarded.compare(make_request(), needs_task=True) == []
        assert guarded.guard.log[-1][0] == "response"

    play_guarded(tmp_path, script, test, limits=LimitsConfig(body_bytes=2000))


def test_limits_count_guarded_requests_without_a_task(tmp_path: Path) -> None:
    """A request that a guard blocks counts, and one that has other faults does not."""
    script = Scripted()
    script.steps = RESPONSES["whole"]
    keys = (replace(KEYS[0], requests_per_minute=4, tokens_per_minute=10_000),)

    async def test(guarded: GuardedStage) -> None:
        guarded.apply(required=True)
        client = await guarded.stage.running.connect()

        async def ask(request: bytes) -> front.Answer:
            await client.send(request)
            return await client.answer()

        assert (await ask(make_request())).status == 200
        guarded.tasks = 0
        first = await ask(make_request())
        assert guarded.tasks == 0
        guarded.guard.request = block
        assert (await ask(make_request())).status == 403
        guarded.guard.request = fail
        assert (await ask(make_request())).status == 503
        guarded.guard.request = allow
        last = await ask(make_request())
        assert (first.status, last.status) == (200, 200)
        assert (await ask(make_request())).status == 429
        await client.close()

    play_guarded(tmp_path, script, test, keys=keys)


def test_the_targets_of_a_guarded_request_are_tried_in_order(tmp_path: Path) -> None:
    """The first one is asked without a task; the losses of the guard and the number of attempts reach the caller."""
    script = Scripted()
    script.steps = RESPONSES["whole"]

    async def test(guarded: GuardedStage) -> None:
        guarded.apply()
        stage = guarded.stage
        other = ModelEntry(name="other", targets=(ModelTarget(provider="sender", model="last"),))
        chosen = ModelEntry(name="m", targets=(ModelTarget(provider="sender", model="one"),), fallback=("other",))
        stage.reload(models={"m": chosen, "other": other})
        assert (await stage.running.ask(make_request()))[0].headers["X-Gate-Model"] == "one"
        guarded.guard.request = fail
        stage.sender.hook = fail_at_first
        before = stage.direct
        [answer] = await stage.running.ask(make_request())
        assert stage.direct == before + 1
        assert (answer.status, answer.headers["X-Gate-Model"], answer.headers["X-Gate-Attempts"]) == (200, "last", "2")
        assert answer.headers["X-Gate-Loss"] == "guard:guard"

    play_guarded(tmp_path, script, test)


def fail_at_first(call: types.Call) -> None:
    if call.target.upstream_model == "one":
        raise UpstreamOverloaded("busy")


@pytest.mark.parametrize(("end", "status"), [(leave, 499), (interrupt, 503)])
def test_a_review_that_waits_ends_with_its_request(tmp_path: Path, end: Callable[[Any], None], status: int) -> None:
    """The request ends before the first step of its task, in which the guard would have begun to wait."""

    async def test(guarded: GuardedStage) -> None:
        guarded.apply()
        guarded.guard.request = wait_and(allow)
        start = AnswerHandler.start_work

        def start_work(handler: AnswerHandler) -> None:
            start(handler)
            end(handler)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnswerHandler, "start_work", start_work)
            client = await guarded.stage.running.connect()
            await client.send(make_request())
            [entry] = await guarded.stage.wait_for_entries(1)
        assert entry.status == status
        assert entry.progress.attempts == 0
        await client.close()

    play_guarded(tmp_path, Held(), test)
