"""What the tests of conf share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tornado_gate import config


class Conf:
    """A conf file in a folder of the test's own; what it reports is called FILE."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate.yaml"

    def load(self, text: str, environment: Mapping[str, str] | None = None) -> config.Config:
        self.path.write_text(text, encoding="utf-8")
        return config.load(self.path, environment or {})

    def report(self, text: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """Every fault of `text`, or nothing when it is sound."""
        try:
            self.load(text, environment)
        except config.FileFaults as faults:
            return [line.replace(str(self.path), "FILE") for line in faults.report()]
        return []
