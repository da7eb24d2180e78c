"""The contract of format plugins: a class of tests to inherit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.testing.calls import call_to, check_equal, collect_chunks, iterate, load_format, wire_request
from tornado_gate.types import Call, Request, Route, StreamEvent, WireRequest, replace
from tornado_gate.types.common_request import CommonRequest

ERROR = InvalidField("messages.0", "'messages.0' is wrong.")
"""The error that `FormatContract` renders."""


class FormatContract:
    """A format: `body` becomes `request`, and `events` become `reply`, which is bytes or the value of a JSON reply.

    `path` is the path of a POST route of the format; by default its first POST route. `wire_fields` are further fields of
    the wire request (``headers``, ``query``, ``path_arguments``), `call_fields` fields of the call. `error` are the members that
    the body of the error `ERROR` must have; by default the four strings message, type, param and code in ``error``.

    Override `normalize_request` and `normalize_reply` where they hold something that differs from run to run.
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
        """The route that `body` is for."""
        return next(route for route in self.lane().routes if route.method == "POST" and self.path in ("", route.path))

    def call(self) -> Call:
        return call_to(**{"operation": self.route().operation, **self.call_fields})

    def wire(self, body: Mapping[str, Any]) -> WireRequest:
        """The request of a caller with this body."""
        return wire_request(self.route(), body, **self.wire_fields)

    def translate_request(self) -> Request:
        """The request that `body` becomes."""
        return asyncio.run(self.lane().translate_request(self.call(), self.wire(self.body)))

    def normalize_request(self, request: Request) -> Request:
        """`request` without `reply_state`, which only the format reads, and without random ids."""
        return replace(request, reply_state=None) if isinstance(request, CommonRequest) else request

    def normalize_reply(self, reply: bytes) -> bytes:
        """The body of a reply without random ids and times."""
        return reply

    def test_the_body_becomes_the_common_request(self) -> None:
        check_equal(self.normalize_request(self.translate_request()), self.request)

    def test_events_become_the_reply(self) -> None:
        async def collect() -> bytes:
            request = await self.lane().translate_request(self.call(), self.wire(self.body))
            reply = self.lane().translate_response(self.call(), request, iterate(self.events))
            return b"".join(await collect_chunks(reply))

        found = self.normalize_reply(asyncio.run(collect()))
        check_equal(found if isinstance(self.reply, bytes) else json.loads(found), self.reply)

    def test_errors_have_the_four_strings(self) -> None:
        body = json.loads(self.lane().translate_error(None, ERROR))
        check_equal(pick_members(body, self.error), self.error)

    def test_an_empty_body_is_a_request_error_and_no_crash(self) -> None:
        try:
            asyncio.run(self.lane().translate_request(self.call(), self.wire({})))
        except GateError as error:
            assert error.status == 400
        else:
            raise AssertionError("a format must refuse a body without anything in it")


def pick_members(value: Any, names: Mapping[str, Any]) -> Any:
    """Those members of a JSON object that `names` has too, also in nested objects."""
    return {
        name: pick_members(value[name], inner) if isinstance(inner, Mapping) else value[name]
        for name, inner in names.items()
    }
