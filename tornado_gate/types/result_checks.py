"""The check of a whole chat response that a plugin has made. Responses with an already checked shape take a fast path."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import astuple

from tornado_gate.types.content import Refusal, Text, Thinking, ToolCall
from tornado_gate.types.field_checks import find_wrong_field
from tornado_gate.types.results import ChatResult

_MAX_SHAPES: Final = 1000
_MAX_LENGTH: Final = 200
_PLAIN_PARTS: Final = frozenset({Refusal, Text, Thinking, ToolCall})

_right_shapes: set[tuple[Any, ...]] = set()
"""Shapes of valid responses: the types of all values, and the words in fields that allow only certain words."""


def find_wrong_result_field(result: ChatResult) -> str:
    """Return the fault of the first wrong field, as `find_wrong_field`."""
    shape = _read_shape(result)
    if shape is not None and shape in _right_shapes:
        return ""
    wrong = find_wrong_field(result)
    if not wrong and shape is not None and len(_right_shapes) < _MAX_SHAPES:
        _right_shapes.add(shape)
    return wrong


def _read_shape(result: ChatResult) -> tuple[Any, ...] | None:
    """Return the shape that decides whether the fields are valid. Return None for values that must be checked one by one, and
    for many values.

    `join` refuses member names that are not strings.
    """
    try:
        usage = result.usage
        shape: list[Any] = [*map(type, astuple(result))]
        "".join(result.extra)
        if usage is not None:
            shape += map(type, astuple(usage))
            "".join(usage.extra)
        for choice in result.choices:
            shape += map(type, astuple(choice))
            shape += type(choice), choice.reason
            if choice.extra:
                "".join(choice.extra)
            if choice.logprobs or type(choice.reason) is not str:
                return None
            for part in choice.parts:
                kind = type(part)
                if kind not in _PLAIN_PARTS or (kind is Text and part.citations):
                    return None
                if kind is not Refusal and part.signature is not None:
                    return None
                shape.append(kind)
                shape += map(type, astuple(part))
                if part.extra:
                    "".join(part.extra)
    except (AttributeError, TypeError):
        return None
    return tuple(shape) if len(shape) <= _MAX_LENGTH else None
