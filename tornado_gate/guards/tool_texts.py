"""Limits of the JSON text inside a request: arguments and results of tool calls.

Some providers' formats need them as objects, so a plugin parses them: a text of 30 MB in one string could become a gigabyte of
objects, as the body itself could (`codec.json_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tornado_gate.codec.json_bounds import measure_json
from tornado_gate.errors import TooLarge
from tornado_gate.types import Request, Text, ToolCall, ToolResult


def check_tool_texts(request: Request, max_cost: int) -> None:
    """Raise TooLarge if the values in the arguments and results of all tool calls together cost more than `max_cost`."""
    left = max_cost
    try:
        for text in _iterate_texts(request):
            left -= measure_json(text.encode("utf-8", "surrogatepass"), left).cost
    except TooLarge:
        raise TooLarge(
            "The JSON in the arguments and results of tool calls has too many values: all together exceed the limit of "
            f"{max_cost} (limits.body_values). Send fewer or smaller tool calls.",
            code="too_many_values",
        ) from None


def _iterate_texts(request: Request) -> Iterator[str]:
    for message in getattr(request, "messages", ()):
        for part in message.parts:
            if isinstance(part, ToolCall) and part.kind == "function":
                yield part.arguments
            elif isinstance(part, ToolResult):
                text = "".join(inner.text for inner in part.parts if isinstance(inner, Text))
                if text.lstrip().startswith(("{", "[")):
                    yield text
