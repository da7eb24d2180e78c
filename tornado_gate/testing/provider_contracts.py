"""Contracts of provider plugins: classes of tests to inherit.

| class | for a provider |
|---|---|
| `ProviderContract` | with an HTTP upstream |
| `InProcessProviderContract` | that makes its answers itself, in its own `call_upstream` |
| `RealtimeProviderContract` | with realtime sessions that its own `open_socket` opens |
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from email import message_from_bytes
from typing import Any, ClassVar

from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import GateError
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.streams.events import OrderChecker
from tornado_gate.testing.calls import KEY, call_to, check_equal, iterate, load_provider
from tornado_gate.types import (
    Call,
    ModelsRequest,
    Request,
    SpeechChunk,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    replace,
)


class BaseProviderContract:
    """What every provider promises. `plugin` and `request` must be set; the rest has defaults.

    `call_fields` are fields of the call, such as ``operation`` or a `FakeFetcher` as ``fetcher``; `unserved` is a request that
    the provider must refuse.
    """

    plugin: ClassVar[Any]
    request: ClassVar[Request]
    entry: ClassVar[ProviderEntry] = ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)
    upstream_model: ClassVar[str] = "upstream-model"
    call_fields: ClassVar[Mapping[str, Any]] = {}
    unserved: ClassVar[Request] = ModelsRequest()

    def lane(self) -> ProviderLane:
        return load_provider(self.plugin)

    def call(self) -> Call:
        return call_to(self.lane(), self.entry, upstream_model=self.upstream_model, **self.call_fields)

    def translate_request(self) -> UpstreamRequest:
        """The upstream request that `request` becomes."""
        return asyncio.run(self.lane().translate_request(self.call(), self.request))

    def test_a_request_that_is_not_served_is_refused_cleanly(self) -> None:
        try:
            asyncio.run(self.lane().translate_request(self.call(), self.unserved))
        except GateError as error:
            assert 400 <= error.status < 500
        else:
            raise AssertionError("a provider must refuse requests of a class that it does not serve")


class ProviderContract(BaseProviderContract):
    """A provider with an HTTP upstream: `request` becomes `outgoing`, and the answer `chunks` becomes `events`.

    `outgoing` is the JSON value of the body; bytes for a body that is no JSON; None for a request without a body; for a form a
    mapping of its fields to strings, to arrays of strings, or to the bytes of a file. `content_type` is the Content-Type of the
    answer. `sends_key` is False for a provider that does not send its key as it is, but signs with it.
    """

    outgoing: ClassVar[Any]
    chunks: ClassVar[Sequence[bytes]]
    events: ClassVar[Sequence[StreamEvent]]
    content_type: ClassVar[str] = ""
    sends_key: ClassVar[bool] = True

    def read(self, pieces: Iterable[bytes], status: int = 200) -> list[StreamEvent]:
        """The events of an upstream's answer that comes in `pieces`."""

        async def collect() -> list[StreamEvent]:
            lane = self.lane()
            headers = {"content-type": self.content_type} if self.content_type else {}
            incoming = UpstreamResponse(chunks=iterate(pieces), status=status, headers=headers)
            return [event async for event in lane.translate_response(self.call(), self.request, incoming)]

        return asyncio.run(collect())

    def test_the_request_becomes_the_upstream_body(self) -> None:
        check_equal(asyncio.run(read_outgoing(self.translate_request())), self.outgoing)

    def test_the_key_is_in_a_header_and_not_in_the_address(self) -> None:
        outgoing = self.translate_request()
        assert self.entry.api_key, "the entry of this test must have a key"
        assert self.entry.api_key not in outgoing.url
        assert any(self.entry.api_key in value for value in outgoing.headers.values()) is self.sends_key

    def test_recorded_chunks_become_the_events(self) -> None:
        check_equal(self.read(self.chunks), list(self.events))

    def test_one_byte_at_a_time_gives_the_same_events(self) -> None:
        pieces = [bytes([byte]) for byte in b"".join(self.chunks)]
        check_equal(join_sound(self.read(pieces)), join_sound(self.events))

    def test_the_order_of_events_is_allowed_and_complete(self) -> None:
        check_order(self.read(self.chunks))


class InProcessProviderContract(BaseProviderContract):
    """A provider whose own `call_upstream` makes the answer, without a network: `request` becomes `events`.

    Override `normalize` where events hold something that differs from run to run.
    """

    events: ClassVar[Sequence[StreamEvent]]

    def normalize(self, event: StreamEvent) -> StreamEvent:
        """`event` without random ids and times."""
        return event

    def answer(self) -> list[StreamEvent]:
        """The events of the answer to `request`, through all hooks."""

        async def collect() -> list[StreamEvent]:
            lane, call = self.lane(), self.call()
            async with call.closing:
                incoming = await lane.call_upstream(call, await lane.translate_request(call, self.request))
                return [event async for event in lane.translate_response(call, self.request, incoming)]

        return asyncio.run(collect())

    def test_the_request_becomes_the_events(self) -> None:
        check_equal([self.normalize(event) for event in self.answer()], list(self.events))

    def test_the_order_of_events_is_allowed_and_complete(self) -> None:
        check_order(self.answer())

    def test_no_request_leaves_the_process(self) -> None:
        outgoing = self.translate_request()
        assert (outgoing.url, outgoing.json, outgoing.body) == ("", None, None)


class RealtimeProviderContract(BaseProviderContract):
    """A provider whose own `open_socket` opens the session that `request`, a `RealtimeRequest`, asks for.

    `first_event` is the type of the first event that the session sends.
    """

    first_event: ClassVar[str] = "session.created"

    def test_a_session_opens_and_ends_with_its_call(self) -> None:
        async def run() -> tuple[Any, Any]:
            lane, call = self.lane(), self.call()
            async with asyncio.timeout(10), call.closing:
                socket = await lane.open_socket(call, await lane.translate_request(call, self.request))
                first = await socket.receive()
            async with asyncio.timeout(10):
                return first, await socket.receive()

        first, last = asyncio.run(run())
        check_equal(json.loads(first)["type"], self.first_event)
        assert last is None


async def read_outgoing(outgoing: UpstreamRequest) -> Any:
    """The body of an upstream request, in the shape of `ProviderContract.outgoing`."""
    if outgoing.json is not None or outgoing.body is None:
        return outgoing.json
    body = outgoing.body
    raw = body if isinstance(body, bytes) else b"".join([chunk async for chunk in body.chunks()])
    if isinstance(body, FormBody):
        return parse_form(body.content_type, raw)
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def parse_form(content_type: str, raw: bytes) -> dict[str, Any]:
    """The fields of a form as strings, or as bytes if they are files; a field that comes several times is an array."""
    message = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + raw)
    found: dict[str, list[Any]] = {}
    for part in message.walk():
        if part.is_multipart():
            continue
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        name = str(part.get_param("name", header="content-disposition"))
        found.setdefault(name, []).append(data.decode() if part.get_filename() is None else data)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def join_sound(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """`events` with the sound of adjacent `SpeechChunk`s in one: bytes are passed on in the chunks in which they come."""
    joined: list[StreamEvent] = []
    for event in events:
        if isinstance(event, SpeechChunk) and joined and isinstance(last := joined[-1], SpeechChunk):
            joined[-1] = replace(last, data=last.data + event.data)
        else:
            joined.append(event)
    return joined


def check_order(events: Iterable[StreamEvent]) -> None:
    """Raises OrderError if `events` come in an order that is not allowed, and AssertionError if the last one is missing."""
    checker = OrderChecker()
    for event in events:
        checker.check(event)
    assert checker.is_complete()
