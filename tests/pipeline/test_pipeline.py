"""One request, stop by stop: the readable specification of the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gates import ANSWER, START, WORDS, FakeProvider, make_config, make_gate, model
from tornado_gate import errors, types
from tornado_gate.config.model import ProviderConfig
from tornado_gate.pipeline import pipeline
from tornado_gate.pipeline.gate import Gate
from tornado_gate.types import Call, Caller, Timeouts, replace

NOBODY_SPECIAL = Caller(id="key_1", account="a")


async def send_request(gate: Gate, body: dict[str, Any] | None = None, **fields: Any) -> pipeline.PreparedAnswer:
    """Ask for model "m"; `fields` are those of the Call."""
    body = {"model": "m", "ask": "hi", **(body or {})}
    route = gate.snapshot.formats["plain"].routes[0]
    wire = types.WireRequest(
        route=route, path=route.path, path_arguments={}, query={}, headers={}, raw=orjson.dumps(body), json=body
    )
    call = Call(**{"id": "r", "operation": "chat", "format": "plain", "caller": NOBODY_SPECIAL, **fields})
    return await pipeline.answer(gate, gate.snapshot, call, wire)


async def text(answer: pipeline.PreparedAnswer) -> str:
    body = b"".join([chunk async for chunk in answer.reply.chunks])
    await answer.call.closing.aclose()
    return body.decode()


def run(gate: Gate, body: dict[str, Any] | None = None, **fields: Any) -> str:
    async def both() -> str:
        return await text(await send_request(gate, body, **fields))

    return asyncio.run(both())


def test_a_request_climbs_up_and_its_answer_comes_down(tmp_path: Path) -> None:
    assert run(make_gate(tmp_path, fake=FakeProvider())) == '{"answer":"hello"}'


def test_a_stream_takes_the_same_way(tmp_path: Path) -> None:
    streamed = run(make_gate(tmp_path, fake=FakeProvider()), {"stream": True})
    assert streamed == 'data: {"word":"hello"}\n\ndata: {"why":"stop"}\n\n'


def test_usage_and_finish_reason_are_noted_in_passing(tmp_path: Path) -> None:
    async def noted() -> types.Meter:
        answer = await send_request(make_gate(tmp_path, fake=FakeProvider()))
        await text(answer)
        return answer.call.meter

    meter = asyncio.run(noted())
    assert (meter.usage, meter.finish_reason) == (types.Usage(input_tokens=1, output_tokens=2), "stop")


def test_a_provider_that_speaks_the_callers_format_gets_the_bytes_as_they_came(tmp_path: Path) -> None:
    fake = FakeProvider(speaks=frozenset({"plain"}), chunks=(b'{"answer"', b': "as it came"}'))
    assert run(make_gate(tmp_path, fake=fake), {"unknown": 1}) == '{"answer": "as it came"}'
    (request,) = fake.requests
    assert isinstance(request, types.VerbatimRequest)
    assert request.raw == b'{"model":"m","ask":"hi","unknown":1}'


@pytest.mark.parametrize("speaks", [frozenset(), frozenset({"plain"})])
def test_a_wrong_body_is_refused_before_anything_goes_upstream(tmp_path: Path, speaks: frozenset[str]) -> None:
    fake = FakeProvider(speaks=speaks)
    with pytest.raises(errors.InvalidField):
        run(make_gate(tmp_path, fake=fake), {"ask": 1})
    assert not fake.asked


def test_an_unknown_model_is_404_whatever_else_the_body_holds(tmp_path: Path) -> None:
    with pytest.raises(errors.UnknownModel):
        run(make_gate(tmp_path, fake=FakeProvider()), {"model": "no-such", "ask": 1})


@pytest.mark.parametrize("named", [None, "", 5, ["m"], {"m": 1}, True])
def test_a_model_that_is_no_name_is_400(tmp_path: Path, named: Any) -> None:
    with pytest.raises(errors.InvalidField) as caught:
        run(make_gate(tmp_path, fake=FakeProvider()), {"model": named})
    assert caught.value.param == "model"


def test_a_name_that_is_too_long_is_unknown_and_not_kept_or_repeated(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, make_config(tmp_path, {"w/*": model("w/*", "fake")}), fake=FakeProvider())
    name = "w/" + "x" * 254
    assert run(gate, {"model": name}) == '{"answer":"hello"}'
    with pytest.raises(errors.UnknownModel) as caught:
        run(gate, {"model": name + "x" * 1000})
    assert caught.value.code == "model_not_found"
    assert len(caught.value.message) < 250
    assert gate.snapshot.targets.models.find_model(name + "x") is None


@pytest.mark.parametrize("speaks", [frozenset(), frozenset({"plain"})], ids=["common", "verbatim"])
@pytest.mark.parametrize("name", ["Model", "MODEL", "modeL"])
@pytest.mark.parametrize("others", [{}, {"model": "m"}], ids=["alone", "beside"])
def test_a_model_in_another_case_is_refused(
    tmp_path: Path, speaks: frozenset[str], name: str, others: dict[str, str]
) -> None:
    fake = FakeProvider(speaks=speaks)
    with pytest.raises(errors.InvalidField) as caught:
        run(make_gate(tmp_path, fake=fake), {**others, name: "another"})
    assert caught.value.param == name
    assert fake.asked == []


@pytest.mark.parametrize("name", ["models", "Models", "model\u017f", "route", "fallbacks", "fallback_models", "preset"])
def test_a_key_for_certain_models_may_not_list_others(tmp_path: Path, name: str) -> None:
    """Routers with a known wire format use these members; U+017F folds to s in Go's JSON parser."""
    fake = FakeProvider(speaks=frozenset({"plain"}), chunks=(b"{}",))
    gate = make_gate(tmp_path, fake=fake)
    with pytest.raises(errors.NotAllowed) as caught:
        run(gate, {name: ["another"]}, caller=Caller(id="k", account="a", models=("m",)))
    assert caught.value.param == name
    assert fake.asked == []
    run(gate, {name: ["another"]})
    assert len(fake.asked) == 1


def test_a_missing_model_is_the_default_of_the_operation(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, make_config(tmp_path, defaults={"chat": "m"}), fake=FakeProvider())
    assert run(gate, {"model": None}) == '{"answer":"hello"}'


def test_a_key_that_is_narrowed_may_not_use_other_models(tmp_path: Path) -> None:
    with pytest.raises(errors.NotAllowed):
        run(make_gate(tmp_path, fake=FakeProvider()), caller=Caller(id="k", account="a", models=("x-*",)))


def test_an_operation_that_no_target_has_is_refused(tmp_path: Path) -> None:
    fake = FakeProvider(operations=frozenset({"embeddings"}))
    with pytest.raises(errors.UnsupportedOperation) as caught:
        run(make_gate(tmp_path, fake=fake))
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "model", "operation_not_supported")


def test_the_refusal_of_an_operation_that_needs_another_distribution_names_the_command(tmp_path: Path) -> None:
    fake = FakeProvider(operations=frozenset({"embeddings"}), missing={"chat": "Run: pip install acme-chat"})
    with pytest.raises(errors.UnsupportedOperation, match=r"operation 'chat'\. Run: pip install acme-chat$"):
        run(make_gate(tmp_path, fake=fake))


def test_what_is_lost_is_named_or_refused(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, fake=FakeProvider(loses=("top_k", "seed")))
    assert asyncio.run(send_request(gate)).call.losses == ["top_k", "seed"]
    with pytest.raises(errors.InvalidField) as caught:
        asyncio.run(send_request(gate, strict=True))
    assert caught.value.param == "top_k"


# Fallback


def two(tmp_path: Path, first: FakeProvider, second: FakeProvider) -> Gate:
    entries = {"m": model("m", "first", fallback=("other",)), "other": model("other", "second")}
    config = make_config(tmp_path, entries, providers=("first", "second"))
    return make_gate(tmp_path, config, first=first, second=second)


@pytest.mark.parametrize(
    "error", [errors.UpstreamError("down"), errors.UpstreamTimeout("late"), errors.UpstreamRateLimited("slow")]
)
def test_the_next_target_is_tried_when_one_fails(tmp_path: Path, error: errors.GateError) -> None:
    first = FakeProvider(raises=error)
    answer = asyncio.run(send_request(two(tmp_path, first, FakeProvider())))
    assert (answer.call.target.provider, answer.call.progress.attempts) == ("second", 2)
    assert first.closed == ["r"]


def test_an_upstreams_own_400_is_the_callers_answer(tmp_path: Path) -> None:
    second = FakeProvider()
    refused = errors.UpstreamRefused("too long", status=400)
    with pytest.raises(errors.UpstreamRefused):
        run(two(tmp_path, FakeProvider(raises=refused), second))
    assert not second.asked


def test_a_plugin_that_raises_is_passed_over_like_a_dead_upstream(tmp_path: Path) -> None:
    assert run(two(tmp_path, FakeProvider(raises=KeyError("x")), FakeProvider())) == '{"answer":"hello"}'


def test_losses_of_a_failed_attempt_are_not_told(tmp_path: Path) -> None:
    first = FakeProvider(raises=errors.UpstreamError("down"), loses=("seed",))
    assert asyncio.run(send_request(two(tmp_path, first, FakeProvider()))).call.losses == []


def test_a_failure_before_the_first_word_falls_back_too(tmp_path: Path) -> None:
    async def fails(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
        yield START
        yield types.StreamError(error=errors.UpstreamOverloaded("busy"))

    assert run(two(tmp_path, FakeProvider(script=fails), FakeProvider()), {"stream": True}).startswith("data: {")


def test_a_failure_after_the_first_word_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    async def fails(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
        for event in (START, *WORDS[:2]):
            yield event
        raise errors.UpstreamError("broke off")

    second = FakeProvider()
    said = run(two(tmp_path, FakeProvider(script=fails), second), {"stream": True})
    assert said.startswith('data: {"word":"hello"}\n\ndata: {"error":{"message":"broke off"')
    assert "why" not in said
    assert not second.asked


def test_a_dead_target_is_left_alone_after_a_few_failures(tmp_path: Path) -> None:
    first = FakeProvider(raises=errors.UpstreamError("down"))
    gate = two(tmp_path, first, FakeProvider())
    for _ in range(40):
        assert run(gate) == '{"answer":"hello"}'
    assert len(first.asked) <= 20


def test_with_every_target_out_of_order_the_answer_is_503(tmp_path: Path) -> None:
    fake = FakeProvider(raises=errors.UpstreamError("down"))
    gate = make_gate(tmp_path, fake=fake)
    for _ in range(5):
        with pytest.raises(errors.UpstreamError):
            run(gate)
    with pytest.raises(errors.Unavailable) as caught:
        run(gate)
    assert caught.value.status == 503
    assert len(fake.asked) == 6  # it was tried as the last resort


# What plugins do wrong


async def in_disorder(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
    yield START
    yield WORDS[1]


async def raises(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
    yield START
    raise RuntimeError("secret")


async def no_event(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
    yield "text"  # type: ignore[misc]


@pytest.mark.parametrize("script", [in_disorder, raises, no_event])
def test_a_plugin_whose_events_are_wrong_is_named(tmp_path: Path, script: Any) -> None:
    gate = make_gate(tmp_path, fake=FakeProvider(script=script))
    with pytest.raises(errors.PluginError) as caught:
        run(gate)
    assert "secret" not in caught.value.message
    assert "fake" in gate.host.failures


def test_a_plugin_that_hangs_runs_into_the_deadline(tmp_path: Path) -> None:
    async def hangs(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
        await asyncio.Event().wait()
        yield START

    fake = FakeProvider(script=hangs)
    with pytest.raises(errors.UpstreamTimeout):
        run(hurried(tmp_path, fake), {"stream": True})
    assert fake.closed == ["r"]


def test_a_silence_in_the_middle_of_a_stream_ends_it_with_an_error(tmp_path: Path) -> None:
    async def stops(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
        for event in (START, *WORDS[:2]):
            yield event
        await asyncio.Event().wait()

    said = run(hurried(tmp_path, FakeProvider(script=stops)), {"stream": True})
    assert "upstream_timeout" in said


def hurried(tmp_path: Path, fake: FakeProvider) -> Gate:
    config = make_config(tmp_path)
    provider = ProviderConfig(name="fake", plugin="fake", timeouts=Timeouts(first_event=0.05, gap=0.05))
    return make_gate(tmp_path, replace(config, providers={"fake": provider}), fake=fake)


# Leaving nothing behind


def test_what_an_attempt_opened_is_closed_when_the_call_ends(tmp_path: Path) -> None:
    fake = FakeProvider()
    run(make_gate(tmp_path, fake=fake))
    assert fake.closed == ["r"]
    assert fake.left.is_set()


def test_a_caller_who_leaves_ends_the_provider_at_once(tmp_path: Path) -> None:
    async def waits(_provider: FakeProvider, _call: Call) -> AsyncIterator[types.StreamEvent]:
        for event in ANSWER[:3]:
            yield event
        await asyncio.Event().wait()

    async def leave() -> FakeProvider:
        fake = FakeProvider(script=waits)
        answer = await send_request(make_gate(tmp_path, fake=fake), {"stream": True})
        reading = asyncio.ensure_future(text(answer))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        await answer.call.closing.aclose()
        return fake

    fake = asyncio.run(leave())
    assert fake.left.is_set()
    assert fake.closed == ["r"]
