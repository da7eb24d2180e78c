"""Tests of this folder have the marker `qa`, except those with the marker `representative`, which `make test` runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.fixtures import *  # noqa: F403

MARKERS = ("mark.representative", "represent(")


@cache
def has_representatives(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return any(marker in text for marker in MARKERS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without representatives out of `make test`: their imports take seconds in each of its processes."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and config.option.markexpr == "not qa" and not has_representatives(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("representative") is None:
        item.add_marker("qa")
    else:
        assert has_representatives(item.path), (
            f"{item.path} must contain one of {MARKERS}, otherwise `make test` leaves it out"
        )
