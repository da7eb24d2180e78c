"""The contract of format plugins: a class of tests to inherit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import events as stream_events
from tornado_gate.streams.events import WholeEvents
from tornado_gate.testing.calls import call_to, collect_chunks, iterate, load_format, wire_request
from tornado_gate.testing.differences import GUIDE, check_equal
from tornado_gate.types import Call, Request, Route, RouteExample, StreamError, StreamEvent, WireRequest, replace
from tornado_gate.types.common_request import CommonRequest

ERROR = InvalidField("messages.0", "'messages.0' is wrong.")
"""The error that `FormatContract` renders."""


class FormatContract:
    """A format: `body` becomes `request`, and `events` become `reply`, which is bytes or the value of a JSON response.

    `path` is the path of a POST route of the format; by default its first POST route. `wire_fields` are further fields
    of the wire request (``headers``, ``query``, ``path_arguments``), `call_fields` fields of the call. `error` are the
    members that the body of the error `ERROR` must have; by default the four strings message, type, param and code in
    ``error``.

    Override `normalize_request` and `normalize_reply` if their values differ from run to run.
    """

    plugin: ClassVar[Any]
    body: ClassVar[Mapping[str, Any]]
    request: ClassVar[Request]
    events: ClassVar[Sequence[StreamEvent]]
    reply: ClassVar[Any]
    path: ClassVar[str] = ""
    wire_fields: ClassVar[Mapping[str, Any]] = {}
    call_fields: ClassVar[Mapping[str, Any]] = {}
    error: ClassVar[Mapping[str, Any]] = {"error": ERROR.body()}

    def lane(self) -> FormatLane:
        return load_format(self.plugin)

    def route(self) -> Route:
        """Return the route of `body`."""
        return next(route for route in self.lane().routes if route.method == "POST" and self.path in ("", route.path))

    def call(self) -> Call:
        return call_to(**{"operation": self.route().operation, **self.call_fields})

    def wire(self, body: Mapping[str, Any]) -> WireRequest:
        """Return the request of a caller with this body."""
        return wire_request(self.route(), body, **self.wire_fields)

    def make_example(self) -> tuple[str, RouteExample]:
        """Return the path of the route, and `body` as an example for the conformance kit, which fills in the model."""
        body = {name: value for name, value in self.body.items() if name != "model"}
        fields = self.wire_fields
        arguments = {name: value for name, value in fields.get("path_arguments", {}).items() if name != "model"}
        example = RouteExample(
            name=type(self).__name__, summary="", body=body, headers=fields.get("headers", {}),
            query=fields.get("query", {}), arguments=arguments, operation=self.call_fields.get("operation", ""),
        )  # fmt: skip
        return self.route().path, example

    def translate_request(self) -> Request:
        """Return the request that `body` becomes."""
        return asyncio.run(self.lane().translate_request(self.call(), self.wire(self.body)))

    def normalize_request(self, request: Request) -> Request:
        """Return `request` without `reply_state`, which only the format reads, and without random ids."""
        return replace(request, reply_state=None) if isinstance(request, CommonRequest) else request

    def normalize_reply(self, reply: bytes) -> bytes:
        """Return the body of a response without random ids and times."""
        return reply

    def test_the_body_becomes_the_common_request(self) -> None:
        request = self.normalize_request(self.translate_request())
        check_equal(request, self.request, "translate_request made another request of `body` than `request`.")

    def test_events_become_the_reply(self) -> None:
        async def collect() -> bytes:
            request = await self.lane().translate_request(self.call(), self.wire(self.body))
            reply = self.lane().translate_response(self.call(), request, iterate(self.events))
            return b"".join(await collect_chunks(reply))

        rendered = self.normalize_reply(asyncio.run(collect()))
        value = rendered if isinstance(self.reply, bytes) else json.loads(rendered)
        check_equal(value, self.reply, "translate_response made another response of `events` than `reply`.")

    def test_a_whole_response_becomes_the_reply(self) -> None:
        async def collect() -> bytes | None:
            whole = await make_whole(self.events)
            request = await self.lane().translate_request(self.call(), self.wire(self.body))
            if whole is None or getattr(request, "stream", False):
                return None
            return b"".join(await collect_chunks(self.lane().translate_response(self.call(), request, whole)))

        reply = asyncio.run(collect())
        if reply is not None:
            rendered = self.normalize_reply(reply)
            value = rendered if isinstance(self.reply, bytes) else json.loads(rendered)
            check_equal(value, self.reply, "translate_response made another response of `WholeEvents` than `reply`.")

    def test_errors_have_the_four_strings(self) -> None:
        body = json.loads(self.lane().translate_error(None, ERROR))
        what = "translate_error returned another body for the error `ERROR` than `error`."
        check_equal(pick_members(body, self.error), self.error, what)

    def test_an_empty_body_is_a_request_error_and_no_crash(self) -> None:
        try:
            asyncio.run(self.lane().translate_request(self.call(), self.wire({})))
        except GateError as error:
            what = f"translate_request refused an empty body with status {error.status} instead of 400"
            assert error.status == 400, f"{what}; raise InvalidField or a RequestError. See {GUIDE}."
        else:
            raise AssertionError(
                "translate_request accepted the body {}. Check each required member, and raise InvalidField with its path. "
                f"See {GUIDE}."
            )


async def make_whole(events: Sequence[StreamEvent]) -> WholeEvents | None:
    """Return the events of a response as `WholeEvents`, or None if it has failed or is no chat and has several events."""
    if len(events) == 1 and not isinstance(events[0], StreamError):
        return WholeEvents(events[0], size=0)
    try:
        return WholeEvents(await stream_events.collect(iterate(events)))
    except GateError:
        return None


def pick_members(value: Any, names: Mapping[str, Any]) -> Any:
    """Return the members of a JSON object that `names` has too, including nested objects. A missing member is omitted."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: pick_members(value[name], inner) if isinstance(inner, Mapping) else value[name]
        for name, inner in names.items()
        if name in value
    }
