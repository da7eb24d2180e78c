"""Checks of the routes of a format: their fields, and the rules for routes without a key or with bodies that are not JSON."""

from __future__ import annotations

import re
from typing import Final

from tornado_gate.types import Route
from tornado_gate.types.field_checks import find_wrong_field

_WITHOUT_BODY: Final = ("DELETE", "GET", "HEAD")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")


def find_route_fault(route: object) -> str:
    """Return the fault of a route, with the permitted values; "" for a valid one."""
    if not isinstance(route, Route):
        return f"Expected `Route`, got `{type(route).__name__}`"
    title = f"{route.method} {route.path}"
    if wrong := find_wrong_field(route):
        return f"{wrong} of the route {title}"
    if not route.path.startswith("/"):
        return f"the path of the route {title} does not begin with a slash"
    if route.key != "required" and (route.method not in ("GET", "HEAD") or route.model != "none" or route.socket):
        return f"the route {title} has key='{route.key}', which only a GET route with model='none' may have"
    if route.content_types and (route.method in _WITHOUT_BODY or route.multipart == "only" or route.socket):
        return f"the route {title} has content_types, but no body that they could be for"
    for name in route.content_types:
        if not _TYPE.fullmatch(name) or name in ("application/json", "multipart/form-data"):
            return f"content_types of the route {title}: '{name}' is not a media type in lower case other than JSON and forms"
    return ""
