"""What a maker cannot do. Not errors of the gateway: a maker does not know how the caller spelled a field."""

from __future__ import annotations

from importlib.util import find_spec

EXTRA = "tornado-gate-local[media]"


class MediaError(ValueError):
    """The caller can mend it. `param` is the argument of the maker that is wrong, such as "mask"; `message` is safe."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(param, message)
        self.param = param
        self.message = message

    def __str__(self) -> str:
        return self.message


class MediaUnavailable(MediaError):
    """The optional library for it is not installed; `param` names the argument that asks for it."""


def is_installed(module: str) -> bool:
    """Whether an optional library is there, without importing it."""
    return find_spec(module) is not None


def require_module(module: str, param: str, what: str) -> None:
    """Raises MediaUnavailable unless `module` is installed."""
    if not is_installed(module):
        raise MediaUnavailable(param, f"{what} needs the optional libraries of {EXTRA}, which are not installed here.")
