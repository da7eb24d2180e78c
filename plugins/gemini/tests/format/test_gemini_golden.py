"""Golden fixtures: what was sent or came, and exactly what it must become.

``NAME.request.json`` is a caller's body and ``NAME.common.json`` the common request, with the class of each value under
``""``; members that have their default are left out. ``NAME.upstream.sse`` is an upstream's stream; ``NAME.reply.sse``
and ``NAME.whole.json`` what a caller gets for it on the common lane; ``NAME.upstream.json`` what a request is upstream.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from format_gemini_calls import GENERATE, QUESTION, STREAM, call_for, text_of, wire_to

import tornado_gate_gemini.format as plugin
from tornado_gate import sse
from tornado_gate.testing import iterate
from tornado_gate.types import ChatRequest
from tornado_gate_gemini.wire.generate import parse_stream, render_request

FIXTURES = Path(__file__).parent / "fixtures"
THOUGHTS = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}


def stems(ending: str) -> list[str]:
    return sorted(path.name.removesuffix(ending) for path in FIXTURES.glob("*" + ending))


def load(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    """`value` as JSON: a struct as its class name and the fields that are not at their default."""
    if isinstance(value, msgspec.Struct):
        said = {
            field.name: plain(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) != default_of(field)
        }
        return {"": type(value).__name__, **said}
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def request_of(stem: str) -> ChatRequest:
    request = plugin.translate_request(call_for(), wire_to(GENERATE, load(f"{stem}.request.json")))
    assert isinstance(request, ChatRequest)
    return request


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_body_becomes_exactly_this_request(stem: str) -> None:
    assert plain(request_of(stem)) == load(f"{stem}.common.json")


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_request_of_this_format_goes_up_without_loss(stem: str) -> None:
    call = call_for()
    body = render_request(call, request_of(stem))
    assert call.losses == []
    assert body == load(f"{stem}.upstream.json")


def reply_to(stem: str, path: str, **query: str) -> bytes:
    chunks = sse.read_json_frames(iterate([(FIXTURES / f"{stem}.upstream.sse").read_bytes()]))
    request = plugin.translate_request(call_for(), wire_to(path, QUESTION | THOUGHTS, **query))
    return text_of(plugin.translate_response(call_for(), request, parse_stream(chunks)))


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_these_frames(stem: str) -> None:
    assert reply_to(stem, STREAM, alt="sse") == (FIXTURES / f"{stem}.reply.sse").read_bytes()


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_this_array(stem: str) -> None:
    frames = (FIXTURES / f"{stem}.reply.sse").read_text(encoding="utf-8").strip().split("\n\n")
    assert json.loads(reply_to(stem, STREAM)) == [json.loads(frame.removeprefix("data: ")) for frame in frames]


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_this_whole_answer(stem: str) -> None:
    assert json.loads(reply_to(stem, GENERATE)) == load(f"{stem}.whole.json")
