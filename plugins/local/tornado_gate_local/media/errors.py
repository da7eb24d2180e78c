"""Errors of the media modules. They are not GateErrors, because these modules do not know the caller's field names."""

from __future__ import annotations

from importlib.util import find_spec

EXTRA = "tornado-gate-local[media]"


class MediaError(ValueError):
    """The caller's argument is invalid. `param` names the argument, such as "mask"; `message` is safe to show."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(param, message)
        self.param = param
        self.message = message

    def __str__(self) -> str:
        return self.message


class MediaUnavailable(MediaError):
    """The optional library is not installed; `param` names the argument that needs it."""


def is_installed(module: str) -> bool:
    """Whether an optional library is installed, without importing it."""
    return find_spec(module) is not None


def require_module(module: str, param: str, what: str) -> None:
    """Raises MediaUnavailable unless `module` is installed."""
    if not is_installed(module):
        raise MediaUnavailable(
            param, f"{what} needs optional libraries that are not installed. Run: pip install '{EXTRA}'."
        )
