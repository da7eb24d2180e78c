"""The routes of every module that is imported when a request of its kind first comes. The server asks for them at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from tornado_gate.types import Route
from tornado_gate.wire import formats

EMBEDDINGS: Final = (
    Route("POST", "/v1/embeddings", "embeddings", wire_format=formats.OPENAI_EMBEDDINGS),
    Route("POST", "/v1/engines/{model}/embeddings", "embeddings", wire_format=formats.OPENAI_EMBEDDINGS, model="path"),
)

MODERATIONS: Final = (Route("POST", "/v1/moderations", "moderation", wire_format=formats.OPENAI_MODERATIONS),)

SPEECH: Final = (Route("POST", "/v1/audio/speech", "speech", wire_format=formats.OPENAI_SPEECH),)

TRANSLATIONS: Final = "/v1/audio/translations"
TRANSCRIPTIONS: Final = tuple(
    Route("POST", path, "transcription", wire_format=formats.OPENAI_TRANSCRIPTIONS, multipart="only")
    for path in ("/v1/audio/transcriptions", TRANSLATIONS)
)

SECRETS: Final = "/v1/realtime/client_secrets"
REALTIME: Final = (
    Route("GET", "/v1/realtime", "realtime", wire_format=formats.OPENAI_REALTIME, model="query", socket=True),
    Route("POST", SECRETS, "realtime", model="none"),
)


def _default_images(body: Mapping[str, Any]) -> str:
    """Which of conf's defaults holds for a body without a model."""
    from tornado_gate.wire.openai_images import uses_family_three

    return "images_three" if uses_family_three(body) else "images"


VARIATIONS: Final = "/v1/images/variations"
IMAGES: Final = (
    Route("POST", "/v1/images/generations", "images", wire_format=formats.OPENAI_IMAGES, default=_default_images),
    Route("POST", "/v1/images/edits", "image_edits", wire_format=formats.OPENAI_IMAGE_EDITS, multipart="too"),
    Route("POST", VARIATIONS, "image_edits", wire_format=formats.OPENAI_IMAGE_EDITS, multipart="only"),
)

UNIFIED: Final = "openai-videos"
"""``/v1/videos`` and ``/v1/video/generations``: the vendor's bodies and the contract's."""
PREFIXED: Final = "prefixed-videos"
"""``/vendor/v1/videos/text2video`` and ``image2video``, and what conf has in place of the word ``vendor``."""
KINDS: Final[Mapping[str, Literal["text", "image"]]] = {"text2video": "text", "image2video": "image"}
"""How the prefixed routes end, and what a video is made of there."""

_TASK: Final = "/v1/videos/{task_id}"


def _asks(method: str, path: str, wire_format: str = UNIFIED) -> Route:
    """A route about tasks that exist."""
    return Route(method, path, "videos", wire_format=wire_format, model="none")


VIDEOS: Final[tuple[Route, ...]] = (
    Route("POST", "/v1/videos", "videos", wire_format=UNIFIED, multipart="too"),
    Route("POST", "/v1/video/generations", "videos", wire_format=UNIFIED, multipart="too"),
    *(Route("POST", f"/vendor/v1/videos/{name}", "videos", wire_format=PREFIXED) for name in KINDS),
    *(_asks("GET", f"/vendor/v1/videos/{name}/{{task_id}}", PREFIXED) for name in KINDS),
    _asks("GET", "/v1/videos"),
    _asks("GET", "/v1/video/generations/{task_id}"),
    # A task's id is the last segment of its path, which may hold slashes: longer paths come first.
    _asks("GET", f"{_TASK}/content"),
    _asks("HEAD", f"{_TASK}/content"),
    _asks("GET", f"{_TASK}/events"),
    _asks("POST", f"{_TASK}/remix"),
    _asks("GET", _TASK),
    _asks("DELETE", _TASK),
)
