"""Finds the package of the media operations: images, videos, speech and voice sessions.

It is another distribution, because Pillow, PyAV and eSpeak NG take 150 MB. That package imports this one, not the reverse:
here are only its name and the functions of `MediaPackage`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

from tornado_gate.types import Call, RealtimeRequest, Request, Socket
from tornado_gate_local.operations.work import DownloadWork, OperationWork

PACKAGE: Final = "tornado_gate_demo_media"
INSTALL: Final = "Run: pip install tornado-gate-demo-media"


class MediaPackage(Protocol):
    """The functions of the module ``tornado_gate_demo_media.operations``."""

    async def prepare(self, call: Call, request: Request) -> OperationWork | DownloadWork | None:
        """Return the prepared work of a request; None for an operation that is not served. Raises InvalidField."""

    def open_session(self, call: Call, request: RealtimeRequest, pace_seconds: float) -> Socket:
        """Open a voice session. Raises InvalidField when a field that a client secret fixes is not supported."""


def is_installed() -> bool:
    """Whether the package is installed, without importing it."""
    return find_spec(PACKAGE) is not None


def load() -> MediaPackage:
    """Import the package. Raises ImportError if it is not installed."""
    return cast(MediaPackage, import_module(f"{PACKAGE}.operations"))
