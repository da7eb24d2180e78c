"""A request with limits begins without a task. Its limits count like those of any request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support import front
from tests.support.direct import ALICE, KEYS, Stage, echo, make_request, read_error, serving
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.config.model import ModelEntry, ModelTarget
from tornado_gate.errors import InvalidField, UpstreamOverloaded
from tornado_gate.types import Budget, Call
from tornado_gate.types.value import replace


def play(folder: Path, test: Callable[[Stage], Coroutine[Any, Any, None]], **limits: Any) -> None:
    async def check() -> None:
        keys = (replace(KEYS[0], **limits), *KEYS[1:])
        async with serving(folder, echo(), keys=keys) as stage:
            await test(stage)

    front.run("httptools", check())


def test_exactly_the_limit_is_admitted_and_each_response_shows_what_is_left(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        answers = await stage.running.ask(*[make_request()] * 5)
        assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
        left = [answer.headers["X-Ratelimit-Remaining-Requests"] for answer in answers[:3]]
        assert left == ["2", "1", "0"]
        assert {answer.headers["X-Ratelimit-Limit-Requests"] for answer in answers} == {"3"}
        assert read_error(answers[3]) == (429, "rate_limited")
        assert stage.direct == 3

    play(tmp_path, test, requests_per_minute=3)


def test_open_requests_are_freed_by_every_end(tmp_path: Path) -> None:
    def refuse(call: Call) -> None:
        if len(stage_calls) % 2:
            raise InvalidField("ask", "no")
        stage_calls.append(call)

    stage_calls: list[Call] = []

    async def test(stage: Stage) -> None:
        stage.sender.hook = refuse
        answers = await stage.running.ask(*[make_request()] * 4)
        assert [answer.status for answer in answers] == [200, 400, 400, 400]
        stage.sender.hook = None
        [answer] = await stage.running.ask(make_request())
        assert answer.status == 200
        assert stage.direct == 5

    play(tmp_path, test, concurrent_requests=1)


def test_a_request_that_the_caller_must_correct_costs_nothing(tmp_path: Path) -> None:
    def refuse(_call: Call) -> None:
        raise InvalidField("ask", "no")

    async def test(stage: Stage) -> None:
        stage.sender.hook = refuse
        assert [answer.status for answer in await stage.running.ask(*[make_request()] * 3)] == [400] * 3
        stage.sender.hook = None
        answers = await stage.running.ask(*[make_request()] * 3)
        assert [answer.status for answer in answers] == [200, 200, 429]

    play(tmp_path, test, requests_per_minute=2)


def test_a_request_that_goes_on_at_another_target_counts_once(tmp_path: Path) -> None:
    def fail_at_first(call: Call) -> None:
        if call.target.upstream_model == "one":
            raise UpstreamOverloaded("busy")

    async def test(stage: Stage) -> None:
        first = ModelEntry(name="m", targets=(ModelTarget(provider="sender", model="one"),), fallback=("other",))
        stage.reload(models={**stage.config.models, "m": first})
        stage.sender.hook = fail_at_first
        answers = await stage.running.ask(*[make_request()] * 3)
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[0].headers["X-Gate-Attempts"] == "2"
        assert answers[0].headers["X-Ratelimit-Remaining-Requests"] == "1"

    play(tmp_path, test, requests_per_minute=2)


def test_tokens_are_reserved_by_estimate_and_settled_to_the_usage(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        left = []
        for number in range(1, 4):
            [answer] = await stage.running.ask(make_request("x" * 400))
            left.append(int(answer.headers["X-Ratelimit-Remaining-Tokens"]))
            await stage.wait_for_entries(number)
        used = left[0] - left[1]
        assert left[1] - left[2] == used
        assert 90 < used < 300, "what is left shows the estimate of the running request and the usage of the others"
        assert stage.direct == 3

    play(tmp_path, test, tokens_per_minute=100_000)


def test_tokens_that_do_not_suffice_are_refused(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        [refused] = await stage.running.ask(make_request("x" * 1500))
        assert read_error(refused) == (429, "rate_limited")
        [answer] = await stage.running.ask(make_request("x"))
        assert answer.status == 200

    play(tmp_path, test, tokens_per_minute=200)


def test_a_budget_that_was_not_read_yet_is_read_in_a_task(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        answers = await stage.running.ask(*[make_request()] * 3)
        assert [answer.status for answer in answers] == [200] * 3
        assert stage.direct == 2

    play(tmp_path, test, budget=Budget(tokens_per_day=1_000_000))


def test_a_lock_that_another_process_holds_is_awaited_in_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stage: Stage) -> None:
        await stage.running.ask(make_request())
        monkeypatch.setattr(EmbeddedStore, "try_reserve", lambda *_: None)
        [answer] = await stage.running.ask(make_request())
        assert (answer.status, answer.headers["X-Ratelimit-Remaining-Requests"]) == (200, "7")
        assert stage.direct == 1

    play(tmp_path, test, requests_per_minute=9)


def test_the_keys_of_others_are_not_limited(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await stage.running.ask(make_request(key=ALICE))
        [refused] = await stage.running.ask(make_request(key=ALICE))
        [other] = await stage.running.ask(make_request(key=KEYS[1].key))
        assert (refused.status, other.status) == (429, 200)
        assert "X-Ratelimit-Limit-Requests" not in other.headers

    play(tmp_path, test, requests_per_minute=1)
