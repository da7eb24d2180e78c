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
from typing import Any, ClassVar

from tornado_gate.errors import GateError
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.streams import events as stream_events
from tornado_gate.streams.events import OrderChecker, WholeEvents
from tornado_gate.testing.calls import KEY, call_to, iterate, load_provider
from tornado_gate.testing.cases import COMMON_ERRORS, UNCHECKED, Case, ErrorCase
from tornado_gate.testing.differences import GUIDE, check_equal
from tornado_gate.testing.outgoing import check_head, read_outgoing
from tornado_gate.testing.upstream_errors import check_error
from tornado_gate.types import (
    BufferedBody,
    Call,
    ChatResult,
    ModelsRequest,
    Request,
    SpeechChunk,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    replace,
)


class BaseProviderContract:
    """The promises of every provider. `plugin` and `request` must be set; the other attributes have defaults.

    `call_fields` are fields of the call, such as ``operation`` or a `FakeFetcher` as ``fetcher``; `unserved` is a
    request that the provider must refuse.
    """

    plugin: ClassVar[Any]
    request: ClassVar[Request]
    entry: ClassVar[ProviderEntry] = ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)
    upstream_model: ClassVar[str] = "upstream-model"
    call_fields: ClassVar[Mapping[str, Any]] = {}
    unserved: ClassVar[Request] = ModelsRequest()

    def lane(self) -> ProviderLane:
        return load_provider(self.plugin)

    def call(self, case: Case | None = None) -> Call:
        """Return the call of `request`, or of a case."""
        model = case.upstream_model if case and case.upstream_model else self.upstream_model
        fields = {**self.call_fields, **(case.call_fields if case else {})}
        return call_to(self.lane(), self.entry, upstream_model=model, **fields)

    def translate_request(self) -> UpstreamRequest:
        """Return the upstream request that `request` becomes."""
        return asyncio.run(self.lane().translate_request(self.call(), self.request))

    def test_a_request_that_is_not_served_is_refused_cleanly(self) -> None:
        name = type(self.unserved).__name__
        try:
            asyncio.run(self.lane().translate_request(self.call(), self.unserved))
        except GateError as error:
            what = f"translate_request refused a {name} with status {error.status}; raise UnsupportedOperation (400)"
            assert 400 <= error.status < 500, f"{what}. See {GUIDE}."
        else:
            raise AssertionError(
                f"translate_request accepted a {name}, which the plugin does not serve (`unserved` of this contract). Match on "
                f"the class of the request, and raise tornado_gate.errors.UnsupportedOperation for all others. See {GUIDE}."
            )


class ProviderContract(BaseProviderContract):
    """A provider with an HTTP upstream: `request` becomes `outgoing`, and the response `chunks` becomes `events`.

    `outgoing` is the JSON value of the body; bytes for a body that is not JSON; None for a request without a body; for
    a form a mapping of its fields to strings, to arrays of strings, or to the bytes of a file. `content_type` is the
    Content-Type of the response. `sends_key` is False for a provider that does not send its key, but signs with it.

    `cases` are further requests with their responses, for a provider with several operations. With cases the attributes
    above may be omitted. `errors` are the vendor's errors, with the responses that callers must receive.
    """

    outgoing: ClassVar[Any]
    chunks: ClassVar[Sequence[bytes]]
    events: ClassVar[Sequence[StreamEvent]]
    content_type: ClassVar[str] = ""
    sends_key: ClassVar[bool] = True
    cases: ClassVar[Sequence[Case]] = ()
    errors: ClassVar[Sequence[ErrorCase]] = COMMON_ERRORS

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if cls.cases and not hasattr(cls, "request"):
            cls.request = cls.cases[0].request

    def list_cases(self) -> list[Case]:
        """Return the case that the attributes describe, if they do, and `cases`."""
        if not hasattr(self, "chunks"):
            assert self.cases, f"{type(self).__name__} has neither `chunks` nor `cases`. See {GUIDE}."
            return list(self.cases)
        outgoing = getattr(self, "outgoing", UNCHECKED)
        own = Case(
            request=self.request,
            outgoing=outgoing,
            chunks=self.chunks,
            events=self.events,
            content_type=self.content_type,
        )
        return [own, *self.cases]

    def translate(self, case: Case, call: Call) -> UpstreamRequest:
        """Return the upstream request of a case."""
        return asyncio.run(self.lane().translate_request(call, case.request))

    def read(self, pieces: Iterable[bytes], status: int = 200, case: Case | None = None) -> list[StreamEvent]:
        """Return the events of an upstream's response that arrives in the chunks `pieces`."""
        request = case.request if case else self.request
        content_type = case.content_type if case else self.content_type

        async def collect() -> list[StreamEvent]:
            lane = self.lane()
            headers = {"content-type": content_type} if content_type else {}
            incoming = UpstreamResponse(chunks=iterate(pieces), status=status, headers=headers)
            return [event async for event in lane.translate_response(self.call(case), request, incoming)]

        return asyncio.run(collect())

    def test_the_request_becomes_the_upstream_body(self) -> None:
        for case in self.list_cases():
            call = self.call(case)
            outgoing = self.translate(case, call)
            if case.outgoing is not UNCHECKED:
                body = asyncio.run(read_outgoing(outgoing))
                check_equal(
                    body, case.outgoing, f"{case.label}: translate_request returned another body than `outgoing`."
                )
            check_head(case, call, outgoing)

    def test_the_key_is_in_a_header_and_not_in_the_address(self) -> None:
        key = self.entry.api_key
        assert key, f"The `entry` of this contract must have an api_key, so that the test can look for it. See {GUIDE}."
        for case in self.list_cases():
            outgoing = self.translate(case, self.call(case))
            assert key not in outgoing.url, (
                f"{case.label}: the API key is in the URL, which proxies and logs record. Send it in a header. See {GUIDE}."
            )
            sent = any(key in value for value in outgoing.headers.values())
            assert sent is self.sends_key, (
                f"{case.label}: {'a' if sent else 'no'} header has the API key, but `sends_key` is {self.sends_key}. See {GUIDE}."
            )

    def test_recorded_chunks_become_the_events(self) -> None:
        for case in self.list_cases():
            if case.events is not None:
                events = self.read(case.chunks, case.status, case)
                check_equal(
                    events, list(case.events), f"{case.label}: translate_response gave other events than `events`."
                )

    def test_one_byte_at_a_time_gives_the_same_events(self) -> None:
        for case in self.list_cases():
            if case.events is None:
                continue
            pieces = [bytes([byte]) for byte in b"".join(case.chunks)]
            advice = "Read them with tornado_gate.sse or incoming.read()."
            what = f"{case.label}: the events depend on the borders of the chunks. {advice}"
            check_equal(join_sound(self.read(pieces, case.status, case)), join_sound(case.events), what)

    def test_a_body_that_has_arrived_completely_gives_the_same_events(self) -> None:
        for case in self.list_cases():
            if case.events is None:
                continue
            what = f"{case.label}: the events of a body in memory (`BufferedBody`) are others than `events`."
            check_equal(join_sound(self.read_buffered(case)), join_sound(case.events), what)

    def read_buffered(self, case: Case) -> list[StreamEvent]:
        """Return the events of an upstream's response that has arrived completely.

        If they are `WholeEvents` whose result formats take, the method checks that the result matches the events.
        """

        async def collect() -> list[StreamEvent]:
            headers = {"content-type": case.content_type} if case.content_type else {}
            body = BufferedBody(b"".join(case.chunks))
            incoming = UpstreamResponse(chunks=body, status=case.status, headers=headers)
            translated = self.lane().translate_response(self.call(case), case.request, incoming)
            events = [event async for event in translated]
            if (
                isinstance(translated, WholeEvents)
                and translated.is_direct
                and isinstance(translated.result, ChatResult)
            ):
                collected = await stream_events.collect(iterate(events))
                check_equal(
                    translated.result, collected, f"{case.label}: `WholeEvents.result` differs from its events."
                )
            return events

        return asyncio.run(collect())

    def test_the_order_of_events_is_allowed_and_complete(self) -> None:
        for case in self.list_cases():
            if case.events is not None:
                check_order(self.read(case.chunks, case.status, case))

    def test_errors_of_the_upstream_become_the_right_errors(self) -> None:
        for case in self.errors:
            asyncio.run(check_error(self, case))


class InProcessProviderContract(BaseProviderContract):
    """A provider whose own `call_upstream` makes the response, without a network: `request` becomes `events`.

    Override `normalize` if values in events differ from run to run.
    """

    events: ClassVar[Sequence[StreamEvent]]

    def normalize(self, event: StreamEvent) -> StreamEvent:
        """Return `event` without random ids and times."""
        return event

    def answer(self) -> list[StreamEvent]:
        """Return the events of the response to `request`, through all hooks."""

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
    """A provider whose own `open_socket` opens the session of `request`, a `RealtimeRequest`.

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


def join_sound(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """Join the sound of adjacent `SpeechChunk`s in `events`, because bytes are passed on in the chunks of their arrival."""
    joined: list[StreamEvent] = []
    for event in events:
        if isinstance(event, SpeechChunk) and joined and isinstance(last := joined[-1], SpeechChunk):
            joined[-1] = replace(last, data=last.data + event.data)
        else:
            joined.append(event)
    return joined


def check_order(events: Iterable[StreamEvent]) -> None:
    """Check the order of `events`. Raises OrderError if it is not allowed, and AssertionError if the last event is
    missing.
    """
    checker = OrderChecker()
    for event in events:
        checker.check(event)
    assert checker.is_complete()
