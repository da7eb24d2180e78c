"""Golden fixtures of the responses route: what was sent or came, and exactly what it must become.

``responses/NAME.request.json`` is a caller's body and ``NAME.common.json`` the common request. What an upstream says are the
streams of the chat fixtures; ``responses/NAME.reply.sse`` and ``NAME.whole.json`` are what a caller of this route gets for them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_openai_calls import text_of
from format_openai_golden import FIXTURES, load, plain, stems
from openai.types.responses import Response
from responses_calls import SDK, read_request, response_call

import tornado_gate_openai.format as plugin
from tornado_gate import sse
from tornado_gate.testing import iterate
from tornado_gate.types import ChatRequest, replace
from tornado_gate_openai.wire import chat, responses

pytestmark = pytest.mark.usefixtures("fixed_completion_time")
REQUESTS = ["agent"]


def requested(stem: str) -> ChatRequest:
    return responses.parse_request(load(f"responses/{stem}.request.json"))


@pytest.mark.parametrize("stem", REQUESTS)
def test_a_body_becomes_exactly_this_request(stem: str) -> None:
    assert plain(requested(stem)) == load(f"responses/{stem}.common.json")


@pytest.mark.parametrize("stem", REQUESTS)
def test_a_request_of_this_format_goes_up_without_loss(stem: str) -> None:
    body = load(f"responses/{stem}.request.json")
    call = response_call()
    rendered = responses.render_request(call, requested(stem))
    assert rendered.keys() == body.keys()
    assert responses.parse_request({**rendered, "model": "m"}) == requested(stem)
    assert call.losses == []


def reply_to(stem: str, **fields: Any) -> bytes:
    frames = sse.read_json_frames(iterate([(FIXTURES / f"{stem}.upstream.sse").read_bytes()]))
    call = response_call(user_agent=SDK["user-agent"])
    request = read_request(call, **fields)
    request = replace(request, reply_state=replace(request.reply_state, id="resp_" + "0" * 32))
    return text_of(plugin.translate_response(call, request, chat.parse_stream(frames)))


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_these_events(stem: str) -> None:
    assert reply_to(stem, stream=True) == (FIXTURES / "responses" / f"{stem}.reply.sse").read_bytes()


@pytest.mark.parametrize("stem", stems(".upstream.sse"))
def test_a_stream_becomes_exactly_this_whole_answer(stem: str) -> None:
    answer = json.loads(reply_to(stem))
    Response.model_validate(answer)
    assert answer == load(f"responses/{stem}.whole.json")
