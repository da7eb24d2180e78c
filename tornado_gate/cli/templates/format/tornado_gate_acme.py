"""Acme: a wire format for callers: {"model": "m", "ask": "…"} -> {"answer": "…"}, or a stream of {"word": "…"} frames."""

from collections.abc import AsyncIterator

import orjson

from tornado_gate import errors, format_impl, sse, types
from tornado_gate.streams.events import collect
from tornado_gate.types.text_maps import WORD, Object, Text, TextMap

MEMBERS = ("model", "ask", "stream")
TEXTS = TextMap(  # for guards: what is a text, what is a word; all other strings are texts, too
    request=Object(members={"model": WORD, "ask": Text(kind="user")}),
    response=Object(members={"answer": Text(kind="assistant")}),
    event=Object(
        members={"word": Text(kind="assistant", delta=True, place="answer"), "why": WORD}, ends={"why": ("answer",)}
    ),
)
NAMES = {"messages.0": "ask", "messages.0.content.0": "ask"}  # for reports of what a provider cannot honour


@format_impl
def routes() -> list[types.Route]:
    return [types.Route("POST", "/acme/ask", "chat", texts=TEXTS)]


@format_impl
def translate_request(wire: types.WireRequest) -> types.ChatRequest:
    body = wire.json
    for name in body:
        if name not in MEMBERS:
            raise errors.InvalidField(name, f"'{name}' is unknown. Allowed are {', '.join(MEMBERS)}.")
    if not isinstance(body.get("ask"), str):
        raise errors.InvalidField("ask", "'ask' must be a string.")
    if not isinstance(body.get("stream", False), bool):
        raise errors.InvalidField("stream", "'stream' must be true or false.")
    message = types.Message(role="user", parts=(types.Text(text=body["ask"]),))
    return types.ChatRequest(model=body["model"], messages=(message,), stream=body.get("stream", False), names=NAMES)


@format_impl
def translate_response(request: types.ChatRequest, events: AsyncIterator[types.StreamEvent]) -> types.Reply:
    if request.stream:
        return types.Reply(content_type="text/event-stream", chunks=render_frames(events), keep_alive=b": ping\n\n")
    return types.Reply(content_type="application/json", chunks=render_answer(events))


async def render_answer(events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    result = await collect(events)
    texts = [part.text for part in result.choices[0].parts if isinstance(part, types.Text)]
    yield orjson.dumps({"answer": "".join(texts)})


async def render_frames(events: AsyncIterator[types.StreamEvent]) -> AsyncIterator[bytes]:
    texts: set[int] = set()
    async for event in events:
        match event:
            case types.PartStart(kind="text", index=index):
                texts.add(index)
            case types.PartDelta(index=index, data=str(text)) if index in texts:
                yield sse.render_json({"word": text})
            case types.Finish(reason=reason):
                yield sse.render_json({"why": reason})
            case types.StreamError(error=error):
                yield translate_error(error, streaming=True)


@format_impl
def translate_error(error: errors.GateError, streaming: bool) -> bytes:
    body = {"error": error.body()}
    return sse.render_json(body) if streaming else orjson.dumps(body)
