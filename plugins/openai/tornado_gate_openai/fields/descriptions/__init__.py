"""What the API description says about the routes of this format. Imported when the description is requested."""

from __future__ import annotations

from tornado_gate.types import Route, RouteDescription
from tornado_gate_openai.fields import image_answers, transcriptions
from tornado_gate_openai.fields.descriptions import chat, media, stored_objects, videos


def describe_route(route: Route) -> RouteDescription | None:
    """Return the description of one of the routes of this format."""
    if route.operation == "videos":
        return videos.describe_route(route)
    found = chat.ROUTES.get(route.path) if route.method == "POST" else None
    for routes in (image_answers.ROUTES, transcriptions.ROUTES, media.ROUTES, stored_objects.ROUTES):
        found = found or routes.get(f"{route.method} {route.path}")
    return found
