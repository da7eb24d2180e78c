"""Request bodies as `ImageRequest`. Pure.

The vendor documents one message of role "user"; only this form has common fields. For other messages, the texts of all
messages become the prompt (one line each) and their images the input images, in order. `extra` then has the messages
themselves as ``input.messages``, which only upstreams of this format receive.

Names in `extra` are paths: ``parameters.seed_mode`` for an unknown parameter, ``input.function`` beside the messages, a plain
name at the top level. A size that is a label (``2K``) becomes the request's `resolution`.

Source: https://www.alibabacloud.com/help/en/model-studio/qwen-image-api and /qwen-image-edit-api ("only single-turn
conversations": one message, role user), /wan-image-generation-api-reference for size labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tornado_gate.http.fetch.pictures import parse_image_source
from tornado_gate.types import Data, ImageRequest, Link
from tornado_gate_openai.wire import formats

WIRE_FORMAT: Final = formats.DASHSCOPE_IMAGES

INPUT: Final = "input."
PARAMETERS: Final = "parameters."
MESSAGES: Final = "input.messages"

SHARED_FIELDS: Final = ("n", "negative_prompt", "prompt_extend", "seed", "watermark")
"""Parameters with a common field of the same name."""

_TOP_MEMBERS: Final = ("model", "input", "parameters", "response_format", "stream", "user")
"""``response_format`` is the gateway's own extension: it selects URLs or base64 in the response."""
_RESOLUTION_LABEL: Final = re.compile(r"[0-9]+[kK]")


def parse_request(body: Mapping[str, Any]) -> ImageRequest:
    """The `ImageRequest` of a validated body. Raises InvalidField for an image that is neither a URL nor a file."""
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
    """Paths and values of all texts, or all images, of the messages."""
    for number, message in enumerate(messages):
        for index, item in enumerate(message["content"]):
            if item.get(kind) is not None:
                yield f"{MESSAGES}.{number}.content.{index}.{kind}", item[kind]


def _parse_size(value: str | None) -> tuple[str | None, str | None]:
    """(size, resolution) of the parameter ``size``: "1024*768" is ("1024x768", None), "2K" is (None, "2K")."""
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
    """Return whether a prompt and a list of images express the messages completely."""
    if len(messages) != 1 or messages[0].get("role") != "user" or messages[0].keys() - {"role", "content"}:
        return False
    return all(len(item) == 1 and item.keys() <= {"text", "image"} for item in messages[0]["content"])


def _map_names(texts: Sequence[str], pictures: Sequence[str]) -> dict[str, str]:
    names = {name: PARAMETERS + name for name in (*SHARED_FIELDS, "size")}
    names["resolution"] = names["aspect_ratio"] = names["size"]
    names["prompt"] = texts[0] if texts else MESSAGES
    names["images"] = pictures[0] if pictures else MESSAGES
    return names | {f"images.{index}": path for index, path in enumerate(pictures)}
