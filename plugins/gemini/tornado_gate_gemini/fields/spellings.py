"""The two spellings of members: callers use camelCase and snake_case, which protobuf's JSON both accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tornado_gate.codec.fields import BodySchema
from tornado_gate.errors import InvalidField


class GeminiSchema(BodySchema):
    """Base class of schemas whose members are declared in camelCase. Bodies are converted to it and then checked."""

    snake_case = True


def check_with_caller_paths(body: Mapping[str, Any], checker: Callable[[Any], None]) -> Mapping[str, Any]:
    """Return `body` in camelCase after `checker` accepted it. An InvalidField has the path as the caller spelled it."""
    from tornado_gate_gemini.wire.generate import convert_to_camel_case, restore_spelling

    converted: dict[str, Any] = convert_to_camel_case(dict(body))
    try:
        checker(converted)
    except InvalidField as error:
        path = restore_spelling(body, error.param)
        if path == error.param:
            raise
        raise replace_path(error, path) from None
    return converted


def replace_path(error: InvalidField, path: str) -> InvalidField:
    """Return the error with another path, in its message, too."""
    message = error.message.replace(f"'{error.param}'", f"'{path}'", 1)
    return InvalidField(path, message, code=error.code)
