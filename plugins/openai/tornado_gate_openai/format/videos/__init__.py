"""The video routes: the unified routes, which accept the contract's and the vendor's bodies, and the prefixed routes.

A video is a task. A provider handles requests that create one; the core handles requests about existing tasks. The prefixed
routes are declared with the prefix ``vendor``; the core adds a copy for each further prefix in conf.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from tornado_gate.errors import UnsupportedOperation
from tornado_gate.types import (
    Call,
    Reply,
    Route,
    StreamEvent,
    TaskRequest,
    UpstreamResponse,
    VerbatimRequest,
    VideoRequest,
    WireRequest,
)
from tornado_gate_openai.fields.video_queries import parse_index, parse_limit, parse_order, parse_wait
from tornado_gate_openai.fields.videos import BOUNDS
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.videos import replies
from tornado_gate_openai.format.videos.reply_options import Kind, TaskState
from tornado_gate_openai.format.videos.requests import parse_remix_request, parse_video_request

__all__ = ["BOUNDS", "ROUTES", "forward", "forward_response", "parse", "reply"]

ROUTES: Final = paths.VIDEO_ROUTES


async def parse(call: Call, wire: WireRequest) -> VideoRequest | TaskRequest:
    """Parse a request into a video request or a task request. Raises InvalidField."""
    route = wire.route
    kind = _get_kind(route)
    if route.model == "body":
        return await parse_video_request(call, wire, kind)
    if "{" not in route.path:
        query = wire.query
        return TaskRequest(
            action="list", after=query.get("after", ""), limit=parse_limit(query), order=parse_order(query)
        )
    return _make_task_request(wire, kind)


def _make_task_request(wire: WireRequest, kind: Kind | None) -> TaskRequest:
    task = wire.path_arguments["task_id"]
    match wire.route.method, wire.route.path.rpartition("/")[2]:
        case _, "content":
            return TaskRequest(action="content", task_id=task, index=parse_index(wire.query))
        case _, "events":
            return TaskRequest(action="events", task_id=task, stream=True)
        case _, "remix":
            return TaskRequest(action="remix", task_id=task, request=parse_remix_request(wire))
        case "DELETE", _:
            return TaskRequest(action="delete", task_id=task)
        case _:
            return TaskRequest(
                action="show", task_id=task, wait=parse_wait(wire.query), reply_state=TaskState(kind=kind)
            )


def _get_kind(route: Route) -> Kind | None:
    """Return the kind of a prefixed route, for any prefix; None for the unified routes."""
    if route.wire_format != paths.PREFIXED_VIDEOS:
        return None
    name = route.path.removesuffix("/{task_id}").rpartition("/")[2]
    return paths.KIND_OF_PREFIX[name]


def reply(call: Call, request: VideoRequest | TaskRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to any request except a download, whose file the core sends."""
    return replies.reply(call, request, events)


def forward(call: Call, wire: WireRequest) -> None:
    """Return None: videos have no verbatim lane, because the gateway stores the task."""


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Never called, because `forward` returns None."""
    raise UnsupportedOperation("Video routes have no verbatim lane.")
