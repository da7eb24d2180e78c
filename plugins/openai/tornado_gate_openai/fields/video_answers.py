"""The routes of video tasks, unified and prefixed: the texts of their bodies and responses, and their descriptions.

Addresses of videos in responses are no texts, because the gateway signs them. Files of a form are not reviewed.

Source of the answers: openai-python 3.52, types/video.py; the members of the prefixed routes are the gateway's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.codec.fields import make_shape
from tornado_gate.types import JsonSchema, Route, RouteDescription, RouteExample, RouteParameter
from tornado_gate.types.text_maps import WORD, Object, Shape, TextMap, words
from tornado_gate.wire.text_shapes import ERROR
from tornado_gate_openai.fields.json_schemas import (
    COUNT,
    NUMBER,
    PNG,
    TEXT,
    make_list,
    make_object,
)
from tornado_gate_openai.fields.video_queries import MAX_LIMIT, MAX_WAIT_SECONDS
from tornado_gate_openai.fields.videos import (
    PROMPT_TEXT,
    VIDEO_WORDS,
    RemixBodySchema,
    VideoBodySchema,
    VideoFormSchema,
)

_VIDEO: Final[dict[str, Shape]] = {
    **VIDEO_WORDS,
    "prompt": PROMPT_TEXT,
    "url": WORD,
    "error": ERROR,
    "videos": Object(kind="other", members=words("id", "url")),
}
_ANSWER: Final = Object(kind="other", members={**_VIDEO, "data": Object(kind="other", members=_VIDEO)})
VIDEOS: Final = TextMap(request=make_shape(VideoBodySchema), response=_ANSWER, event=_ANSWER)

_TAG: Final = "videos"
_TASK: Final = {"task_id": "TASK"}
_NEEDS: Final = "a task"
_STATUS: Final[JsonSchema] = {
    "type": "string",
    "enum": ["queued", "pending", "in_progress", "completed", "failed"],
    "description": "SDKs of the vendor get `in_progress` for `pending`.",
}
_VIDEO_SCHEMA: Final[JsonSchema] = make_object(
    ("id", "task_id", "object", "model", "status", "progress", "created_at"),
    id=TEXT,
    task_id=TEXT,
    object={"const": "video"},
    model=TEXT,
    status=_STATUS,
    progress={"type": "integer", "minimum": 0, "maximum": 100},
    created_at=COUNT,
    completed_at={"type": ["integer", "null"]},
    expires_at={"type": ["integer", "null"]},
    position={"type": "integer", "description": "The place in the queue, from 1."},
    error={"type": ["object", "null"]},
    url={"type": "string", "description": "The signed address of the first video."},
)
_PREFIXED_SCHEMA: Final[JsonSchema] = make_object(
    ("task_id", "status", "progress", "created_at", "model"),
    task_id=TEXT,
    status=_STATUS,
    progress=COUNT,
    created_at=COUNT,
    model=TEXT,
    videos={"type": "array", "items": make_object(("id", "url"), id=TEXT, url=TEXT, duration=NUMBER)},
)
_WAIT: Final = RouteParameter(
    name="wait",
    description="Seconds for which the answer may wait for the end of the task.",
    schema={"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
)
_IDEMPOTENCY: Final = RouteParameter(
    name="Idempotency-Key",
    place="header",
    description="The same key and body give the same task; another body is a 409.",
)
_CREATE_EXAMPLES: Final = (
    RouteExample(
        name="text", summary="A text", body={"prompt": "A red ball rolls.", "duration": 1, "width": 128, "height": 96}
    ),
)
_FORM_EXAMPLE: Final = RouteExample(
    name="form", summary="A form with a picture", fields={"prompt": "A red ball rolls.", "seconds": "1", "size": "128x96"},
    files={"input_reference": "image.png"},
)  # fmt: skip
_DOWNLOAD_PARAMETERS: Final = (
    RouteParameter(name="index", description="Which video, from 0.", schema={"type": "integer", "minimum": 0}),
    RouteParameter(name="variant", description="`video`.", schema={"type": "string", "enum": ["video"]}),
    RouteParameter(name="Range", place="header", description="A part of the file."),
)
_LIST_PARAMETERS: Final = (
    RouteParameter(
        name="limit", description="The most tasks.", schema={"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
    ),
    RouteParameter(name="after", description="The id of the last task of the previous page."),
    RouteParameter(name="order", description="By time.", schema={"type": "string", "enum": ["asc", "desc"]}),
)


def _describe_task(summary: str, answer: JsonSchema | None, **rest: object) -> RouteDescription:
    example = RouteExample(name="task", summary="One task", arguments=_TASK, needs=_NEEDS)
    values = {"summary": summary, "tag": _TAG, "answer": answer, "examples": (example,), **rest}
    return RouteDescription(**values)  # type: ignore[arg-type]  # fields of the class, as the callers below show


_SHOW: Final = _describe_task("Show a video task", _VIDEO_SCHEMA, parameters=(_WAIT,))
_DOWNLOAD: Final = _describe_task(
    "Download a video",
    None,
    description="404 with `video_not_ready` until the task is completed.",
    parameters=_DOWNLOAD_PARAMETERS,
    media_types={"video/mp4": ""},
)
_CREATE: Final = RouteDescription(
    summary="Create a video task",
    description="Asynchronous: poll the task, follow its events, or send a `webhook_url`.",
    tag=_TAG,
    body=VideoBodySchema,
    form=VideoFormSchema,
    parameters=(_IDEMPOTENCY,),
    answer=_VIDEO_SCHEMA,
    examples=(*_CREATE_EXAMPLES, _FORM_EXAMPLE),
)
_ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/videos": _CREATE,
    "POST /v1/video/generations": _CREATE,
    "GET /v1/videos": RouteDescription(
        summary="List the video tasks of the key's account",
        tag=_TAG,
        parameters=_LIST_PARAMETERS,
        answer=make_list(_VIDEO_SCHEMA),
        examples=(RouteExample(name="list", summary="The newest tasks"),),
    ),
    "GET /v1/video/generations/{task_id}": _SHOW,
    "GET /v1/videos/{task_id}": _SHOW,
    "GET /v1/videos/{task_id}/content": _DOWNLOAD,
    "HEAD /v1/videos/{task_id}/content": _DOWNLOAD,
    "GET /v1/videos/{task_id}/events": _describe_task(
        "Follow a video task",
        None,
        media_types={"text/event-stream": 'event: video.progress\ndata: {"id": "video_…", "progress": 40, …}\n\n'},
    ),
    "POST /v1/videos/{task_id}/remix": RouteDescription(
        summary="Change a finished video",
        tag=_TAG,
        body=RemixBodySchema,
        answer=_VIDEO_SCHEMA,
        examples=(
            RouteExample(
                name="remix",
                summary="Another prompt",
                arguments=_TASK,
                body={"prompt": "A blue ball rolls."},
                needs="a completed task of a provider that can change videos",
            ),
        ),
    ),
    "DELETE /v1/videos/{task_id}": _describe_task(
        "Cancel and delete a video task",
        make_object(("id", "object", "deleted"), id=TEXT, object=TEXT, deleted={"type": "boolean"}),
    ),
}


def describe_route(route: Route) -> RouteDescription | None:
    """Return the description of a route of video tasks; the prefix of some routes comes from conf."""
    description = _ROUTES.get(f"{route.method} {route.path}")
    if description is not None:
        return description
    kind = "text" if "/text2video" in route.path else "image"
    if route.method == "GET":
        return _describe_task(f"Show a video task ({kind} to video)", _PREFIXED_SCHEMA, parameters=(_WAIT,))
    picture = {"image": PNG} if kind == "image" else {}
    examples = tuple(
        RouteExample(name=example.name, summary=example.summary, body={**example.body, **picture})
        for example in _CREATE_EXAMPLES
    )
    return RouteDescription(
        summary=f"Create a video task ({kind} to video)",
        tag=_TAG,
        body=VideoBodySchema,
        parameters=(_IDEMPOTENCY,),
        answer=_PREFIXED_SCHEMA,
        examples=examples,
    )
