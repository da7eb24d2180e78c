"""Golden fixtures: what was sent or came, and exactly what it must become.

``NAME.request.json`` is a caller's body and ``NAME.common.json`` the common request, with the class of each value under
``""``; members that have their default are left out. ``NAME.upstream.sse`` is an upstream's stream, ``NAME.reply.sse`` and
``NAME.whole.json`` what a caller gets for it on the common lane, streamed and whole.
"""

from __future__ import annotations

import json

import pytest
from format_openai_calls import QUESTION, call_for, text_of, wire_with
from format_openai_golden import FIXTURES, load, plain, stems

import tornado_gate_openai.format as plugin
from tornado_gate import sse
from tornado_gate.testing import iterate
from tornado_gate.types import ChatRequest
from tornado_gate_openai.wire.chat import parse_stream, render_request


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_body_becomes_exactly_this_request(stem: str) -> None:
    body = load(f"{stem}.request.json")
    request = plugin.translate_request(call_for(), wire_with(body))
    assert plain(request) == load(f"{stem}.common.json")


@pytest.mark.parametrize("stem", stems(".request.json"))
def test_a_request_of_this_format_goes_up_without_loss(stem: str) -> None:
    body = load(f"{stem}.request.json")
    request = plugin.translate_request(call_for(), wire_with(body))
    assert isinstance(request, ChatRequest)
    call = call_for()
    rendered = render_request(call, request)
    assert rendered["messages"] == body["messages"]
    assert set(rendered) == set(body)
    assert call.losses == []


def reply_to(stem: str, stream: bool) -> bytes:
    frames = sse.read_json_frames(iterate([(FIXTURES / f"{stem}.upstream.sse").read_bytes()]))
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    request = plugin.translate_request(call_for(), wire_with(QUESTION | options))
    return text_of(plugin.translate_response(call_for(), request, parse_stream(frames)))


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_these_chunks(stem: str) -> None:
    assert reply_to(stem, stream=True) == (FIXTURES / f"{stem}.reply.sse").read_bytes()


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_this_whole_answer(stem: str) -> None:
    assert json.loads(reply_to(stem, stream=False)) == load(f"{stem}.whole.json")
