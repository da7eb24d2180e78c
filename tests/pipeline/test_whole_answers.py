"""A whole response of the common lane takes no events, and otherwise everything is as with its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_blame import find_culprit, make_gate
from tests.pipeline.test_pipeline import run, send_request, text
from tests.support.gates import FakeProvider, PlainFormat
from tornado_gate import Capabilities, ProviderEntry, errors, events, format_impl, provider_impl, types
from tornado_gate.pipeline.gate import Gate
from tornado_gate.types.result_checks import find_wrong_result_field

USAGE = types.Usage(input_tokens=1, output_tokens=2)
SIGNATURE = types.Opaque(issuer="", value="s1")


def result_of(*parts: Any, **fields: Any) -> types.ChatResult:
    choice = types.Choice(**{"parts": parts or (types.Text(text="hello"),), "reason": "stop", **fields})
    return types.ChatResult(model="m", choices=(choice,), usage=USAGE, extra={"service_tier": "flex"})


class RenderingFormat(PlainFormat):
    """Renders a whole response as the number of its parts; `kinds` are the classes of the events that it got."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        from tornado_gate.streams.events import render_json

        self.kinds.append(type(events).__name__)
        return types.Reply(content_type="application/json", chunks=render_json(events, self.render))

    def render(self, result: types.ChatResult) -> Any:
        return [type(part).__name__ for part in result.choices[0].parts]


class FailingFormat(RenderingFormat):
    def render(self, result: types.ChatResult) -> Any:
        raise KeyError("content")


@dataclass(eq=False)
class WholeProvider(FakeProvider):
    """A provider whose response is `result`, known completely."""

    result: types.ChatResult = field(default_factory=result_of)
    signs: bool = False

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=self.operations, signatures=self.signs)

    @provider_impl
    def translate_response(self, call: types.Call) -> AsyncIterator[types.StreamEvent]:
        return events.WholeEvents(self.result)


def answer_with(tmp_path: Path, plain: PlainFormat, result: types.ChatResult, **fields: Any) -> tuple[str, types.Meter]:
    gate = make_gate(tmp_path, plain=plain, fake=WholeProvider(result=result, **fields))

    async def answer() -> tuple[str, types.Meter]:
        answered = await send_request(gate)
        return await text(answered), answered.call.meter

    return asyncio.run(answer())


def test_a_format_takes_the_result_without_its_events(tmp_path: Path) -> None:
    plain = RenderingFormat()
    assert answer_with(tmp_path, plain, result_of())[0] == '["Text"]'
    assert plain.kinds == ["WholeEvents"]


def test_a_format_that_reads_events_gets_them(tmp_path: Path) -> None:
    assert answer_with(tmp_path, PlainFormat(), result_of())[0] == '{"answer":"hello"}'


def test_a_caller_who_requests_a_stream_gets_one(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, plain=PlainFormat(), fake=WholeProvider())
    assert run(gate, {"stream": True}) == 'data: {"word":"hello"}\n\ndata: {"why":"stop"}\n\n'


def test_the_response_is_measured(tmp_path: Path) -> None:
    picture = types.Image(source=types.Data(media_type="image/png", base64="AAAA"))
    _, meter = answer_with(tmp_path, RenderingFormat(), result_of(types.Text(text="hello"), picture))
    assert (meter.usage, meter.finish_reason, meter.service_tier, meter.images) == (USAGE, "stop", "flex", 1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"reason": "banana"}, "Invalid enum value 'banana' - at `Finish.reason`"),
        ({"parts": (types.Text(text=5),)}, "PartDelta.data is int"),  # type: ignore[arg-type]
        ({"extra": {1: 2}}, "Expected `str`, got `int` - at `key` in `Finish.extra`"),
    ],
)
def test_a_wrong_result_is_the_fault_of_the_provider(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    gate = make_gate(tmp_path, plain=RenderingFormat(), fake=WholeProvider(result=result_of(**wrong)))
    name, detail = find_culprit(gate)
    assert (name, words in detail) == ("fake", True), detail


def test_a_result_that_cannot_be_rendered_is_the_fault_of_the_format(tmp_path: Path) -> None:
    gate = make_gate(tmp_path, plain=FailingFormat(), fake=WholeProvider())
    assert find_culprit(gate) == ("plain", "its response raised KeyError")


def test_a_failure_of_the_format_that_is_an_error_for_the_caller_reaches_the_caller(tmp_path: Path) -> None:
    class Refusing(RenderingFormat):
        def render(self, result: types.ChatResult) -> Any:
            raise errors.UpstreamError("The response has failed.")

    gate: Gate = make_gate(tmp_path, plain=Refusing(), fake=WholeProvider())
    with pytest.raises(errors.UpstreamError, match="has failed"):
        run(gate)


def test_a_signature_is_stored_before_the_reply(tmp_path: Path) -> None:
    thought = types.Thinking(text="hm", signature=SIGNATURE)
    plain = RenderingFormat()
    assert answer_with(tmp_path, plain, result_of(thought), signs=True)[0] == '["Thinking"]'
    assert plain.kinds == ["Flow"]


def test_fields_are_checked_although_an_equal_response_was_right() -> None:
    assert find_wrong_result_field(result_of()) == ""
    assert find_wrong_result_field(result_of()) == ""
    for wrong in ({"reason": "banana"}, {"raw_reason": 5}, {"extra": {1: 2}}, {"parts": (types.Text(text=b""),)}):  # type: ignore[arg-type]
        assert find_wrong_result_field(result_of(**wrong)), wrong
    cited = types.Text(text="x", citations=("no citation",))  # type: ignore[arg-type]
    signed = types.Text(text="x", signature=types.Opaque(issuer=5, value=""))  # type: ignore[arg-type]
    for part in (cited, signed, "no part"):
        assert find_wrong_result_field(result_of(part)), part
    assert find_wrong_result_field(types.replace(result_of(), usage=types.Usage(input_tokens="5")))  # type: ignore[arg-type]
