"""The check of a configuration that was imported, before its environment variables are set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tornado_gate.config import FileFaults, describe, load
from tornado_gate.config import source as yaml_source
from tornado_gate.config.faults import KeyPath

STAND_IN: Final = "https://not-set.invalid/v1"


class _AnyVariable(Mapping[str, str]):
    """An environment in which each variable has a value that is both an address and a key."""

    def __getitem__(self, name: str) -> str:
        return STAND_IN

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def find_faults(text: str, path: Path) -> list[str]:
    """Return the faults that `tornado-gate check` finds in the text, except in values that come from the environment."""
    try:
        load(path, _AnyVariable(), text=text)
    except FileFaults as error:
        values = yaml_source.parse(text, path).values
        own = [fault for fault in error.faults if "${" not in str(_find_value(values, fault[0]))]
        return describe(own, path, error.lines)
    return []


def _find_value(value: object, path: KeyPath) -> object:
    for key in path:
        try:
            value = value[key]  # type: ignore[index]
        except (LookupError, TypeError):
            return None
    return value if isinstance(value, str) else None
