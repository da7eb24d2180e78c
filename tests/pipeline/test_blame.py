"""A plugin that makes a wrong value is named for it, and no other plugin is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from tests.pipeline.test_pipeline import run
from tests.support.gates import ANSWER, START, FakeProvider, PlainFormat, Script, make_config
from tests.support.gates import make_gate as make_gate_of_providers
from tornado_gate import errors, format_impl, provider_impl, types
from tornado_gate.pipeline.gate import Gate

TEXT = types.PartStart(index=0, kind="text")
WRONG_EVENTS: dict[str, tuple[Any, ...]] = {
    "PartDelta.data is int": (START, TEXT, types.PartDelta(index=0, data=5)),  # type: ignore[arg-type]
    "PartDelta.data is bytes; allowed: str": (START, TEXT, types.PartDelta(index=0, data=b"x")),
    "got `str` - at `PartDelta.logprobs`": (START, TEXT, types.PartDelta(index=0, logprobs="x")),  # type: ignore[arg-type]
    "unhashable": (START, TEXT, types.PartDelta(index=[], data="x")),  # type: ignore[arg-type]
    "Invalid enum value 'banana' - at `Finish.reason`": (*ANSWER[:-1], types.Finish(reason="banana")),  # type: ignore[arg-type]
    "Expected `Usage`, got `dict`": (START, types.UsageReport(usage={"input_tokens": 5})),  # type: ignore[arg-type]
    "NoneType, which is not a stream event": (START, None),
    "dict, which is not a stream event": ({"word": "hi"},),
    "EmbeddingResult in the response to a ChatRequest": (types.EmbeddingResult(vectors=()),),
    "PartStart of kind image without `part`": (START, types.PartStart(index=0, kind="image")),
}


def make_gate(tmp_path: Path, **plugins: Any) -> Gate:
    """A gate with the provider "fake" and other plugins."""
    config = types.replace(
        make_config(tmp_path, providers=("fake",)), plugins={"plain": True, **dict.fromkeys(plugins, True)}
    )
    return make_gate_of_providers(tmp_path, config, **plugins)


def make_script(*events: Any) -> Script:
    async def script(_provider: FakeProvider, _call: types.Call) -> AsyncIterator[Any]:
        for event in events:
            yield event

    return script


def find_culprit(gate: Gate, body: dict[str, Any] | None = None) -> tuple[str, str]:
    """The plugin that one request failed for, as the caller, the log and `plugins list` name it."""
    with pytest.raises(errors.PluginError) as caught:
        run(gate, body)
    (name, (_, detail)), *others = gate.host.failures.items()
    assert not others
    assert caught.value.plugin == name
    return name, detail


def test_a_wrong_event_is_the_fault_of_its_provider(tmp_path: Path) -> None:
    for number, (words, events) in enumerate(WRONG_EVENTS.items()):
        gate = make_gate(tmp_path / str(number), fake=FakeProvider(script=make_script(*events)))
        name, detail = find_culprit(gate)
        assert (name, words in detail) == ("fake", True), (words, name, detail)


def test_a_wrong_event_in_a_stream_ends_it_with_an_error_that_names_the_provider(tmp_path: Path) -> None:
    script = make_script(*ANSWER[:3], types.PartDelta(index=0, data=5))  # type: ignore[arg-type]
    gate = make_gate(tmp_path, fake=FakeProvider(script=script))
    *_, last, end = run(gate, {"stream": True}).split("\n\n")
    assert (orjson.loads(last.removeprefix("data: "))["error"]["code"], end) == ("plugin_failed", "")
    assert list(gate.host.failures) == ["fake"]


class WrongRequest(FakeProvider):
    """Sends over HTTP what `outgoing` says."""

    def __init__(self, **outgoing: Any) -> None:
        super().__init__()
        self.outgoing = types.UpstreamRequest(**{"url": "http://127.0.0.1:9/", **outgoing})

    @provider_impl
    def translate_request(self, call: types.Call) -> types.UpstreamRequest:
        return self.outgoing

    @provider_impl
    async def call_upstream(self, call: types.Call, outgoing: types.UpstreamRequest) -> types.UpstreamResponse:
        from tornado_gate.http.upstream import call_upstream

        return await call_upstream(call, outgoing)


@pytest.mark.parametrize(
    ("outgoing", "words"),
    [
        ({"json": {"a": {1, 2}}}, "UpstreamRequest.json cannot be written as JSON"),
        (
            {"json": {"a": "b"}, "headers": {"x-number": 5}},
            "Expected `str`, got `int` - at `UpstreamRequest.headers[...]`",
        ),
        ({"url": None}, "Expected `str`, got `null` - at `UpstreamRequest.url`"),
    ],
)
def test_a_request_that_cannot_be_sent_is_the_fault_of_its_provider(
    tmp_path: Path, outgoing: dict[str, Any], words: str
) -> None:
    name, detail = find_culprit(make_gate(tmp_path, fake=WrongRequest(**outgoing)))
    assert (name, words in detail) == ("fake", True), detail


class WrongFormat(PlainFormat):
    """Returns wrong fields of requests, or wrong replies."""

    request: ClassVar[dict[str, Any]] = {}
    reply: ClassVar[dict[str, Any]] = {}
    chunks: tuple[Any, ...] = (b"{}",)

    @format_impl
    def translate_request(self, call: types.Call, wire: types.WireRequest) -> types.Request:
        found = super().translate_request(call, wire)
        assert isinstance(found, types.ChatRequest)
        return types.replace(found, **self.request)

    @format_impl
    def translate_response(self, request: types.Request, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
        async def chunks() -> AsyncIterator[Any]:
            async for _ in events:
                pass
            for chunk in self.chunks:
                yield chunk

        return types.Reply(**{"content_type": "application/json", "chunks": chunks(), **self.reply})


class ReadingProvider(FakeProvider):
    """Trips over a part that is none."""

    @provider_impl
    def translate_request(self, call: types.Call, request: types.Request) -> types.UpstreamRequest:
        assert isinstance(request, types.ChatRequest)
        return types.UpstreamRequest(json=[part.text for one in request.messages for part in one.parts])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"request": {"max_tokens": "5"}}, "Expected `int | null`, got `str` - at `ChatRequest.max_tokens`"),
        ({"request": {"messages": ("hi",)}}, "Expected `Message`, got `str` - in `ChatRequest.messages[0]`"),
        ({"chunks": ("text",)}, "Reply.chunks yielded str; allowed: bytes"),
        ({"chunks": (b"{", None)}, "Reply.chunks yielded NoneType; allowed: bytes"),
        ({"reply": {"status": "200"}}, "Expected `int`, got `str` - at `Reply.status`"),
        ({"reply": {"headers": {"x": 1}}}, "Expected `str`, got `int` - at `Reply.headers[...]`"),
        ({"reply": {"chunks": [b"x"]}}, "Expected `AsyncIterator`, got `list` - at `Reply.chunks`"),
    ],
)
def test_wrong_requests_and_replies_are_the_fault_of_the_format(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    gate = make_gate(tmp_path, plain=type("Wrong", (WrongFormat,), wrong)(), fake=ReadingProvider())
    name, detail = find_culprit(gate)
    assert (name, words in detail) == ("plain", True), detail


def test_a_wrapper_around_the_events_is_named_with_them(tmp_path: Path) -> None:
    class Changing:
        @provider_impl(wrapper=True)
        def translate_response(self) -> Any:
            return self.change((yield))

        async def change(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for event in events:
                yield types.PartDelta(index=0, data=7) if isinstance(event, types.PartDelta) else event  # type: ignore[arg-type]

    gate = make_gate(tmp_path, fake=FakeProvider(), change=Changing())
    assert "wrapped by change" in find_culprit(gate)[1]
