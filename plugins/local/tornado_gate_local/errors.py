"""The error of functions that compute results. It is not a GateError, because they do not know the caller's field names."""

from __future__ import annotations


class InvalidArgument(ValueError):
    """The caller's argument is invalid. `param` names the argument, such as "mask"; `message` is safe to show."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(param, message)
        self.param = param
        self.message = message

    def __str__(self) -> str:
        return self.message
