"""Routes of the administration API: their parameters and results, and the search of the route for a path. No I/O."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from marshmallow import Schema

from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.people import Actor
from tornado_gate.errors import MethodNotAllowed, NotFound
from tornado_gate.server.admin.scope import Limitation, Scope, make_scope
from tornado_gate.server.services import Services
from tornado_gate.types import RouteParameter
from tornado_gate.types.value import Value, field

PREFIX = "/admin/v1"

T = TypeVar("T")


class Page(Value, Generic[T], frozen=True, kw_only=True):
    """A page of a list. `next`, if it is not null, is the parameter `after` of the next page; `total` counts all pages."""

    data: tuple[T, ...]
    next: str | None = None
    total: int | None = None


class Deleted(Value, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class TextAnswer(Value, frozen=True, kw_only=True):
    """A response that is not JSON."""

    text: str
    media_type: str
    file_name: str


class AdminRequest(Value, frozen=True, kw_only=True):
    """A request with a checked key, parameters and body. `arguments` are the segments of the path.

    `query` has the parameters of the route, each with its type, and its defaults. `key` has the permissions of the key,
    and `actor` describes it for the audit log. `public_url` is the gateway's address for the caller.
    """

    services: Services
    key: KeyRecord
    actor: Actor
    arguments: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    public_url: str

    hidden_fields = frozenset({"services", "body"})

    @property
    def id(self) -> str:
        """Return the id in the path."""
        return self.arguments["id"]

    @property
    def scope(self) -> Scope:
        """Return the scope of the key."""
        return make_scope(self.key)

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Return the result of a function that uses the database."""
        return await self.services.database.run(function, *arguments, **named)


Function = Callable[[AdminRequest], Awaitable[Any]]


class AdminRoute(Value, frozen=True, kw_only=True):
    """One method and path. `path` is below PREFIX; its segments in braces become `AdminRequest.arguments`.

    `body` is the marshmallow schema of the JSON body, `answer` the type of the JSON response. `example` is a body that
    works together with ids that exist. `limited` are the limitations with which an administrator's key may call the
    route. The route then observes them.
    """

    method: str
    path: str
    function: Function
    summary: str
    tag: str
    answer: Any
    description: str = ""
    parameters: tuple[RouteParameter, ...] = ()
    body: type[Schema] | None = None
    example: Mapping[str, Any] | None = None
    query_example: Mapping[str, str] = field(default_factory=dict)
    limited: frozenset[Limitation] = frozenset()

    @property
    def whole_path(self) -> str:
        return PREFIX + self.path


_SEGMENT = re.compile(r"\{(\w+)\}")
_ID = r"[A-Za-z0-9_.:@~-]{1,200}"
"""The pattern of the gateway's ids. A segment with other characters, even percent-encoded ones, matches no route."""
_NAME = r"(?:[A-Za-z0-9_.:@~*+!-]|%[0-9A-Fa-f]{2}){1,600}"
"""The pattern of a segment ``{name}``: a model's name in conf, which may need percent-encoding."""


class AdminTable:
    """The table of routes. Paths are compared as they were sent, never decoded."""

    def __init__(self, routes: list[AdminRoute]) -> None:
        self._methods: dict[str, tuple[re.Pattern[str], dict[str, AdminRoute]]] = {}
        for route in routes:
            pattern = _SEGMENT.sub(
                lambda segment: f"(?P<{segment[1]}>{_NAME if segment[1] == 'name' else _ID})", route.path
            )
            _, methods = self._methods.setdefault(route.path, (re.compile(pattern), {}))
            methods[route.method] = route

    def find_route(self, method: str, path: str) -> tuple[AdminRoute, dict[str, str]]:
        """Return the route of a whole path, and its arguments. HEAD is served as GET. Raises NotFound, MethodNotAllowed."""
        rest = path.removeprefix(PREFIX)
        rest = rest[:-1] if rest.endswith("/") else rest
        for pattern, methods in self._methods.values():
            match = pattern.fullmatch(rest)
            if match is not None:
                route = methods.get("GET" if method == "HEAD" else method)
                if route is None:
                    raise MethodNotAllowed(method, [*methods, *(["HEAD"] if "GET" in methods else [])])
                return route, match.groupdict()
        message = "The administration API has no such route. GET /openapi.json lists all routes."
        raise NotFound(message, code="unknown_route")
