"""The handler of the administration API. It checks key and role first, then the route, its parameters and its body."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import msgspec

from tornado_gate.accounts.errors import AccountError, TooManyAttempts
from tornado_gate.accounts.people import Actor
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import (
    GateError,
    InvalidField,
    NotAllowed,
    NotFound,
    RequestError,
    Unavailable,
)
from tornado_gate.pipeline import auth
from tornado_gate.server.admin.bodies import check_body
from tornado_gate.server.admin.parameters import parse_query
from tornado_gate.server.admin.routes import TABLE
from tornado_gate.server.admin.routing import PREFIX, AdminRequest, AdminRoute, TextAnswer
from tornado_gate.server.admin.scope import OPERATION, make_scope
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.authenticated import AuthenticatedHandler
from tornado_gate.server.handlers.exchange import CallerRequest
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute, ServedRoute
from tornado_gate.types import Route

MAX_BODY_BYTES = 64 * 1024


class AdminHandler(AuthenticatedHandler):
    """A request below /admin/v1. The role is checked before the route, so that other callers cannot find out which
    routes exist.
    """

    is_shared = False  # keys of administrators do not belong in web pages
    takes_key_in_query = False  # nor in addresses: here `key` is a filter

    def __init__(self, services: Services, request: CallerRequest) -> None:
        route = Route(request.method, PREFIX, OPERATION, model="none", empty_body=True)
        super().__init__(services, request, MatchedRoute(ServedRoute("", route), {}))
        self._found: tuple[AdminRoute, dict[str, str]] | None = None

    def check_operation(self) -> None:
        """Check the role and operations of the key, find the route, and check whether it allows a key with these
        limitations.

        Raises NotAllowed, NotFound, MethodNotAllowed.
        """
        if not auth.is_administrator(self.caller):
            message = "The administration API requires a key with the role administrator. Ask an administrator for one."
            raise NotAllowed(message, code="administrator_required")
        auth.filter_operations(self.caller, (OPERATION,))
        self.limit = min(self.limit, MAX_BODY_BYTES)
        self._found = TABLE.find_route(self.request.method, self.request.path)
        make_scope(self.caller).check_route(self._found[0].limited)

    async def answer(self) -> None:
        """Respond to the request. Errors of accounts and the database are converted to errors of the API."""
        self.call = self.make_call(AsyncExitStack())
        try:
            self._send_result(await self._call_route())
        except GateError as error:
            self.fail(error)
        except AccountError as error:
            self.fail(convert_account_error(error))
        except DatabaseError:
            self.fail(Unavailable("The database cannot be used now. Try again later.", code="storage_unavailable"))

    async def _call_route(self) -> Any:
        assert self._found is not None
        route, arguments = self._found
        key = await self.gate.keys.find_by_digest(self.key_digest)
        if key is None:
            raise auth.unknown_key_error()  # revoked while the body was read
        query = parse_query(route.parameters, self.request.query_arguments if self.request.query else {})
        server = self.snapshot.config.server
        actor = Actor(
            id=key.id,
            name=key.name,
            role=key.role,
            address=common.find_request_origin(self.request, server).address,
            request_id=self.request_id,
        )
        request = AdminRequest(
            services=self.services, key=key, actor=actor, arguments=arguments, query=query,
            body=self._read_body(route), public_url=self.get_public_url(),
        )  # fmt: skip
        return await route.function(request)

    def _read_body(self, route: AdminRoute) -> dict[str, Any]:
        """Return the checked body; {} for a route without one. Raises RequestError."""
        assert self.call is not None
        if route.body is None:
            if any(self.body):
                raise RequestError("This route takes no body. Send the request without one.", code="invalid_request")
            return {}
        body = dict(self.read_wire_request(self.call).json)
        check_body(route.body, body)
        return body

    def _send_result(self, result: Any) -> None:
        if isinstance(result, TextAnswer):
            self.set_header("Content-Type", result.media_type)
            self.set_header("Content-Disposition", f'attachment; filename="{result.file_name}"')
            self.end(result.text.encode("utf-8", "replace"))
            return
        self.set_header("Content-Type", "application/json")
        self.end(msgspec.json.encode(result))


def convert_account_error(error: AccountError) -> GateError:
    """Convert an error of accounts to an error of the API. Its field becomes `param`."""
    code, param = error.code, error.field
    if isinstance(error, TooManyAttempts):
        return RequestError(error.message, code=code, status=429, headers={"Retry-After": str(error.retry_after)})
    match error.status:
        case 403:
            return NotAllowed(error.message, code=code, param=param)
        case 404:
            return NotFound(error.message, code=code, param=param)
        case 409:
            return RequestError(error.message, code=code, param=param, status=409)
    return InvalidField(param, error.message, code="invalid_value" if code == "invalid" else code)
