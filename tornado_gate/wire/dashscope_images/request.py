"""Requests: body to `ImageRequest`. Pure.

The vendor takes one message of role "user" and nothing else, so that is what has words of its own in the vocabulary. Anything
more is kept as it came: the texts and pictures of all messages, in their order, make the prompt (a line each) and the images,
and `extra` has the messages themselves as ``input.messages``, which only an upstream of this shape can be sent.

Names in `extra` are paths: ``parameters.seed_mode`` for an unknown parameter, ``input.function`` beside the messages, a bare
name at the top. A size that is a label (``2K``) is the request's `resolution`.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api and /qwen-image-edit-api ("only single-turn
conversations": one message, role user), /wan-image-generation-api-reference for size labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types import Data, ImageRequest, Link
from tornado_gate.wire import formats

WIRE_FORMAT: Final = formats.DASHSCOPE_IMAGES

INPUT: Final = "input."
PARAMETERS: Final = "parameters."
MESSAGES: Final = "input.messages"

SHARED_FIELDS: Final = ("n", "negative_prompt", "prompt_extend", "seed", "watermark")
"""Parameters that the vocabulary has under the same name."""

_TOP_MEMBERS: Final = ("model", "input", "parameters", "response_format", "stream", "user")
"""``response_format`` is the gateway's own: how its answer is to look."""
_RESOLUTION_LABEL: Final = re.compile(r"[0-9]+[kK]")


def parse_request(body: Mapping[str, Any]) -> ImageRequest:
    """The common request in a body that was checked before. Raises InvalidField for a picture that is no address and no file."""
    messages = body["input"]["messages"]
    parameters = body.get("parameters") or {}
    texts = list(_iterate_members(messages, "text"))
    pictures = list(_iterate_members(messages, "image"))
    images: tuple[Data | Link, ...] = tuple(parse_image_source(value, path) for path, value in pictures)
    size, resolution = _parse_size(parameters.get("size"))
    same: dict[str, Any] = {name: parameters.get(name) for name in SHARED_FIELDS}
    return ImageRequest(
        model=body.get("model") or "",
        wire_format=WIRE_FORMAT,
        prompt="\n".join(text for _, text in texts),
        images=images,
        size=size,
        resolution=resolution,
        stream=body.get("stream") in (True, "true"),
        user=body.get("user"),
        extra=_select_extra(body, messages, parameters),
        names=_map_names([path for path, _ in texts], [path for path, _ in pictures]),
        **same,
    )


def _iterate_members(messages: Sequence[Mapping[str, Any]], kind: str) -> Iterator[tuple[str, str]]:
    """Paths and values of the texts, or of the images, of all messages."""
    for number, message in enumerate(messages):
        for index, item in enumerate(message["content"]):
            if item.get(kind) is not None:
                yield f"{MESSAGES}.{number}.content.{index}.{kind}", item[kind]


def _parse_size(value: str | None) -> tuple[str | None, str | None]:
    """Size and resolution of a parameter ``size``: "1024*768" is ("1024x768", None), "2K" is (None, "2K")."""
    if value is None:
        return None, None
    return (None, value) if _RESOLUTION_LABEL.fullmatch(value) else (value.replace("*", "x"), None)


def _select_extra(
    body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    extra = {name: value for name, value in body.items() if name not in _TOP_MEMBERS}
    if not _is_usual(messages):
        extra[MESSAGES] = messages
    extra |= {INPUT + name: value for name, value in body["input"].items() if name != "messages"}
    extra |= {PARAMETERS + name: value for name, value in parameters.items() if name not in (*SHARED_FIELDS, "size")}
    return {name: value for name, value in extra.items() if value is not None}


def _is_usual(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the messages say no more than a prompt and pictures do."""
    if len(messages) != 1 or messages[0].get("role") != "user" or messages[0].keys() - {"role", "content"}:
        return False
    return all(len(item) == 1 and item.keys() <= {"text", "image"} for item in messages[0]["content"])


def _map_names(texts: Sequence[str], pictures: Sequence[str]) -> dict[str, str]:
    names = {name: PARAMETERS + name for name in (*SHARED_FIELDS, "size")}
    names["resolution"] = names["aspect_ratio"] = names["size"]
    names["prompt"] = texts[0] if texts else MESSAGES
    names["images"] = pictures[0] if pictures else MESSAGES
    return names | {f"images.{index}": path for index, path in enumerate(pictures)}
