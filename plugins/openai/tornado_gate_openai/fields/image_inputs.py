"""Checks of bodies with ``input`` and ``parameters``, for generations and edits.

The fields are the contract's; ``seed``, ``response_format``, ``stream`` and ``user`` are accepted in addition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_array, need_object, need_string, raise_invalid, raise_missing, string_member
from tornado_gate.codec.fields import BodySchema, Boolean, FunctionField, Integer, Object, String, check
from tornado_gate_openai.fields.images import check_stream

MAX_MESSAGES: Final = 100
MAX_ITEMS: Final = 100

_VENDOR_MEMBERS: Final = ("prompt", "images")
"""Fields that only bodies with ``prompt`` have."""
_SIZE_PATTERN: Final = re.compile(r"[1-9]\d{0,4}\*[1-9]\d{0,4}|[124][kK]")


def is_input_style(body: Mapping[str, Any], *, edits: bool, form: bool) -> bool:
    """Return whether an unchecked body has this shape. An ambiguous body has the contract's shape: for edits, this one."""
    if form:
        return False
    if any(body.get(name) is not None for name in _VENDOR_MEMBERS):
        return False
    return edits or "input" in body or "parameters" in body


def _check_size(size: Any) -> None:
    need_string(size, "parameters.size")
    if _SIZE_PATTERN.fullmatch(size) is None:
        raise_invalid("parameters.size", f"must be WIDTH*HEIGHT, such as '1024*1024', not '{size[:50]}'")


class _ParametersSchema(BodySchema):
    n = Integer(least=1, most=10, allow_none=True)
    negative_prompt = String(allow_none=True)
    prompt_extend = Boolean(allow_none=True)
    seed = Integer(allow_none=True)
    size = FunctionField(_check_size, allow_none=True)
    watermark = Boolean(allow_none=True)


class InputBodySchema(BodySchema):
    """A body with ``input`` and ``parameters``."""

    model = String(required=True)
    input = Object(required=True)
    parameters = Object(_ParametersSchema, allow_none=True)
    response_format = String(choices=("url", "b64_json"), allow_none=True)
    stream = FunctionField(check_stream, allow_none=True)
    user = String(allow_none=True)


_INPUT_SCHEMA: Final = InputBodySchema()


def check_input_generation(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of a generation. Each content item must be a text."""
    check(_INPUT_SCHEMA, body)
    for item, path in _iterate_items(body["input"]):
        string_member(item, "text", path)
    _require_text(body["input"])


def check_input_of_edit(body: Mapping[str, Any]) -> None:
    """Raise InvalidField for the first invalid field of an edit, which needs an image and a text."""
    check(_INPUT_SCHEMA, body)
    images = 0
    for item, path in _iterate_items(body["input"]):
        if item.get("image") is not None:
            images += 1
            string_member(item, "image", path)
            if item.get("text") is not None:
                raise_invalid(path, "must have either 'image' or 'text', not both")
        elif item.get("text") is None:
            raise_invalid(path, "must have 'image' or 'text'")
        else:
            string_member(item, "text", path)
    if not images:
        raise_invalid("input.messages", 'must have an image to edit: a content item {"image": "URL or base64"}')
    _require_text(body["input"])


def iterate_images(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the images of a checked body, each with its path."""
    for item, path in _iterate_items(body["input"]):
        if item.get("image") is not None:
            yield item["image"], f"{path}.image"


def _iterate_items(asked: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the content items of all messages with their paths. Raises InvalidField for an invalid message."""
    if asked.get("messages") is None:
        raise_missing("input.messages")
    messages = need_array(asked["messages"], "input.messages")
    _check_length(messages, "input.messages", MAX_MESSAGES)
    for number, message in enumerate(messages):
        path = f"input.messages.{number}"
        need_object(message, path)
        string_member(message, "role", path)
        if message.get("content") is None:
            raise_missing(f"{path}.content")
        content = need_array(message["content"], f"{path}.content")
        _check_length(content, f"{path}.content", MAX_ITEMS)
        for index, item in enumerate(content):
            yield need_object(item, f"{path}.content.{index}"), f"{path}.content.{index}"


def _check_length(items: list[Any], path: str, most: int) -> None:
    if not items:
        raise_invalid(path, "must not be empty")
    if len(items) > most:
        raise_invalid(path, f"has {len(items)} items; at most {most} are allowed")


def _require_text(asked: Mapping[str, Any]) -> None:
    if not any(item.get("text") for message in asked["messages"] for item in message["content"]):
        raise_invalid("input.messages", 'must have a text that describes the image: a content item {"text": "..."}')
