"""The handler of POST /v1/_explain?route=/v1/chat/completions, which explains how that route would process this body."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import orjson

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.explain import explain
from tornado_gate.server.handlers.authenticated import AuthenticatedHandler
from tornado_gate.server.handlers.exchange import CallerRequest
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute, ServedRoute
from tornado_gate.types import Route

ROUTE = Route("POST", "/v1/_explain", "explain")


class ExplainHandler(AuthenticatedHandler):
    """A handler that authenticates and reads the body like the explained route, and returns the explanation of the request."""

    may_be_shed = True

    def __init__(self, services: Services, request: CallerRequest) -> None:
        super().__init__(services, request, MatchedRoute(ServedRoute("", ROUTE), {}))

    def check_operation(self) -> None:
        """Allow every key to explain its requests; the explained route's own limits apply."""

    async def answer(self) -> None:
        try:
            matched = self._find_explained_route()
            self.matched, self.route, self.format = matched, matched.served.route, matched.served.format
            self.operation = self.route.operation
            auth.filter_operations(self.caller, self.route.operations)
            call = self.make_call(AsyncExitStack())
            self.call = call.replace(operation=ROUTE.operation)  # the ledger counts explanations apart
            wire = self.read_wire_request(call) if self.claim is None else await self.read_large_wire_request(call)
            explanation: dict[str, Any] = await explain(self.gate, self.snapshot, call, wire)
        except GateError as error:
            self.fail(error)
            return
        self.set_header("Content-Type", "application/json")
        self.end(orjson.dumps(explanation))

    def _find_explained_route(self) -> MatchedRoute:
        route = next(iter(self.get_query_values("route")), "")
        path, _, _ = route.partition("?")
        if not path.startswith("/"):
            raise InvalidField(
                "route", "The query parameter 'route' must be the path of a route, such as ?route=/v1/chat/completions."
            )
        return self.snapshot.routes.match("POST", path, self.request.headers, {})
