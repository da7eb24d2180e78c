"""Upstream answers in which something is wrong are translated for every format, or an UpstreamError: no crash, no wrong order.

`bench.soak.vendors` has the answers; here a member is changed, or an event of a stream is lost, doubled or moved.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tornado_gate_anthropic.format
import tornado_gate_anthropic.provider
import tornado_gate_gemini.format
import tornado_gate_gemini.provider
import tornado_gate_openai.format
import tornado_gate_openai.provider
from bench.soak.formats import make_request
from bench.soak.vendors import RightAnswer, Vendors
from qa.fuzz.mutations import mutate
from tornado_gate import sse, types
from tornado_gate.errors import GateError
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.lanes import FormatLane, PluginError, ProviderLane
from tornado_gate.streams.event_order import OrderChecker
from tornado_gate.testing import call_to, collect_chunks, iterate, load_format, load_provider, wire_request

NONCE = "0123456789abcdef"
PROVIDERS = {
    "chat": (tornado_gate_openai.provider, "/v1/chat/completions", "http://upstream.test/v1"),
    "messages": (tornado_gate_anthropic.provider, "/v1/messages", "http://upstream.test"),
    "generate": (tornado_gate_gemini.provider, "/v1beta/models/m:generateContent", "http://upstream.test"),
}
FORMATS = {
    "chat": (tornado_gate_openai.format, "/v1/chat/completions"),
    "responses": (tornado_gate_openai.format, "/v1/responses"),
    "messages": (tornado_gate_anthropic.format, "/v1/messages"),
    "generate": (tornado_gate_gemini.format, "/v1beta/models/{model}:generateContent"),
}


@cache
def get_lanes(upstream: str, caller: str, stream: bool) -> tuple[ProviderLane, FormatLane, types.Route]:
    plugin, path = FORMATS[caller]
    path = path.replace(":generate", ":streamGenerate") if stream else path
    wire_format = load_format(plugin)
    return load_provider(PROVIDERS[upstream][0]), wire_format, next(r for r in wire_format.routes if r.path == path)


def make_answer(upstream: str, *, stream: bool) -> RightAnswer:
    path, body = make_request(upstream, "m", NONCE, 3, stream=stream)
    return Vendors().answer("POST", path.partition("?")[0], json.dumps(body).encode())


async def answer(upstream: str, caller: str, pieces: list[bytes], *, stream: bool, content_type: str) -> bytes:
    """The caller's bytes for an upstream's answer, through both translations. Checks the order of the events."""
    provider, wire_format, route = get_lanes(upstream, caller, stream)
    entry = ProviderEntry(name="test", base_url=PROVIDERS[upstream][2], api_key="upstream-key-0123456789")
    _, body = make_request(caller, "m", NONCE, 3, stream=stream)
    named = {"path_arguments": {"model": "m"}} if "{model}" in route.path else {}
    call = call_to(provider, entry, operation="chat", headers={"anthropic-version": "2023-06-01"})
    request = await wire_format.translate_request(call, wire_request(route, body, headers=call.headers, **named))
    incoming = types.UpstreamResponse(chunks=iterate(pieces), headers={"content-type": content_type})
    outgoing = await provider.translate_request(call, request)
    incoming = types.replace(incoming, context=outgoing.context)
    order = OrderChecker()

    async def check() -> AsyncIterator[types.StreamEvent]:
        async for event in provider.translate_response(call, request, incoming):
            order.check(event)
            yield event

    return b"".join(await collect_chunks(wire_format.translate_response(call, request, check())))


def run(upstream: str, caller: str, pieces: list[bytes], *, stream: bool, content_type: str) -> bytes:
    """As `answer`; b"" for an error of the upstream. A crash of a plugin is a PluginError, which fails the test."""
    try:
        return asyncio.run(answer(upstream, caller, pieces, stream=stream, content_type=content_type))
    except PluginError:
        raise
    except GateError:
        return b""


ALL = [(upstream, caller) for upstream in PROVIDERS for caller in FORMATS]


@pytest.mark.parametrize(("upstream", "caller"), ALL)
def test_the_right_answers_arrive(upstream: str, caller: str) -> None:
    for stream in (False, True):
        right = make_answer(upstream, stream=stream)
        found = run(upstream, caller, right.pieces, stream=stream, content_type=right.content_type)
        assert f"{NONCE}.end".encode() in found


@pytest.mark.parametrize(("upstream", "caller"), ALL)
@given(data=st.data())
@settings(max_examples=12)
def test_a_changed_answer_is_translated_or_an_upstream_error(upstream: str, caller: str, data: st.DataObject) -> None:
    right = make_answer(upstream, stream=False)
    changed = json.dumps(data.draw(mutate(json.loads(right.pieces[0])))).encode()
    run(upstream, caller, [changed], stream=False, content_type=right.content_type)


@st.composite
def change_stream(draw: st.DrawFn, right: RightAnswer) -> list[bytes]:
    """A stream whose events are changed, lost, doubled or in another order."""
    pieces = list(right.pieces)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(pieces) - 1)) if pieces else 0
        match draw(st.sampled_from(["change", "change", "lose", "double", "move", "cut"])) if pieces else "":
            case "lose":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "move":
                pieces.insert(draw(st.integers(0, len(pieces) - 1)), pieces.pop(at))
            case "cut":
                pieces[at] = pieces[at][: draw(st.integers(0, len(pieces[at])))]
            case "change":
                pieces[at] = _change_event(draw, pieces[at])
    return pieces


def _change_event(draw: st.DrawFn, piece: bytes) -> bytes:
    frame = sse.parse(piece)
    try:
        value = json.loads(frame.data if frame else b"")
    except ValueError:  # it was cut, or is the end of the stream
        return draw(st.binary(max_size=20)) + b"\n\n"
    name = f"event: {frame.event}\n" if frame and frame.event else ""
    return f"{name}data: {json.dumps(draw(mutate(value)))}\n\n".encode()


@pytest.mark.parametrize(("upstream", "caller"), ALL)
@given(data=st.data())
@settings(max_examples=12)
def test_a_changed_stream_is_translated_or_an_upstream_error(upstream: str, caller: str, data: st.DataObject) -> None:
    right = make_answer(upstream, stream=True)
    pieces = data.draw(change_stream(right))
    run(upstream, caller, pieces, stream=True, content_type=right.content_type)
