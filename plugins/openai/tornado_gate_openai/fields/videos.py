"""Bodies of video requests. Values are not converted.

The contract has ``image``, ``duration``, ``width`` and ``height``; openai-python 3.52 has ``input_reference``, ``seconds`` and
``size`` (types/video_create_params.py). Every route accepts both, but not with different values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from marshmallow import ValidationError

from tornado_gate.codec.checks import raise_invalid, raise_missing
from tornado_gate.codec.fields import (
    MAX_INTEGER,
    BodySchema,
    Boolean,
    Declared,
    File,
    FunctionField,
    Integer,
    Number,
    Object,
    String,
    check,
    describe_type,
    get_schema,
)
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, text_maps
from tornado_gate.types.text_maps import MEDIA, OTHER, WORD, Text, words
from tornado_gate_openai.fields.images import ReferenceSchema

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {"seconds": (1, 60), "side": (64, 4096), "fps": (1, 60), "n": (1, 4)}
"""Minimum and maximum: seconds, pixels per side, frames per second, number of videos. Conf can change them per model."""
MAX_PROMPT_LENGTH: Final = 32_000
"""Characters. Each response about a task repeats its prompt."""
MAX_URL_LENGTH: Final = 2048
"""Characters of a webhook URL."""

_SECONDS_PATTERN: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_SIZE_PATTERN: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,6})")
_FORBIDDEN_IN_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")


def _check_not_blank(text: str) -> None:
    if not text.strip():
        raise ValidationError("must not be empty")


def _check_seconds(value: Any) -> None:
    """Raise InvalidField unless `value` is a number, or a string (vendor) that is a number."""
    if isinstance(value, str):
        if not _SECONDS_PATTERN.fullmatch(value):
            raise_invalid("seconds", f"must be a number of seconds, such as '4', not '{value[:50]}'")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise_invalid("seconds", f"must be a string, such as '4', or a number, not {describe_type(value)}")
    elif not abs(value) <= MAX_INTEGER:
        raise_invalid("seconds", "is too large; send the video's length in seconds")


def _check_webhook(value: Any) -> None:
    """Raise InvalidField unless `value` is an http(s) URL without credentials. Its host is checked when it is called."""
    if not isinstance(value, str):
        raise_invalid("webhook_url", f"must be a string, not {describe_type(value)}")
    try:
        parts = urlsplit(value[: MAX_URL_LENGTH + 1])  # `urlsplit` caches its argument
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or _FORBIDDEN_IN_URL.search(value) or len(value) > MAX_URL_LENGTH:
        raise_invalid("webhook_url", f"must be an http or https URL of at most {MAX_URL_LENGTH} characters")
    if "@" in parts.netloc:
        raise_invalid("webhook_url", "must not contain a user name or password")


VIDEO_WORDS: Final = words(
    "model", "size", "seconds", "duration", "resolution", "aspect_ratio", "quality", "status", "object", "id", "task_id",
    "remixed_from_video_id", "width", "height", "n", "fps", "seed", "mode", "first_id", "last_id", "type",
)  # fmt: skip
"""Words of requests of any upstream, and of responses and events."""
_PICTURE: Final = text_maps.Object(
    kind="other", members={"image_url": MEDIA, "data": MEDIA, **words("file_id", "type", "media_type")}, string=MEDIA
)
PROMPT_TEXT: Final = Text(kind="user")


class VideoBodySchema(BodySchema):
    """The body of every route that creates a video."""

    texts = text_maps.Object(
        kind="other",
        members={
            **VIDEO_WORDS,
            "negative_prompt": PROMPT_TEXT,
            **dict.fromkeys(("images", "first_frame", "last_frame", "image_tail"), _PICTURE),
        },
    )

    model = String(
        required=True, validate=_check_not_blank, text=WORD, description="The name of a model of this gateway."
    )
    prompt = String(required=True, validate=_check_not_blank, longest=MAX_PROMPT_LENGTH, text=PROMPT_TEXT)
    image = String(allow_none=True, text=_PICTURE, description="The first picture: an address or base64.")
    input_reference: Declared[Any] = Object(
        ReferenceSchema, allow_none=True, text=_PICTURE, description="The first picture."
    )
    duration = Number(allow_none=True, text=WORD, description="Seconds.")
    seconds = FunctionField(
        _check_seconds,
        allow_none=True,
        text=WORD,
        description="Seconds; the vendor's spelling.",
        keywords={"anyOf": [{"type": "string"}, {"type": "number"}]},
    )
    width = Integer(allow_none=True, text=WORD)
    height = Integer(allow_none=True, text=WORD)
    size = String(allow_none=True, text=WORD, description="`WIDTHxHEIGHT`, in place of `width` and `height`.")
    fps = Integer(allow_none=True, text=WORD)
    seed = Integer(allow_none=True, text=WORD)
    n = Integer(allow_none=True, text=WORD, description="The number of videos.")
    watermark = Boolean(allow_none=True)
    response_format = String(allow_none=True)
    user = String(allow_none=True)
    metadata = Object(allow_none=True)
    webhook_url = FunctionField(
        _check_webhook,
        allow_none=True,
        text=OTHER,
        description="An http or https address that gets a `POST` when the task has ended.",
        keywords={"type": "string", "maxLength": MAX_URL_LENGTH},
    )


class VideoFormSchema(VideoBodySchema):
    """The form of a route that creates a video."""

    model = String(validate=_check_not_blank, text=WORD, description="The name of a model of this gateway.")
    input_reference = File(description="The first picture.")


class RemixBodySchema(VideoBodySchema):
    """The body of a request that changes a finished video."""

    class Meta(BodySchema.Meta):
        fields = ("prompt", "user", "metadata", "webhook_url")


_VIDEO_SCHEMA: Final = get_schema(VideoBodySchema)
_REMIX_SCHEMA: Final = get_schema(RemixBodySchema)


def check_video(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field of the wrong type."""
    check(_VIDEO_SCHEMA, body)


def check_remix(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first field of a remix with the wrong type."""
    check(_REMIX_SCHEMA, body)


def select_unknown(body: Mapping[str, Any], *, remix: bool = False) -> dict[str, Any]:
    """Return the fields that the schema does not have."""
    known = (_REMIX_SCHEMA if remix else _VIDEO_SCHEMA).fields
    return {name: value for name, value in body.items() if name not in known}


class ModelBounds:
    """The limits of one model. The methods raise InvalidField for values outside them.

    Limits from conf are in `call.facts["video_bounds"]`, in the shape of BOUNDS: ``{"seconds": [1, 60]}``.
    """

    def __init__(self, call: Call) -> None:
        self._bounds = {**BOUNDS, **(call.facts.get("video_bounds") or {})}

    def check_bound(self, what: str, value: float | None, param: str) -> None:
        """Raise InvalidField when `value` is outside the limits named `what` in BOUNDS. None is always valid."""
        least, most = self._bounds[what]
        if value is not None and not least <= value <= most:
            raise_invalid(param, f"must be from {least:g} to {most:g}, not {value}")

    def read_seconds(self, body: Mapping[str, Any]) -> tuple[float | None, str]:
        """Return the length in seconds, or None, and the name of the field that set it."""
        duration, seconds = body.get("duration"), body.get("seconds")
        sent_seconds = None if seconds is None else float(seconds)
        self.check_bound("seconds", duration, "duration")
        self.check_bound("seconds", sent_seconds, "seconds")
        if duration is not None and sent_seconds is not None and duration != sent_seconds:
            raise_invalid("seconds", "differs from 'duration', which has the same meaning; send one of them")
        if sent_seconds is None:
            return None if duration is None else float(duration), "duration"
        return sent_seconds, "seconds"

    def read_size(self, body: Mapping[str, Any]) -> tuple[int | None, int | None, bool]:
        """Return width and height in pixels, both or neither, and whether ``size`` set them."""
        width, height = body.get("width"), body.get("height")
        self.check_bound("side", width, "width")
        self.check_bound("side", height, "height")
        if (width is None) != (height is None):
            there, other = ("width", "height") if height is None else ("height", "width")
            message = f"'{other}' is missing, but '{there}' is set. Send both or neither."
            raise InvalidField(other, message, code="missing_required_parameter")
        if body.get("size") is None:
            return width, height, False
        match = _SIZE_PATTERN.fullmatch(body["size"])
        if match is None:
            raise_invalid("size", f"must be WIDTHxHEIGHT in pixels, such as '1280x720', not '{body['size'][:50]}'")
        sides = int(match[1]), int(match[2])
        for side in sides:
            self.check_bound("side", side, "size")
        if width is not None and sides != (width, height):
            raise_invalid(
                "size", "differs from 'width' and 'height', which have the same meaning; send 'size' or both of them"
            )
        return *sides, width is None


def check_required_fields(body: Mapping[str, Any], *names: str) -> None:
    """Raise InvalidField for the first of `names` that the body lacks."""
    for name in names:
        if body.get(name) is None:
            raise_missing(name)
