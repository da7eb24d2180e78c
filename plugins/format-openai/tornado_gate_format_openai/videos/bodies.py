"""What a body that asks for a video may hold, in the contract's names and in the vendor's. Nothing is converted.

The contract names ``image``, ``duration``, ``width`` and ``height``, openai-python 3.52 ``input_reference``, ``seconds`` and
``size`` (types/video_create_params.py); every route takes both, but not two that differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from marshmallow import ValidationError

from tornado_gate.codec.checks import missing, wrong
from tornado_gate.codec.fields import MAX_INTEGER, Body, Boolean, Checked, Integer, Number, Object, String, check, named
from tornado_gate.errors import InvalidField
from tornado_gate.types import Call
from tornado_gate_format_openai.images.schemas import check_reference

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {"seconds": (1, 60), "side": (64, 4096), "fps": (1, 60), "n": (1, 4)}
"""Least and most: seconds, pixels of a side, pictures a second, videos. Conf may change them for a model."""
LONGEST_PROMPT: Final = 32_000
"""Characters. A task repeats its prompt in every answer."""
LONGEST_ADDRESS: Final = 2048
"""Characters of a webhook's address."""

_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_SIZE: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,6})")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f\\]")


def _not_blank(text: str) -> None:
    if not text.strip():
        raise ValidationError("must not be empty")


def _check_seconds(value: Any) -> None:
    """The vendor's is a string; a number says the same."""
    if isinstance(value, str):
        if not _SECONDS.fullmatch(value):
            wrong("seconds", f"must be a number of seconds, such as '4', not '{value[:50]}'")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        wrong("seconds", f"must be a string, such as '4', or a number, not {named(value)}")
    elif not abs(value) <= MAX_INTEGER:
        wrong("seconds", "is beyond all bounds")


def _check_webhook(value: Any) -> None:
    """What is behind the address is looked at when it is called."""
    if not isinstance(value, str):
        wrong("webhook_url", f"must be a string, not {named(value)}")
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or _UNFIT.search(value) or len(value) > LONGEST_ADDRESS:
        wrong("webhook_url", f"must be an http(s) address of at most {LONGEST_ADDRESS} characters")
    if "@" in parts.netloc:
        wrong("webhook_url", "must hold no user name or password")


class VideoBody(Body):
    """The body of every route that begins a video."""

    model = String(required=True, validate=_not_blank)
    prompt = String(required=True, validate=_not_blank, longest=LONGEST_PROMPT)
    image = String(allow_none=True)
    input_reference = Checked(lambda value: check_reference(value, "input_reference"), allow_none=True)
    duration = Number(allow_none=True)
    seconds = Checked(_check_seconds, allow_none=True)
    width = Integer(allow_none=True)
    height = Integer(allow_none=True)
    size = String(allow_none=True)
    fps = Integer(allow_none=True)
    seed = Integer(allow_none=True)
    n = Integer(allow_none=True)
    watermark = Boolean(allow_none=True)
    response_format = String(allow_none=True)
    user = String(allow_none=True)
    metadata = Object(allow_none=True)
    webhook_url = Checked(_check_webhook, allow_none=True)


_VIDEO: Final = VideoBody()
_REMIX: Final = VideoBody(only=("prompt", "user", "metadata", "webhook_url"))


def check_video(body: Mapping[str, Any]) -> None:
    """Raises InvalidField for the first field of the wrong type."""
    check(_VIDEO, body)


def check_remix(body: Mapping[str, Any]) -> None:
    """The same for a remix."""
    check(_REMIX, body)


def unknown_in(body: Mapping[str, Any], *, remix: bool = False) -> dict[str, Any]:
    """The fields that nobody here knows."""
    known = (_REMIX if remix else _VIDEO).fields
    return {name: value for name, value in body.items() if name not in known}


class Bounds:
    """The bounds of one model. Its methods raise InvalidField for what is beyond them.

    Conf's are in `call.facts["video_bounds"]`, in the shape of BOUNDS: ``{"seconds": [1, 60]}``.
    """

    def __init__(self, call: Call) -> None:
        self._bounds = {**BOUNDS, **(call.facts.get("video_bounds") or {})}

    def check(self, what: str, value: float | None, param: str) -> None:
        """`what` is a name in BOUNDS. Nothing said is within all bounds."""
        least, most = self._bounds[what]
        if value is not None and not least <= value <= most:
            wrong(param, f"must be from {least:g} to {most:g}, not {value}")

    def seconds(self, body: Mapping[str, Any]) -> tuple[float | None, str]:
        """The length and the name of the field that said it."""
        duration, seconds = body.get("duration"), body.get("seconds")
        said = None if seconds is None else float(seconds)
        self.check("seconds", duration, "duration")
        self.check("seconds", said, "seconds")
        if duration is not None and said is not None and duration != said:
            wrong("seconds", "differs from 'duration', which means the same: give one of them")
        if said is None:
            return None if duration is None else float(duration), "duration"
        return said, "seconds"

    def sides(self, body: Mapping[str, Any]) -> tuple[int | None, int | None, bool]:
        """Width and height in pixels, both or neither, and whether ``size`` said them."""
        width, height = body.get("width"), body.get("height")
        self.check("side", width, "width")
        self.check("side", height, "height")
        if (width is None) != (height is None):
            there, other = ("width", "height") if height is None else ("height", "width")
            message = f"'{other}' is missing, which '{there}' needs: give both or neither."
            raise InvalidField(other, message, code="missing_required_parameter")
        if body.get("size") is None:
            return width, height, False
        match = _SIZE.fullmatch(body["size"])
        if match is None:
            wrong("size", f"must be WIDTHxHEIGHT in pixels, such as '1280x720', not '{body['size'][:50]}'")
        sides = int(match[1]), int(match[2])
        for side in sides:
            self.check("side", side, "size")
        if width is not None and sides != (width, height):
            wrong("size", "differs from 'width' and 'height', which mean the same: give one of them")
        return *sides, width is None


def need(body: Mapping[str, Any], *names: str) -> None:
    """Raises InvalidField for the first of `names` that is not there."""
    for name in names:
        if body.get(name) is None:
            missing(name)
