"""The vendor's errors: exact messages, parameters and codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Refusal(Exception):
    """A request that the vendor refuses. `param` is the vendor's path, such as ``input[0].content[1].file_data``."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def body(self) -> dict[str, Any]:
        error = {"message": str(self), "type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": error}


def quote_choices(values: Sequence[str]) -> str:
    """``'a', 'b', and 'c'``, as in the vendor's messages."""
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + f", and {quoted[-1]}"


def unknown_parameter(param: str) -> Refusal:
    return Refusal(f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def missing_parameter(param: str) -> Refusal:
    return Refusal(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def invalid_type(param: str, expected: str, got: str) -> Refusal:
    return Refusal(f"Invalid type for '{param}': expected {expected}, but got {got} instead.", param, "invalid_type")


def invalid_value(param: str, value: Any, supported: Sequence[str]) -> Refusal:
    message = f"Invalid value: '{value}'. Supported values are: {quote_choices(supported)}."
    return Refusal(message, param, "invalid_value")


def unsupported_parameter(param: str) -> Refusal:
    """Source: OpenHands/software-agent-sdk#1837 and browser-use/browser-use#283."""
    return Refusal(
        f"Unsupported parameter: '{param}' is not supported with this model.", param, "unsupported_parameter"
    )


def unsupported_value(param: str, value: Any, supported: Sequence[str]) -> Refusal:
    """Source: livekit/agents#7169 and google-deepmind/concordia#164."""
    message = (
        f"Unsupported value: '{param}' does not support '{value}' with this model. "
        f"Supported values are: {quote_choices(supported)}."
    )
    return Refusal(message, param, "unsupported_value")


def too_long_text(param: str, most: int, length: int) -> Refusal:
    """Source: AnswerDotAI/fastllm#45 and vercel/ai#5171."""
    message = (
        f"Invalid '{param}': string too long. Expected a string with maximum length {most}, "
        f"but got a string with length {length} instead."
    )
    return Refusal(message, param, "string_above_max_length")


def too_long_array(param: str, most: int, length: int) -> Refusal:
    """Source: continuedev/continue#2461 and 0x4m4/hexstrike-ai#29."""
    message = (
        f"Invalid '{param}': array too long. Expected an array with maximum length {most}, "
        f"but got an array with length {length} instead."
    )
    return Refusal(message, param, "array_above_max_length")


def wrong_pattern(param: str, pattern: str) -> Refusal:
    message = (
        f"Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '{pattern}'."
    )
    return Refusal(message, param, "invalid_value")


def out_of_range(param: str, bound: str, value: Any) -> Refusal:
    """`bound` such as ``>= 16``. Source: earendil-works/pi#6265."""
    kind = "integer" if isinstance(value, int) else "decimal"
    code = f"{kind}_below_min_value" if bound.startswith(">") else f"{kind}_above_max_value"
    direction = "below minimum" if bound.startswith(">") else "above maximum"
    message = f"Invalid '{param}': {kind} {direction} value. Expected a value {bound}, but got {value} instead."
    return Refusal(message, param, code)
