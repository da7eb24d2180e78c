"""The routes of the modules that are imported with their first request. The server needs the routes at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from tornado_gate.types import Route, WireRequest
from tornado_gate_openai.fields import (
    client_secrets,
    embeddings,
    image_answers,
    moderations,
    realtime_texts,
    response_answers,
    route_members,
    speech,
    transcriptions,
    video_answers,
)
from tornado_gate_openai.format.references import list_response_references
from tornado_gate_openai.wire import formats

KEEP_ALIVE: Final = b": ping\n"
"""A comment line without the blank line that ends an event: a parser that ends an event at every blank line would parse empty
data as JSON and fail. Source: openai-go before 3.43 (its issue 556, pull request 621, 2026-03)."""


def find_keep_alive(wire: WireRequest) -> bytes:
    """Return what keeps a stream of this request alive before its first event, b"" for a request without ``stream``."""
    return KEEP_ALIVE if wire.json.get("stream") in (True, "true") else b""


def find_speech_keep_alive(wire: WireRequest) -> bytes:
    """Return what keeps a stream of sound as events alive before its first event, b"" for sound as bytes."""
    return KEEP_ALIVE if wire.json.get("stream_format") == "sse" else b""


EMBEDDING_ROUTES: Final = (
    Route(
        "POST",
        "/v1/embeddings",
        "embeddings",
        wire_format=formats.OPENAI_EMBEDDINGS,
        texts=embeddings.EMBEDDINGS,
    ),
    Route(
        "POST",
        "/v1/engines/{model}/embeddings",
        "embeddings",
        wire_format=formats.OPENAI_EMBEDDINGS,
        model="path",
        texts=embeddings.EMBEDDINGS,
    ),
)

COUNT_ROUTES: Final = (
    Route(
        "POST",
        "/v1/responses/input_tokens",
        "count_tokens",
        wire_format=formats.OPENAI_INPUT_TOKENS,
        default=lambda body: "chat",
        other_defaults=("chat",),
        references=list_response_references,
        texts=response_answers.COUNT,
        **route_members.RESPONSES,
    ),
)

MODERATION_ROUTES: Final = (
    Route(
        "POST",
        "/v1/moderations",
        "moderation",
        wire_format=formats.OPENAI_MODERATIONS,
        texts=moderations.MODERATIONS,
    ),
)

SPEECH_ROUTES: Final = (
    Route(
        "POST",
        "/v1/audio/speech",
        "speech",
        wire_format=formats.OPENAI_SPEECH,
        keep_alive=find_speech_keep_alive,
        texts=speech.SPEECH,
    ),
)

TRANSLATIONS_PATH: Final = "/v1/audio/translations"
TRANSCRIPTION_ROUTES: Final = tuple(
    Route(
        "POST",
        path,
        "transcription",
        wire_format=formats.OPENAI_TRANSCRIPTIONS,
        multipart="only",
        keep_alive=find_keep_alive,
        texts=transcriptions.TRANSCRIPTIONS,
    )
    for path in ("/v1/audio/transcriptions", TRANSLATIONS_PATH)
)

SECRETS_PATH: Final = "/v1/realtime/client_secrets"
REALTIME_ROUTES: Final = (
    Route(
        "GET",
        "/v1/realtime",
        "realtime",
        wire_format=formats.OPENAI_REALTIME,
        model="query",
        socket=True,
        texts=realtime_texts.REALTIME,
        other_models=route_members.REALTIME_MODELS,
    ),
    Route(
        "POST",
        SECRETS_PATH,
        "realtime",
        model="none",
        texts=client_secrets.SECRETS,
        other_models=route_members.REALTIME_MODELS,
    ),
)


def _choose_default_images(body: Mapping[str, Any]) -> str:
    """Return the name of the default in conf that applies to a body without a model."""
    from tornado_gate_openai.wire.images import uses_family_three

    return "images_three" if uses_family_three(body) else "images"


VARIATIONS_PATH: Final = "/v1/images/variations"
IMAGE_ROUTES: Final = (
    Route(
        "POST",
        "/v1/images/generations",
        "images",
        wire_format=formats.OPENAI_IMAGES,
        default=_choose_default_images,
        other_defaults=("images_three",),
        keep_alive=find_keep_alive,
        texts=image_answers.GENERATIONS,
        other_models=route_members.IMAGE_MODELS,
    ),
    Route(
        "POST",
        "/v1/images/edits",
        "image_edits",
        wire_format=formats.OPENAI_IMAGE_EDITS,
        multipart="too",
        references=image_answers.list_edit_references,
        keep_alive=find_keep_alive,
        texts=image_answers.EDITS,
        other_models=route_members.IMAGE_MODELS,
    ),
    Route(
        "POST",
        VARIATIONS_PATH,
        "image_edits",
        wire_format=formats.OPENAI_IMAGE_EDITS,
        multipart="only",
        texts=image_answers.EDITS,
        other_models=route_members.IMAGE_MODELS,
    ),
)

UNIFIED_VIDEOS: Final = "openai-videos"
"""``/v1/videos`` and ``/v1/video/generations``. They accept the vendor's bodies and the contract's."""
PREFIXED_VIDEOS: Final = "prefixed-videos"
"""``/vendor/v1/videos/text2video`` and ``image2video``. Conf can add prefixes in place of ``vendor``."""
KIND_OF_PREFIX: Final[Mapping[str, Literal["text", "image"]]] = {"text2video": "text", "image2video": "image"}
"""Last path segment of the prefixed routes, and the input from which a video is generated."""

_TASK_PATH: Final = "/v1/videos/{task_id}"


def _make_task_route(method: str, path: str, wire_format: str = UNIFIED_VIDEOS) -> Route:
    """Return a route for existing tasks."""
    return Route(method, path, "videos", wire_format=wire_format, model="none", texts=video_answers.VIDEOS)


def _make_video_route(path: str, wire_format: str, multipart: Literal["no", "too"]) -> Route:
    """Return a route that starts tasks."""
    return Route("POST", path, "videos", wire_format=wire_format, multipart=multipart, texts=video_answers.VIDEOS)


VIDEO_ROUTES: Final[tuple[Route, ...]] = (
    _make_video_route("/v1/videos", UNIFIED_VIDEOS, "too"),
    _make_video_route("/v1/video/generations", UNIFIED_VIDEOS, "too"),
    *(_make_video_route(f"/vendor/v1/videos/{name}", PREFIXED_VIDEOS, "no") for name in KIND_OF_PREFIX),
    *(_make_task_route("GET", f"/vendor/v1/videos/{name}/{{task_id}}", PREFIXED_VIDEOS) for name in KIND_OF_PREFIX),
    _make_task_route("GET", "/v1/videos"),
    _make_task_route("GET", "/v1/video/generations/{task_id}"),
    # `{task_id}` also matches slashes, so the longer paths come first.
    _make_task_route("GET", f"{_TASK_PATH}/content"),
    _make_task_route("HEAD", f"{_TASK_PATH}/content"),
    _make_task_route("GET", f"{_TASK_PATH}/events"),
    _make_task_route("POST", f"{_TASK_PATH}/remix"),
    _make_task_route("GET", _TASK_PATH),
    _make_task_route("DELETE", _TASK_PATH),
)
