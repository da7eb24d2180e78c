"""A stream is one flow between the upstream's body and the handler, whatever is done to it on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

import tornado_gate_anthropic.provider
import tornado_gate_openai.format
import tornado_gate_openai.provider
from tests.support.gates import make_config, make_services, model
from tests.support.nesting import nested
from tornado_gate import provider_impl, sse, types
from tornado_gate.config.model import ProviderConfig, Secret
from tornado_gate.hookspecs import Capabilities, ProviderEntry
from tornado_gate.pipeline import pipeline
from tornado_gate.server.services import Services
from tornado_gate.types.value import replace

CHAT = "/v1/chat/completions"
QUESTIONS: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"input": "hi"},
    "/v1/completions": {"prompt": "hi"},
}
A_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
O_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
O_EVENTS: list[dict[str, Any]] = [
    {**O_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None}]},
    {**O_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


class ByGenerator:
    """A provider of somebody else: an async generator over the frames."""

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=frozenset({"chat"}))

    @provider_impl
    def translate_request(self, call: types.Call) -> types.UpstreamRequest:
        return types.UpstreamRequest(url=call.target.base_url, json={})

    @provider_impl
    async def translate_response(self, incoming: types.UpstreamResponse) -> AsyncIterator[types.StreamEvent]:
        yield types.ResponseStart(model="m")
        yield types.PartStart(index=0, kind="text")
        async for frame in sse.read_json_frames(incoming.chunks):
            yield types.PartDelta(index=0, data=str(frame["id"]))
        yield types.PartEnd(index=0)
        yield types.Finish(reason="stop")


def services_to(tmp_path: Path, url: str, plugin: str, implementation: Any) -> Services:
    """The parts of a process with OpenAI's format, whose model "m" is at `url`."""
    provider = ProviderConfig(name="up", plugin=plugin, base_url=url, api_key=Secret("k"))
    config = replace(
        make_config(tmp_path, {"m": model("m", "up")}),
        plugins={"format-openai": True, plugin: True},
        providers={"up": provider},
    )
    return make_services(tmp_path, config, **{"format-openai": tornado_gate_openai.format, plugin: implementation})


async def chat_stream(services: Services, closing: AsyncExitStack, path: str) -> AsyncIterator[bytes]:
    """What a handler reads of a streamed answer by the route `path`."""
    gate = services.gate
    routes = gate.snapshot.formats["format-openai"].routes
    route = next(one for one in routes if one.path == path and one.method == "POST")
    body = {"model": "m", "stream": True, **QUESTIONS[path]}
    wire = types.WireRequest(
        route=route, path=route.path, path_arguments={}, query={}, headers={}, raw=orjson.dumps(body), json=body
    )
    caller = types.Caller(id="key_1", account="a")
    call = types.Call(
        id="r",
        operation="chat",
        format="format-openai",
        caller=caller,
        closing=closing,
        memory=services.memory.get_account_memory("a"),
    )
    answer = await pipeline.answer(gate, gate.snapshot, call, wire)
    return answer.reply.chunks


@asynccontextmanager
async def upstream(events: list[dict[str, Any]], go_on: asyncio.Event) -> AsyncIterator[str]:
    """The address of one that streams `events`, the last only when `go_on` is set."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write(b"".join(map(sse.render_json, events[:-1])))
        await go_on.wait()
        writer.write(sse.render_json(events[-1]))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def stream_of(
    tmp_path: Path, plugin: str, implementation: Any, events: list[dict[str, Any]], path: str = CHAT
) -> tuple[list[str], bytes]:
    """The iterators of a stream in its midst, and what it says."""
    go_on = asyncio.Event()
    async with AsyncExitStack() as closing:
        url = await closing.enter_async_context(upstream(events, go_on))
        services = services_to(tmp_path, url, plugin, implementation)
        closing.push_async_callback(services.gate.close)
        chunks = await chat_stream(services, closing, path)
        iterators = nested(chunks)
        go_on.set()
        return iterators, b"".join([chunk async for chunk in chunks])


@pytest.mark.gen_test
@pytest.mark.parametrize("path", QUESTIONS)
async def test_a_translated_stream_is_one_flow_over_the_upstreams_body(tmp_path: Path, path: str) -> None:
    iterators, said = await stream_of(tmp_path, "anthropic", tornado_gate_anthropic.provider, A_EVENTS, path)
    assert iterators == ["Flow", "HttpResponse"]
    assert b'"hello"' in said
    assert said.endswith(b"data: [DONE]\n\n") or b"event: response.completed\n" in said


@pytest.mark.gen_test
async def test_a_verbatim_stream_is_one_flow_over_the_upstreams_body(tmp_path: Path) -> None:
    iterators, said = await stream_of(tmp_path, "openai", tornado_gate_openai.provider, O_EVENTS)
    assert iterators == ["Flow", "HttpResponse"]
    assert b'"content":"hello"' in said
    assert said.endswith(b"data: [DONE]\n\n")


@pytest.mark.gen_test
async def test_a_provider_that_is_a_generator_stands_between_two_flows(tmp_path: Path) -> None:
    iterators, said = await stream_of(tmp_path, "other", ByGenerator(), [{"id": "hel"}, {"id": "lo"}])
    assert iterators == ["Flow", "ByGenerator.translate_response", "Flow", "HttpResponse"]
    assert b'"content":"hel"' in said
    assert said.endswith(b"data: [DONE]\n\n")
