"""Videos for callers: the unified routes, which are the contract's and the vendor's at once, and the prefixed ones.

A video is a task. What begins one goes to a provider; every question about tasks that exist is the core's to answer. The
routes are written with the prefix ``vendor``; the core repeats them for each further prefix in conf.
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
from tornado_gate_format_openai import paths
from tornado_gate_format_openai.videos import replies
from tornado_gate_format_openai.videos.bodies import BOUNDS
from tornado_gate_format_openai.videos.queries import parse_index, parse_limit, parse_order, parse_wait
from tornado_gate_format_openai.videos.reply_options import Kind, TaskState
from tornado_gate_format_openai.videos.requests import parse_remix_request, parse_video_request

__all__ = ["BOUNDS", "ROUTES", "forward", "forward_response", "parse", "reply"]

ROUTES: Final = paths.VIDEO_ROUTES


async def parse(call: Call, wire: WireRequest) -> VideoRequest | TaskRequest:
    """What is asked of videos. Raises InvalidField."""
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
    """Whatever the prefix is. None for the unified routes."""
    if route.wire_format != paths.PREFIXED_VIDEOS:
        return None
    name = route.path.removesuffix("/{task_id}").rpartition("/")[2]
    return paths.KIND_OF_PREFIX[name]


def reply(call: Call, request: VideoRequest | TaskRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to anything but a download, whose file the core sends."""
    return replies.reply(call, request, events)


def forward(call: Call, wire: WireRequest) -> None:
    """Nothing goes up as it came: the gateway keeps the task."""


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Never called, as `forward` declines."""
    raise UnsupportedOperation("Videos are not passed on as they come.")
