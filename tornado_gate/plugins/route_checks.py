"""Checks the routes of a format: their fields, and what a route without a key or with bodies that are not JSON may be."""

from __future__ import annotations

import re
from typing import Final

from tornado_gate.types import Route
from tornado_gate.types.field_checks import find_wrong_field

_WITHOUT_BODY: Final = ("DELETE", "GET", "HEAD")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")


def find_route_fault(route: object) -> str:
    """What is wrong with a route, and what is allowed; "" for a right one."""
    if not isinstance(route, Route):
        return f"Expected `Route`, got `{type(route).__name__}`"
    place = f"{route.method} {route.path}"
    if wrong := find_wrong_field(route):
        return f"{wrong} of the route {place}"
    if not route.path.startswith("/"):
        return f"the path of the route {place} does not begin with a slash"
    if route.key != "required" and (route.method not in ("GET", "HEAD") or route.model != "none" or route.socket):
        return f"the route {place} has key='{route.key}', which only a GET route with model='none' may have"
    if route.content_types and (route.method in _WITHOUT_BODY or route.multipart == "only" or route.socket):
        return f"the route {place} has content_types, but no body that they could be for"
    for name in route.content_types:
        if not _TYPE.fullmatch(name) or name in ("application/json", "multipart/form-data"):
            return f"content_types of the route {place}: '{name}' is not a media type in lower case other than JSON and forms"
    return ""
