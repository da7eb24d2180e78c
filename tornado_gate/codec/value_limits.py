"""The rule whether checks refuse unknown words and exceeded limits, or leave them to the upstream. One definition for all checks.

On the common lane the gateway translates a body, so it must understand each value. On the verbatim lane the upstream reads the
caller's bytes. Upstreams of one wire format differ in their words and limits (Mistral has ``tool_choice: "any"``, vLLM has
``response_format: {"type": "structural_tag"}``), so only the upstream can decide whether a value is valid. The types of values
are checked on both lanes, because the gateway itself reads some of them.

Public, for format plugins: call the check of a body with `check_for_upstream` in ``forward_request``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_FOR_UPSTREAM: Final[ContextVar[bool]] = ContextVar("for_upstream", default=False)


def check_for_upstream(
    check: Callable[_Arguments, _Result], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> _Result:
    """Call `check`, whose unknown words and exceeded limits are left to the upstream. Return its result, and raise its errors."""
    token = _FOR_UPSTREAM.set(True)
    try:
        return check(*arguments, **options)
    finally:
        _FOR_UPSTREAM.reset(token)


def are_left_to_upstream() -> bool:
    """Return whether the running check leaves unknown words and exceeded limits to the upstream."""
    return _FOR_UPSTREAM.get()
