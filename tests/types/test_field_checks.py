"""Values of the vocabulary whose fields have wrong types are found, and only those."""

from __future__ import annotations

from array import array
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec

from tornado_gate import hookspecs, types
from tornado_gate.types import field_checks
from tornado_gate.types.field_checks import find_wrong_field

MESSAGE = types.Message(role="user", parts=(types.Text(text="hi"),))
USAGE = types.Usage(input_tokens=1, output_tokens=2)


class Color(StrEnum):
    RED = "red"


def chat(**fields: Any) -> types.ChatRequest:
    return types.ChatRequest(**{"model": "m", "messages": (MESSAGE,), **fields})


def outgoing(**fields: Any) -> types.UpstreamRequest:
    return types.UpstreamRequest(**{"url": "https://api.test", **fields})


RIGHT: tuple[msgspec.Struct, ...] = (
    types.ResponseStart(model=Color.RED, id=None, created=1, extra={"any": object()}),
    types.PartStart(index=0, kind="vendor", part=types.VendorPart(wire_format="x", value={})),
    types.PartDelta(index=0, data=b"x", logprobs=({"token": "a"},)),
    types.PartEnd(index=0, citations=(types.Citation(url="u"),), signature=types.Opaque(issuer="x", value=5)),
    types.UsageReport(usage=USAGE),
    types.Finish(reason="stop"),
    types.EmbeddingResult(vectors=([0.5], (1, 2), b"1234", array("d", [1.5]))),
    types.ImageResult(images=(types.GeneratedImage(data=b"", media_type="image/png"),)),
    chat(temperature=1, stop=("a",), logit_bias={"5": 1}, tools=(types.Tool(name="f"),), reply_state=object()),
    outgoing(headers={"a": "b"}, json={"x": Decimal(1)}, accepted_statuses=range(400, 600)),
    hookspecs.Capabilities(models={"a-*": frozenset({"chat"})}),
)
WRONG: dict[str, msgspec.Struct] = {
    "Expected `int`, got `bool` - at `PartDelta.index`": types.PartDelta(index=True),
    "Expected `str`, got `null` - at `PartDelta.transcript`": types.PartDelta(index=0, transcript=None),  # type: ignore[arg-type]
    "Invalid enum value 'banana' - at `Finish.reason`; allowed: stop, length, tool_calls, content_filter, error, other": (
        types.Finish(reason="banana")  # type: ignore[arg-type]
    ),
    "Expected `Usage`, got `dict` - in `UsageReport.usage`": types.UsageReport(usage={"input_tokens": 5}),  # type: ignore[arg-type]
    "Expected `int | null`, got `str` - at `Usage.input_tokens` - in `UsageReport.usage`": types.UsageReport(
        usage=types.Usage(input_tokens="5")  # type: ignore[arg-type]
    ),
    "Expected `Citation`, got `str` - in `PartEnd.citations[0]`": types.PartEnd(index=0, citations=("u",)),  # type: ignore[arg-type]
    "Expected `GateError`, got `ValueError` - at `StreamError.error`": types.StreamError(error=ValueError()),  # type: ignore[arg-type]
    "Expected `bytes`, got `str` - at `SpeechChunk.data`": types.SpeechChunk(data="aGk="),  # type: ignore[arg-type]
    "Expected `tuple`, got `list` - at `ChatRequest.messages`": chat(messages=[MESSAGE]),
    "Expected `int | null`, got `str` - at `ChatRequest.max_tokens`": chat(max_tokens="5"),
    "Invalid enum value 'boss' - at `Message.role`; allowed: system, developer, user, assistant, tool"
    " - in `ChatRequest.messages[0]`": chat(messages=(types.Message(role="boss", parts=()),)),  # type: ignore[arg-type]
    "Expected `array`, got `str` - at `ChatRequest.stop`": chat(stop="END"),
    "Expected `str`, got `int` - at `key` in `ChatRequest.metadata`": chat(metadata={1: "x"}),
    "Expected `str`, got `int` - at `UpstreamRequest.headers[...]`": outgoing(headers={"x-n": 5}),
    "Expected `frozenset`, got `list` - at `Capabilities.operations`": hookspecs.Capabilities(operations=["chat"]),  # type: ignore[arg-type]
    "Expected `AsyncIterator`, got `list` - at `Reply.chunks`": types.Reply(content_type="text/plain", chunks=[b"x"]),  # type: ignore[arg-type]
}


def test_a_wrong_field_is_named_with_what_is_allowed() -> None:
    assert {find_wrong_field(value) for value in RIGHT} == {""}
    assert [find_wrong_field(value) for value in WRONG.values()] == list(WRONG)


def test_the_content_of_containers_is_left_alone_on_request() -> None:
    assert find_wrong_field(chat(stop=(5,)), inside=False) == ""
    assert "max_tokens" in find_wrong_field(chat(max_tokens="5"), inside=False)


def test_every_class_of_the_vocabulary_has_checks() -> None:
    """Annotations that cannot be resolved or turned into checks would fail requests."""
    classes = [value for value in vars(types).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)]
    assert len(classes) > 50
    for kind in classes:
        checks = field_checks._make_checks(kind)
        assert set(checks.fields.names) <= set(checks.whole.names) <= set(kind.__struct_fields__)
