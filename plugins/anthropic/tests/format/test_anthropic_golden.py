"""Golden fixtures: what was sent or came, and exactly what it must become.

``NAME.request.json`` is a caller's body and ``NAME.common.json`` the common request, with the class of each value under
``""``; members that have their default are left out. ``NAME.upstream.sse`` is an upstream's stream in this format,
``NAME.openai.sse`` one in OpenAI's; ``NAME.reply.sse`` and ``NAME.whole.json`` are what a caller gets for it on the common
lane, streamed and whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from format_anthropic_calls import QUESTION, call_for, text_of, wire_with

import tornado_gate_anthropic.format as plugin
from tornado_gate import sse
from tornado_gate.testing import iterate
from tornado_gate.types import ChatRequest
from tornado_gate_anthropic.wire import messages
from tornado_gate_openai.wire import chat

FIXTURES = Path(__file__).parent / "fixtures"
PARSERS = {"upstream": messages.parse_stream, "openai": chat.parse_stream}


def stems(ending: str) -> list[str]:
    return sorted(path.name.removesuffix(ending) for path in FIXTURES.glob("*" + ending))


STREAMS = [(stem, kind) for kind in PARSERS for stem in stems(f".{kind}.sse")]


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


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_body_becomes_exactly_this_request(stem: str) -> None:
    request = plugin.translate_request(call_for(), wire_with(load(f"{stem}.request.json")))
    assert plain(request) == load(f"{stem}.common.json")


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_request_of_this_format_goes_up_without_loss(stem: str) -> None:
    body = load(f"{stem}.request.json")
    request = plugin.translate_request(call_for(), wire_with(body))
    assert isinstance(request, ChatRequest)
    call = call_for()
    assert messages.render_request(call, request) == body | {"model": ""}
    assert call.losses == []


def reply_to(stem: str, kind: str, stream: bool) -> bytes:
    frames = sse.read_json_frames(iterate([(FIXTURES / f"{stem}.{kind}.sse").read_bytes()]))
    request = plugin.translate_request(call_for(), wire_with(QUESTION | {"stream": stream}))
    raw = text_of(plugin.translate_response(call_for(), request, PARSERS[kind](frames)))
    made = raw.partition(b'"id":"msg_')[2][:24]
    return raw.replace(made, b"made") if kind == "openai" else raw


@pytest.mark.parametrize(("stem", "kind"), STREAMS)
def test_a_stream_becomes_exactly_these_events(stem: str, kind: str) -> None:
    assert reply_to(stem, kind, stream=True) == (FIXTURES / f"{stem}.reply.sse").read_bytes()


@pytest.mark.parametrize(("stem", "kind"), STREAMS)
def test_a_stream_becomes_exactly_this_whole_answer(stem: str, kind: str) -> None:
    assert json.loads(reply_to(stem, kind, stream=False)) == load(f"{stem}.whole.json")
